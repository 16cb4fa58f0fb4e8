"""Random calls on a release's KV cache manager and on ours under the rules of its era, one beside the other.

`manager_loads.py DRIVER SOURCE IMPL RULES FIRST LAST`. It stands alone: the Python of a release's environment runs it.
The calls are those that no scheduler of the drivers makes: slots whose registration is delayed, tokens that are loaded
from outside, blocks that are cached later, computed tokens that go back, blocks that are evicted by number. One JSON
object comes out: the calls of each sort, and the first difference of each load.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

BLOCK, BLOCKS, LIMIT, CALLS = 4, 14, 48, 150


class Sides:
    """Two managers, and the requests of both."""

    def __init__(self, rules: str, seed: int) -> None:
        self.rng = random.Random(seed)
        managers: Any = importlib.import_module("driver.kv_managers")
        module: Any = importlib.import_module("vllm.v1.core.kv_cache_manager")
        utilities: Any = importlib.import_module("vllm.v1.core.kv_cache_utils")
        package: Any = importlib.import_module("cacheimpl.kv_cache_manager")
        utilities.init_none_hash(managers.digest)
        self.hasher = utilities.get_request_block_hasher(BLOCK, managers.digest)
        self.request_of = managers.Request
        sizes = managers.block_sizes(module.KVCacheManager, BLOCK)
        config = managers.kv_cache_config(BLOCK, BLOCKS, 1)
        self.theirs = module.KVCacheManager(config, max_model_len=LIMIT, **sizes)
        self.ours = package.LaterKVCacheManager(config, max_model_len=LIMIT, rules=getattr(package, rules), **sizes)
        self.loads = "num_external_computed_tokens" in managers.parameters(self.theirs.allocate_slots)
        self.evicts = hasattr(self.theirs, "evict_blocks")
        self.requests: dict[str, Any] = {}
        self.slots: dict[str, int] = {}
        """Up to which token each request has slots."""
        self.cached: dict[str, int] = {}
        """Up to which token each was cached; 0.11.0 does not go back."""
        self.names = 0
        self.made: Counter[str] = Counter()

    def both(self, name: str, call: Callable[[Any], Any]) -> Any:
        """What ours answers, which the release's has to answer too."""
        self.made[name] += 1
        answers = call(self.theirs), call(self.ours)
        assert answers[0] == answers[1], (name, *answers)
        states = self.state(self.theirs), self.state(self.ours)
        assert states[0] == states[1], (name, *states)
        return answers[1]

    def state(self, manager: Any) -> Any:
        """Tables, the free queue, references, and which blocks can be found."""
        pool = manager.block_pool
        return (
            [manager.get_block_ids(name) for name in self.requests],
            [block.block_id for block in pool.free_block_queue.get_all_free_blocks()],
            [block.ref_cnt for block in pool.blocks if not block.is_null],
            [block.block_hash is not None for block in pool.blocks],
        )

    def step(self) -> None:
        """One call, or one lookup and its slots."""
        names = list(self.requests)
        moves = [self.admit] + ([self.go_on, self.go_on, self.cache, self.back, self.free] if names else [])
        moves += [self.evict] if self.evicts else []
        self.rng.choice(moves)()

    def admit(self) -> None:
        """A new request, behind its hits, and perhaps behind tokens from outside; perhaps without registering."""
        self.names += 1
        tokens = [self.rng.randrange(2) for _ in range(self.rng.randint(1, 30))]
        request = self.request_of(str(self.names), tokens)
        request.block_hashes.extend(self.hasher(request))
        found = self.both("look up", lambda made: len(made.get_computed_blocks(request)[0].blocks[0]))
        left = len(tokens) - found * BLOCK
        external = self.rng.randint(0, left) if self.loads and self.rng.random() < 0.5 else 0
        new = self.rng.randint(0 if external else 1, left - external) if left > external else 0
        delay = self.rng.random() < 0.4
        more = {"num_external_computed_tokens": external} if external else {}

        def call(made: Any) -> Any:
            blocks, count, *_ = made.get_computed_blocks(request)
            fresh = made.allocate_slots(request, new, count, blocks, delay_cache_blocks=delay, **more)
            return None if fresh is None else made.get_block_ids(request.request_id)

        if new + external == 0 or self.both(f"admit{', delayed' * delay}", call) is None:
            return
        self.requests[request.request_id] = request
        request.num_computed_tokens = found * BLOCK + external + new
        self.slots[request.request_id] = self.cached[request.request_id] = request.num_computed_tokens

    def go_on(self) -> None:
        """More of the prompt, or one token of output."""
        name, request = self.rng.choice(list(self.requests.items()))
        if len(request.all_token_ids) >= LIMIT:
            return
        if request.num_computed_tokens >= len(request.all_token_ids):
            request.all_token_ids.append(self.rng.randrange(2))
            request.block_hashes.extend(self.hasher(request))
        new = self.rng.randint(1, len(request.all_token_ids) - request.num_computed_tokens)
        delay = self.rng.random() < 0.2

        def call(made: Any) -> Any:
            fresh = made.allocate_slots(request, new, delay_cache_blocks=delay)
            return None if fresh is None else fresh.get_block_ids()

        if self.both(f"go on{', delayed' * delay}", call) is not None:
            request.num_computed_tokens += new
            self.slots[name] = self.cached[name] = request.num_computed_tokens

    def cache(self) -> None:
        """What was loaded or computed is cached now."""
        name, request = self.rng.choice(list(self.requests.items()))
        tokens = self.rng.randint(0, self.slots[name]) if self.evicts else self.cached[name]
        self.both("cache", lambda made: made.cache_blocks(request, tokens))

    def back(self) -> None:
        """A load has failed."""
        request = self.rng.choice(list(self.requests.values()))
        if self.evicts and request.num_computed_tokens:
            request.num_computed_tokens = self.rng.randrange(request.num_computed_tokens)
            self.made["back"] += 1

    def free(self) -> None:
        """The request is over."""
        name, request = self.rng.choice(list(self.requests.items()))
        self.both("free", lambda made: made.free(request))
        del self.requests[name]

    def evict(self) -> None:
        """A block is not found any more."""
        number = self.rng.randrange(1, BLOCKS)
        self.both("evict", lambda made: made.evict_blocks({number}))


def main(driver: str, source: str, impl: str, rules: str, first: str, last: str) -> None:
    """Print how the loads ended."""
    sys.path[:0] = [driver, impl]
    answers, sys.stdout = sys.stdout, sys.stderr
    importlib.import_module("driver.stand_ins").install(Path(source))
    made: Counter[str] = Counter()
    differences: dict[int, str] = {}
    for seed in range(int(first), int(last)):
        sides = Sides(rules, seed)
        try:
            for _ in range(CALLS):
                sides.step()
        except Exception as error:  # noqa: BLE001  # whatever it is
            differences[seed] = f"{type(error).__name__}: {error}"[:400]
        made += sides.made
    answers.write(json.dumps({"made": made, "differences": differences}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
