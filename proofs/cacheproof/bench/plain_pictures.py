"""Requests with a picture each that are admitted and finished, in plain Python: nothing is checked."""

from __future__ import annotations

import time
from collections import OrderedDict, deque

from cacheproof.bench.measure import InTurns, Work
from cacheproof.bench.workload import Pictures


class PlainPictures(InTurns):
    """Blocks from a deque, pictures in the order of their release."""

    def __init__(self, load: Pictures) -> None:
        self.load, self.room = load, load.encoder_cache
        self.picture, self.prompt, self.block_size = load.picture, load.prompt, load.block_size
        self.free = deque(range(load.blocks))
        self.carried: dict[int, tuple[int, int]] = {}
        self.held: dict[int, int] = {}
        self.idle: OrderedDict[int, int] = OrderedDict()
        self.arrived = 0

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Runs `steps` steps; for each, the tokens, the encoded pictures, and the free blocks afterwards."""
        seconds, answers = 0.0, []
        for _ in range(self.load.steps):
            waiting = range(self.arrived, self.arrived + self.load.requests)
            self.arrived += self.load.requests
            started = time.process_time()
            tables = {request: self._admitted(request) for request in waiting}
            self._finished(tables)
            seconds += time.process_time() - started
            answers += [self.load.requests * self.prompt, self.load.requests, len(self.free)]
        return Work(self.load.steps, answers, seconds)

    def _admitted(self, request: int) -> list[int]:
        while self.room < self.picture:
            self.room += self.idle.popitem(last=False)[1]
        self.room -= self.picture
        self.held[request] = self.picture
        table = [self.free.popleft() for _ in range(-(-self.prompt // self.block_size))]
        for place, block in enumerate(table[: self.prompt // self.block_size]):
            self.carried[block] = request, place
        return table

    def _finished(self, tables: dict[int, list[int]]) -> None:
        for request, table in tables.items():
            self.idle[request] = self.held.pop(request)
            self.free.extend(reversed(table))
