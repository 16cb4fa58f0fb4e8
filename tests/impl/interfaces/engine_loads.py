"""Random loads in a release's own scheduler, with our KV cache manager or with its own.

`engine_loads.py DRIVER SOURCE IMPL FIRST LAST [RULES...]`. It stands alone: the Python of a release's environment runs
it. The worker is made up: it has a slot for each token of each block, executes steps in order, accepts drafts at
random, and reports the first read of a slot that does not have the KV of the request's token. One JSON object comes
out: for each mode and each rule, how each load ended.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

BLOCK, BLOCKS, LIMIT, STEPS = 4, 24, 64, 120
STEPPING = {"sync": (False, 0), "async": (True, 0), "drafts": (False, 3), "async and drafts": (True, 3)}
"""Whether a step is in flight while the next one is scheduled, and drafts per step."""
MODES = {
    **{name: (*steps, "") for name, steps in STEPPING.items()},
    **{f"{name}, by priority": (*steps, "priority") for name, steps in STEPPING.items()},
    **{f"{name}, loads": (*STEPPING[name], "loads") for name in ("sync", "drafts")},
    **{f"{name}, window": (*STEPPING[name], "window") for name in ("sync", "async and drafts")},
}
"""With priorities; with keys and values that come from outside, at once or later, some of which fail to load; and with
a sliding window in the place of full attention."""
WINDOW = 9
VOCABULARY = 3
"""Few tokens, so that requests share prefixes that their outputs have filled, too."""


class WrongReadError(Exception):
    """A step reads KV that is not there."""


class Worker:
    """The memory of the workers, and what they know of each request."""

    def __init__(self, classes: Any, rng: random.Random) -> None:
        self.classes, self.rng = classes, rng
        self.slots: dict[tuple[int, int], int] = {}
        self.looks_back = LIMIT
        """Tokens before the next one that are read."""
        self.goes_back = False
        """The scheduler says where each request begins, which may be before what it had."""
        self.failed: set[int] = set()
        """Blocks whose load has failed in this step."""
        self.settled: dict[tuple[int, int], int] = {}
        """The same, as far as the scheduler has been told that steps were executed."""
        self.writes: deque[list[tuple[tuple[int, int], int]]] = deque()
        """What the steps write of which the scheduler has not been told."""
        self.tables: dict[int, list[int]] = {}
        self.tokens: dict[int, list[int]] = {}
        self.computed: dict[int, int] = {}

    def execute(self, said: Any) -> dict[str, list[int]]:
        """What each request of the step samples."""
        self.writes.append([])
        starts = self.classes.starts(said)
        for news in self.classes.told(said):
            self.tables[news.request] = [*(() if news.whole else self.tables[news.request]), *news.blocks]
            if news.whole or self.goes_back:  # new or resumed
                self.computed[news.request] = starts[str(news.request)]
        for name in said.num_scheduled_tokens if self.goes_back else ():
            self.computed[int(name)] = starts[name]
        drafted = said.scheduled_spec_decode_tokens
        return {
            name: self._computed(int(name), count, len(drafted.get(name, ())))
            for name, count in said.num_scheduled_tokens.items()
        }

    def _computed(self, request: int, count: int, drafts: int) -> list[int]:
        tokens, start = self.tokens[request], self.computed[request]
        for position in range(max(0, start - self.looks_back), start):
            if self.slots.get(self._slot(request, position)) != self.known(request, position):
                if self._slot(request, position)[0] in self.failed:
                    return []  # the scheduler drops what this step makes of it
                raise WrongReadError(f"request {request} reads position {position}, which is not there")
        end = start + count - drafts
        assert end <= len(tokens), (request, start, count, drafts, len(tokens))
        if end < len(tokens):  # a part of a prompt, or of a resumed request
            assert not drafts
            self._write(request, start, end)
            self.computed[request] = end
            return []
        accepted = self.rng.randint(0, drafts)
        sampled = [self.rng.randrange(VOCABULARY) for _ in range(accepted + 1)]
        tokens.extend(sampled[:accepted])
        self._write(request, start, end + accepted)
        for position in range(end + accepted, end + drafts):
            self.slots.pop(self._slot(request, position), None)
        tokens.append(sampled[-1])
        self.computed[request] = end + accepted
        return sampled

    def _write(self, request: int, start: int, end: int) -> None:
        for position in range(start, end):
            slot, known = self._slot(request, position), self.known(request, position)
            self.slots[slot] = known
            self.writes[-1].append((slot, known))

    def tell(self) -> None:
        """The scheduler is told of the oldest step."""
        self.settled.update(self.writes.popleft())

    def lacking(self, memory: dict[tuple[int, int], int], blocks: Any) -> int:
        """How many of our manager's registered blocks do not have their KV in this memory."""
        return sum(not self._there(memory, block) for block in blocks if getattr(block, "content", None) is not None)

    def _there(self, memory: dict[tuple[int, int], int], block: Any) -> bool:
        tokens, content = list[int](), block.content
        while content is not None:
            tokens, content = [*content.token_ids, *tokens], content.parent
        first = len(tokens) - BLOCK
        return all(
            memory.get((block.block_id, place)) == hash(tuple(tokens[: first + place + 1])) for place in range(BLOCK)
        )

    def _slot(self, request: int, position: int) -> tuple[int, int]:
        return self.tables[request][position // BLOCK], position % BLOCK

    def known(self, request: int, position: int) -> int:
        """The token at this position and all before it."""
        return hash(tuple(self.tokens[request][: position + 1]))


class Connector:
    """Keys and values from outside: for some requests, in the step that wants them or some steps later.

    A load may fail: then one of its blocks is not written, and the workers report it. The workers have what a load
    writes from the step on in which it ends.
    """

    def __init__(self, worker: Worker, rng: random.Random) -> None:
        self.worker, self.rng = worker, rng
        self.asked: dict[int, tuple[int, int, bool]] = {}
        self.local: dict[int, int] = {}
        self.later: list[tuple[int, int, list[int], range]] = []
        """When a load ends, of which request, into which blocks, and which positions."""
        self.now: dict[int, tuple[list[int], range]] = {}
        self.failed: set[int] = set()
        self.ended: set[str] = set()
        self.clock = 0
        self.counts = {"loaded": 0, "failed": 0, "whole": 0}

    def __getattr__(self, name: str) -> Any:
        """What the scheduler tells a connector beside the calls below."""
        return lambda *_, **__: None

    def get_num_new_matched_tokens(self, request: Any, local: int) -> tuple[int, bool]:
        """How many tokens behind the local hits can be loaded, and whether that takes several steps."""
        number = int(request.request_id)
        self.local[number] = local
        if number not in self.asked:
            later = self.rng.random() < 0.5
            wants = self.rng.randint(0, request.num_tokens) if self.rng.random() < 0.7 else 0
            self.asked[number] = wants, self.rng.randint(1, 3), later
        wants, _, later = self.asked[number]
        if request.num_preemptions or request.num_output_tokens:
            return 0, False
        most = request.num_tokens - local - (0 if later else 1)
        return max(0, min(wants, most)), later and min(wants, most) > 0

    def update_state_after_alloc(self, request: Any, blocks: Any, count: int) -> None:
        """These blocks are for the tokens that are loaded."""
        if not count:
            return
        number = int(request.request_id)
        table = [block.block_id for block in blocks.blocks[0]]
        _, steps, later = self.asked[number]
        self.asked[number] = 0, 0, False
        local = self.local[number]
        self.counts["loaded"] += 1
        self.counts["whole"] += local + count == request.num_tokens
        if later:
            self.later.append((self.clock + steps, number, table, range(local, local + count)))
        else:
            self.now[number] = table, range(local, local + count)

    def has_pending_block_frees(self) -> bool:
        return False

    def request_finished(self, *_: Any) -> tuple[bool, None]:
        """Its blocks are free at once."""
        return False, None

    def get_loaded_kv_cache_group_ids(self, _: Any) -> tuple[int, ...]:
        return (0,)

    def load(self, live: Any) -> None:
        """The workers load: what is wanted in this step, and what ends in it, for requests that are live."""
        self.clock += 1
        self.later = [entry for entry in self.later if str(entry[1]) in live]
        for number, (table, positions) in self.now.items():
            self.write(number, table, positions)
        self.now.clear()
        for entry in [entry for entry in self.later if entry[0] <= self.clock]:
            self.later.remove(entry)
            self.write(*entry[1:])
            self.ended.add(str(entry[1]))

    def write(self, number: int, table: list[int], positions: range) -> None:
        fails = self.rng.choice(positions) // BLOCK if self.rng.random() < 0.3 else -1
        for position in positions:
            if position // BLOCK != fails:
                slot = table[position // BLOCK], position % BLOCK
                self.worker.slots[slot] = self.worker.settled[slot] = self.worker.known(number, position)
        if fails >= 0:
            self.counts["failed"] += 1
            self.failed.add(table[fails])

    def report(self) -> Any:
        """What the workers say of this step."""
        said = SimpleNamespace(
            finished_sending=None,
            finished_recving=self.ended,
            invalid_block_ids=self.failed,
            failed_recving=set(),
            kv_connector_stats=None,
            kv_cache_events=None,
        )
        self.ended, self.failed = set(), set()
        return said


class Load:
    """One engine with random requests, aborts and resets of the prefix cache."""

    def __init__(self, schedulers: Any, mode: str, seed: int) -> None:
        asynchronous, self.drafts, more = MODES[mode]
        self.by_priority = more == "priority"
        self.rng = random.Random(seed)
        self.classes = schedulers.Classes()
        self.scheduler = self.classes.make(
            schedulers.Settings(
                BLOCK,
                BLOCKS,
                24,
                5,
                LIMIT,
                asynchronous=asynchronous,
                drafts=self.drafts,
                by_priority=self.by_priority,
                window=WINDOW if more == "window" else 0,
            )
        )
        self.hasher = self.classes.hasher(BLOCK)
        self.ahead = 1 if asynchronous else 0
        self.worker = Worker(self.classes, random.Random(seed + 1))
        self.worker.looks_back = WINDOW - 1 if more == "window" else LIMIT
        self.connector: Any = None
        if more == "loads":
            self.connector = Connector(self.worker, random.Random(seed + 2))
            self.scheduler.connector, self.worker.goes_back = self.connector, True
        self.steps: deque[tuple[Any, dict[str, list[int]]]] = deque()
        self.requests: dict[int, Any] = {}
        self.plans: list[Any] = []
        self.begun = set[int]()
        self.hits = self.resumed = self.early = self.unwritten = 0

    def run(self) -> None:
        """A number of steps, then everything is finished or aborted."""
        for _ in range(STEPS):
            self.perturb()
            self.step()
        while self.steps:
            self.update()

    def perturb(self) -> None:
        """What comes from outside."""
        if self.rng.random() < 0.4:
            self.add()
        live = list(self.scheduler.requests)
        if live and self.rng.random() < 0.05:
            self.scheduler.finish_requests(self.rng.choice(live), self.classes.status.FINISHED_ABORTED)
        if self.rng.random() < 0.02:
            self.scheduler.reset_prefix_cache()

    def add(self) -> None:
        number = len(self.requests)
        prompt = [self.rng.randrange(VOCABULARY) for _ in range(self.rng.randint(1, 40))]
        if self.requests and self.rng.random() < 0.7:  # it goes on where another one is
            other = self.worker.tokens[self.rng.randrange(number)]
            prompt = [*other[: self.rng.randint(1, min(len(other), 40))], *prompt][:48]
        self.worker.tokens[number] = list(prompt)
        output, priority = self.rng.randint(1, 14), self.rng.randint(0, 2) if self.by_priority else 0
        request = self.classes.new_request(str(number), prompt, output, self.hasher, (), priority, float(number))
        self.requests[number] = request
        self.scheduler.add_request(request)

    def step(self) -> None:
        said = self.scheduler.schedule()
        blocks = self.scheduler.kv_cache_manager.block_pool.blocks
        self.early += self.worker.lacking(self.worker.settled, blocks)
        self.unwritten += self.worker.lacking(self.worker.slots, blocks)
        told = [tuple(news) for news in self.classes.told(said)]
        self.plans.append((dict(said.num_scheduled_tokens), told, sorted(said.finished_req_ids)))
        began = {request for request, _, whole in told if whole}
        self.resumed += len(began & self.begun)
        self.begun |= began
        self.hits += sum(part.num_computed_tokens for part in said.scheduled_new_reqs)
        if self.connector is not None:
            self.connector.load(self.scheduler.requests)
            self.worker.failed = self.connector.failed
        if said.num_scheduled_tokens or self.connector is not None:
            self.steps.append((said, self.worker.execute(said)))
        if len(self.steps) > self.ahead or not said.num_scheduled_tokens:
            self.update()

    def update(self) -> None:
        if not self.steps:
            return
        said, sampled = self.steps.popleft()
        self.worker.tell()
        output = self.classes.output(sampled)
        if self.connector is not None:
            output.kv_connector_output = self.connector.report()
        self.scheduler.update_from_output(said, output)
        if self.drafts and not self.ahead:
            self.propose(sampled)

    def propose(self, sampled: dict[str, list[int]]) -> None:
        proposed = {}
        for name, tokens in sampled.items():
            request = self.scheduler.requests.get(name)
            if request is not None:
                whole = min(request.num_prompt_tokens + request.max_tokens, LIMIT)
                count = min(self.drafts, whole - 1 - request.num_tokens) if tokens else 0
                proposed[name] = [0] * max(0, count)
        self.scheduler.update_draft_token_ids(self.classes.drafts(list(proposed), list(proposed.values())))


def ours(impl: str, rules: str) -> Any:
    """Our manager as the release's scheduler makes it, with these rules."""
    sys.path.insert(0, impl)
    package: Any = importlib.import_module("cacheimpl.kv_cache_manager")
    return partial(package.LaterKVCacheManager, rules=getattr(package, rules))


@contextmanager
def managed(manager: Any) -> Iterator[None]:
    """Schedulers that are made meanwhile have this manager."""
    module: Any = importlib.import_module("vllm.v1.core.sched.scheduler")
    theirs = module.KVCacheManager
    module.KVCacheManager = manager or theirs
    try:
        yield
    finally:
        module.KVCacheManager = theirs


def ended(make: Callable[[], Load]) -> tuple[str, Load]:
    """How a load ended, and the load."""
    load = make()
    try:
        load.run()
    except Exception as error:  # noqa: BLE001  # whatever it is
        return f"{type(error).__name__}: {error}", load
    return "", load


def main(driver: str, source: str, impl: str, first: str, last: str, *rules: str) -> None:
    """Print how the loads ended."""
    sys.path.insert(0, driver)
    answers, sys.stdout = sys.stdout, sys.stderr
    importlib.import_module("driver.stand_ins").install(Path(source))
    schedulers: Any = importlib.import_module("driver.schedulers")
    report: dict[str, dict[str, Any]] = {}
    for mode, (asynchronous, drafts, more) in MODES.items():
        if not schedulers.Classes().drafts_ahead and ((asynchronous and drafts) or more):  # 0.11.0
            continue
        for name in ("released", *rules):
            counts = dict.fromkeys(("same", "hits", "resumed", "failed", "early", "unwritten", "loads"), 0)
            report.setdefault(mode, {})[name] = {"errors": {}, **counts}
        for seed in range(int(first), int(last)):
            told: Any = None
            for name in ("released", *rules):
                with managed(ours(impl, name) if name != "released" else None):
                    error, load = ended(lambda: Load(schedulers, mode, seed))  # noqa: B023
                told = load.plans if name == "released" else told
                entry = report[mode][name]
                entry["loads"] += 1
                entry["same"] += load.plans == told
                entry["hits"] += load.hits
                entry["resumed"] += load.resumed
                entry["failed"] += 0 if load.connector is None else load.connector.counts["failed"]
                entry["early"] += load.early
                entry["unwritten"] += load.unwritten
                if error:
                    entry["errors"].setdefault(error[:160], []).append(seed)
    answers.write(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
