"""Entries of caches with ordered dictionaries: encoder outputs, and a cache by recency."""

from __future__ import annotations

import time
from collections import OrderedDict

from cacheproof.bench.measure import InTurns, Work


class PlainEncoder(InTurns):
    """Holders of each content; contents without a holder stand in the order of their release."""

    def __init__(self, contents: int, capacity: int, hit: int, times: int) -> None:
        self.contents, self.capacity, self.times = 1 if hit else contents, capacity, times
        self.used = 0
        self.held: dict[str, set[str]] = {}
        self.idle: OrderedDict[str, int] = OrderedDict()
        self.names = [str(number) for number in range(self.contents)]

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Runs inputs: a resident input is held, an absent one is placed after making room; then all are released."""
        held, idle, hits = self.held, self.idle, 0
        started = time.process_time()
        for place in range(self.times):
            name = self.names[place % self.contents]
            if name in held:
                held[name].add(name)
                idle.pop(name, None)
                hits += 1
            else:
                while self.used >= self.capacity:
                    victim, size = idle.popitem(last=False)
                    del held[victim]
                    self.used -= size
                held[name] = {name}
                self.used += 1
            held[name].discard(name)
            idle[name] = 1
        return Work(self.times, [hits], time.process_time() - started)


class PlainRecency(InTurns):
    """One ordered dictionary, the oldest first."""

    def __init__(self, capacity: int, call: str, times: int) -> None:
        self.entries = OrderedDict.fromkeys(range(capacity))
        self.capacity, self.call, self.times, self.next = capacity, call, times, capacity

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Runs `times` calls."""
        started = time.process_time()
        if self.call == "put":
            for key in range(self.next, self.next + self.times):
                self.put(key)
            self.next += self.times
        else:
            for place in range(self.times):
                self.get(place % self.capacity)
        return Work(self.times, [len(self.entries)], time.process_time() - started)

    def get(self, key: int) -> None:
        """A resident content becomes the newest; a touch does the same."""
        if key in self.entries:
            self.entries.move_to_end(key)

    def put(self, key: int) -> None:
        """Evict the oldest entry."""
        if len(self.entries) >= self.capacity:
            self.entries.popitem(last=False)
        self.entries[key] = None
