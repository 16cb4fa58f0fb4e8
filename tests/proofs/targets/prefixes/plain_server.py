"""An engine in plain Python: what a server has to be, with a switch for each planted bug.

It finds nothing again, but says that it would.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cacheproof.targets.prefixes.peer import Call
from cacheproof.targets.prefixes.serving import CHILDREN, Planned, Reply, Served

BUGS = {
    "stays closed when the last one is cancelled": "SCH-8",
    "puts everybody back when no block is free": "SCH-8",
    "schedules a request without a token": "SCH-1",
    "spends more than its budget": "SCH-1/budget",
    "runs too many": "SCH-1/running",
    "keeps the blocks of who is put back": "SCH-5/blocks",
    "queues who runs": "SCH-6",
    "delivers twice": "SCH-2/finished",
    "loses a block when one is cancelled": "KV-2",
    "gives blocks back twice": "KV-2",
    "takes a block that is in use": "KV-7",
    "forgets the last block of who is served": "KV-7/longest",
    "fails when nothing is left": "KV-8/answered",
    "hangs when one is cancelled that runs": "KV-8/answered",
}
"""Each bug, and the property that shows it first."""


class PlainServer:
    """Everybody who runs gets tokens, in order; then those who wait. Who finds no block puts the newest back."""

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def reset(self, config: Mapping[str, Any]) -> Served:
        self.config, self.size = config, config["block_size"]
        self.free = list(range(config["blocks"]))
        self.tables: dict[int, list[int]] = {}
        self.owners: dict[int, int] = {}
        self.running: dict[int, int] = {}
        self.waiting: list[int] = []
        self.delivered: list[int] = []
        self.wrong: tuple[int, ...] = ()
        self.closed = False
        return self.shown()

    def shown(self) -> Served:
        held = {block for table in self.tables.values() for block in table}
        queued = sorted(self.running)[:1] if self.bug == "queues who runs" and len(self.running) > 1 else []
        forgotten = self.bug == "forgets the last block of who is served"
        return Served(
            tuple(sorted(self.free)),
            (),
            tuple(sorted(held)),
            tuple(sorted(self.tables)),
            tuple(sorted(self.running)),
            tuple(sorted([*self.waiting, *queued])),
            tuple(sorted(self.delivered)),
            tuple((self.length(one) - 1) // self.size - forgotten for one in sorted(self.delivered)),
            self.wrong,
        )

    def ask(self, call: Call) -> Reply:
        code, planned = "done", None
        if call.name == "arrive":
            children = self.config["children"][call.request]
            self.waiting += [call.request + CHILDREN * child for child in range(children + 1)]
        elif call.name == "cancel":
            code = self.cancel(call.request)
        else:
            planned = self.step()
            failing = self.bug == "fails when nothing is left" and not self.free and planned is not None
            code = "failed" if failing else "miss" if planned is None else "done"
        return Reply(code, planned, None if code == "diverged" else self.shown())

    def cancel(self, request: int) -> str:
        if request in self.running:
            if self.bug == "hangs when one is cancelled that runs":
                return "diverged"
            self.give_back(request, lost=self.bug == "loses a block when one is cancelled")
        elif request in self.waiting:
            self.waiting.remove(request)
        if self.bug != "stays closed when the last one is cancelled":
            self.closed = self.closed and bool(self.running)
        return "done"

    def give_back(self, request: int, *, lost: bool = False) -> None:
        table = self.tables.pop(request)
        table = [block for block in table if self.owners.get(block) == request]
        self.free += table[lost:] * (2 if self.bug == "gives blocks back twice" else 1)
        del self.running[request]

    def length(self, request: int) -> int:
        base = request % CHILDREN
        return len(self.config["prompts"][base]) + int(self.config["outputs"][base])

    def step(self) -> Planned | None:
        budget, counts = self.config["token_budget"], []
        most = self.config["running"] + (self.bug == "runs too many")
        if not self.closed:
            for request in list(self.waiting)[: max(0, most - len(self.running))]:
                self.waiting.remove(request)
                self.running[request], self.tables[request] = 0, []
        for request in list(self.running):
            if request not in self.running:
                continue
            left = self.length(request) - self.running[request]
            prompt = len(self.config["prompts"][request % CHILDREN]) - self.running[request]
            count = min(max(prompt, 1), left, budget)
            if self.bug == "spends more than its budget":
                count = min(max(prompt, 1), left)
            if count <= 0 and self.bug != "schedules a request without a token":
                continue
            if not self.covered(request, self.running[request] + count):
                continue
            budget -= count
            counts.append(count)
            self.compute(request, count)
        return Planned(len(counts), sum(counts), min(counts)) if counts else None

    def covered(self, request: int, tokens: int) -> bool:
        """Blocks for so many tokens, taken from whoever came last where none is free."""
        table = self.tables[request]
        while len(table) < -(-tokens // self.size):
            others = [block for other in self.tables.values() if other is not table for block in other]
            if self.bug == "takes a block that is in use" and len(others) > 2:
                table.append(others[0])
                continue
            if self.free:
                table.append(self.free.pop())
                self.owners[table[-1]] = request
                continue
            if self.bug == "puts everybody back when no block is free":
                self.waiting = sorted([*self.running, *self.waiting])
                for other in list(self.running):
                    self.give_back(other)
                return False
            victim = list(self.running)[-1]
            kept = list(self.tables[victim])
            self.give_back(victim)
            self.waiting.insert(0, victim)
            self.closed = True
            if self.bug == "keeps the blocks of who is put back":
                self.tables[victim] = kept
                self.free = [block for block in self.free if block not in kept]
                return False
            if victim == request:
                return False
        return True

    def compute(self, request: int, count: int) -> None:
        for place in range(self.running[request] + count):
            if self.owners[self.tables[request][place // self.size]] != request and not self.wrong:
                self.wrong = (request, place)
        self.running[request] += count
        if self.running[request] >= self.length(request):
            self.give_back(request)
            self.delivered += [request] * (2 if self.bug == "delivers twice" else 1)
            self.closed = False
