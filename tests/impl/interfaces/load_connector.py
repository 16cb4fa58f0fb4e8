"""Keys and values from outside, for random loads in a release's own scheduler."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, Protocol


class Worker(Protocol):
    """The workers into whose slots it loads."""

    block_size: int
    slots: dict[tuple[int, int], int]
    settled: dict[tuple[int, int], int]
    withdrawn: set[tuple[int, int]]

    def known(self, request: int, position: int) -> int: ...


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
        fails = self.rng.choice(positions) // self.worker.block_size if self.rng.random() < 0.3 else -1
        for position in positions:
            if position // self.worker.block_size != fails:
                slot = table[position // self.worker.block_size], position % self.worker.block_size
                self.worker.slots[slot] = self.worker.settled[slot] = self.worker.known(number, position)
                self.worker.withdrawn.discard(slot)
        if fails >= 0:
            self.counts["failed"] += 1
            self.failed.add(table[fails])
            self.worker.withdrawn |= {(table[fails], place) for place in range(self.worker.block_size)}

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
