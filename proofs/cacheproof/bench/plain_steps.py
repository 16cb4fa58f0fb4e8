"""Whole scheduler steps of text requests that decode, in plain Python: lists, dictionaries, and nothing is checked."""

from __future__ import annotations

import time
from collections import deque

from cacheproof.bench.measure import InTurns, Work


class PlainSteps(InTurns):
    """Each running request gets a token within the budget, and a block if it needs one; then all are executed.

    No request waits or is preempted, and there is no encoder: this is the cost of a step without events.
    """

    def __init__(self, running: int, block_size: int, prompt: int, steps: int, turns: int) -> None:
        limit = prompt + block_size + steps * (turns + 2) + 2
        cells = -(-limit // block_size)
        self.block_size, self.steps, self.cells, self.limit = block_size, steps, cells, limit
        self.budget = max(running, limit)
        self.free = deque(range(running * cells))
        self.running = list(range(running))
        self.known = [prompt + number % block_size + 1 for number in range(running)]
        self.computed = [known - 1 for known in self.known]
        self.tables = [[self.free.popleft() for _ in range(-(-count // block_size))] for count in self.computed]
        self.contents: dict[int, int] = {}

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Runs `steps` steps; for each, the tokens, and the free blocks afterwards."""
        answers: list[int] = []
        started = time.process_time()
        for _ in range(self.steps):
            plan = self._schedule()
            self._update(plan)
            answers += [len(plan), len(self.free)]
        return Work(self.steps, answers, time.process_time() - started)

    def _schedule(self) -> dict[int, int]:
        size, left, plan = self.block_size, self.budget, {}
        for request in self.running:
            start = self.computed[request]
            tokens = min(self.known[request] - start, self.limit - 1 - start, left)
            if tokens <= 0:
                continue
            table = self.tables[request]
            while len(table) * size < start + tokens:
                table.append(self.free.popleft())
                self.contents.pop(table[-1], None)
            self.computed[request] = start + tokens
            plan[request] = tokens
            left -= tokens
        return plan

    def _update(self, plan: dict[int, int]) -> None:
        size = self.block_size
        for request in plan:
            end = self.computed[request]
            if not end % size:
                self.contents[self.tables[request][end // size - 1]] = request * self.cells + end // size - 1
            if end == self.known[request]:
                self.known[request] = end + 1
