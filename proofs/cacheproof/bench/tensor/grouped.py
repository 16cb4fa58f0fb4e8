"""Groups of layers with `KVCacheManager`, one request at a time: full attention, or a sliding window beside it."""

from __future__ import annotations

import hashlib
import time
from array import array
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from cacheimpl import KVCacheManager
from cacheproof.bench.measure import InTurns, Work
from cacheproof.bench.workload import prompt_of


@dataclass(slots=True)
class Request:
    """A request with the keys of its full blocks, as from vLLM 0.11 on."""

    request_id: str
    all_token_ids: list[int]
    block_hashes: list[bytes]
    num_computed_tokens: int = 0
    num_in_flight_tokens: int = 0
    mm_features: tuple[()] = ()
    lora_request: None = None
    cache_salt: None = None
    prompt_embeds: None = None
    sampling_params: None = None
    skip_reading_prefix_cache: bool = False
    status: Any = field(default_factory=lambda: SimpleNamespace(name="RUNNING"))


def hashed(name: str, tokens: list[int], block_size: int) -> Request:
    """A request with a SHA-256 key for each full block: the hash of the previous key and of the block's tokens."""
    keys, parent = list[bytes](), b""
    for start in range(0, len(tokens) - block_size + 1, block_size):
        parent = hashlib.sha256(parent + array("q", tokens[start : start + block_size]).tobytes()).digest()
        keys.append(parent)
    return Request(name, tokens, keys)


class SlidingWindowSpec(SimpleNamespace):
    """The spec of a group whose layers read a window of the tokens; the manager recognises it by its class name."""


def manager_of(blocks: int, block_size: int, limit: int, groups: int, window: int) -> Any:
    """A manager with room for `blocks` blocks in each group, and the null block."""
    full = SimpleNamespace(block_size=block_size)
    windowed = SlidingWindowSpec(block_size=block_size, sliding_window=window)
    specs = [SimpleNamespace(kv_cache_spec=spec) for spec in (full, windowed)[:groups]]
    return KVCacheManager(
        SimpleNamespace(num_blocks=groups * blocks + 1, kv_cache_groups=specs),
        limit,
        scheduler_block_size=block_size,
        hash_block_size=block_size,
        max_in_flight_tokens=limit,
    )


class ManagerDecode(InTurns):
    """Steps of one token for each running request: `allocate_slots(request, 1)`, one after the other."""

    def __init__(
        self, running: int, block_size: int, prompt: int, window: int, steps: int, turns: int, groups: int
    ) -> None:
        self.steps = steps
        limit = prompt + block_size + (1 + steps) * (turns + 1) + 1
        self.manager = manager_of(running * (-(-limit // block_size)), block_size, limit, groups, window)
        self.requests = []
        for number in range(running):
            tokens = [number * limit + position for position in range(limit)]
            request = hashed(str(number), tokens, block_size)
            computed = prompt + number % block_size
            if self.manager.allocate_slots(request, computed) is None:
                raise RuntimeError("the benchmark has room for all requests")
            request.num_computed_tokens = computed
            self.requests.append(request)

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Run `steps` steps after an untimed one; for each, the number of blocks that full attention was given."""
        self._step()
        steps = [self._step() for _ in range(self.steps)]
        return Work(self.steps, [taken for _, taken in steps], sum(seconds for seconds, _ in steps))

    def _step(self) -> tuple[float, int]:
        allocate = self.manager.allocate_slots
        started = time.process_time()
        given = [allocate(request, 1) for request in self.requests]
        seconds = time.process_time() - started
        for request in self.requests:
            request.num_computed_tokens += 1
        return seconds, sum(len(blocks.blocks[0]) for blocks in given)


class ManagerCycle(InTurns):
    """One prompt after the other, with keys made before: looked up, allocated, computed and freed."""

    def __init__(
        self, tokens: int, block_size: int, blocks: int, window: int, hit: int, times: int, groups: int
    ) -> None:
        self.manager, self.hit = manager_of(blocks, block_size, tokens, groups, window), hit
        self.requests = [hashed(str(number), prompt_of(number, tokens), block_size) for number in range(times)]

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Serve each prompt once, or with `hit` the first prompt as often; the number of hit tokens."""
        manager, seconds, found_in_all = self.manager, 0.0, 0
        for place in range(len(self.requests)):
            request = self.requests[0 if self.hit else place]
            tokens = len(request.all_token_ids)
            request.num_computed_tokens = 0
            started = time.process_time()
            found, computed, _ = manager.get_computed_blocks(request)
            given = manager.allocate_slots(request, tokens - computed, computed, found)
            request.num_computed_tokens = tokens
            manager.free(request)
            seconds += time.process_time() - started
            if given is None:
                raise RuntimeError("the benchmark has room for all requests")
            found_in_all += computed
        return Work(len(self.requests), [found_in_all], seconds)
