"""The order by recency that both sides keep, and the one walk over it that both sides do.

A walk is planned first and applied after: a plan changes nothing, so whatever goes wrong in between leaves the order as
it was, and P1 can look at a plan before it accepts a message. Both take time in the items of the request and what they
evict, whatever the cache holds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cacheimpl.mirror.messages import Item


class Walk(NamedTuple):
    """What a request does to an order."""

    needed: tuple[bool, ...]
    """For each item whether it was not there at its turn and has to be sent."""
    leaving: tuple[str, ...]
    """Keys that are evicted; one that the same request stores again is among them."""
    newest: tuple[Item, ...]
    """What the request has used and is there afterwards, oldest first."""
    total: int
    """Bytes afterwards."""


class RecencyOrder:
    """Keys and their bytes, oldest first, at most `capacity` bytes."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.total = 0
        self._sizes: OrderedDict[str, int] = OrderedDict()

    def __contains__(self, key: str) -> bool:
        return key in self._sizes

    def __iter__(self) -> Iterator[Item]:
        return (Item(key, size) for key, size in self._sizes.items())

    def size(self, key: str) -> int | None:
        """Bytes of a key that is there."""
        return self._sizes.get(key)

    def plan(self, items: Iterable[Item]) -> Walk:
        """MIR-9: what is there is touched first; then each item is looked up at its own turn, and the oldest make room.

        What is larger than the cache is served and not kept (C-MIR-16).
        """
        items = tuple(items)
        touched: OrderedDict[str, int] = OrderedDict()
        for key, _ in items:
            if key in self._sizes:
                touched[key] = self._sizes[key]
                touched.move_to_end(key)
        present = touched.copy()  # what the request has used and is there, oldest first
        untouched = (key for key in self._sizes if key not in touched)
        total, needed = self.total, []
        leaving: dict[str, None] = {}  # in the order in which they leave, each once
        for key, size in items:
            needed.append(key not in present)
            if key in present:
                present.move_to_end(key)
            elif size <= self.capacity:
                while total + size > self.capacity:
                    evicted = next(untouched, None)
                    if evicted is not None:
                        total -= self._sizes[evicted]
                    else:
                        evicted, gained = present.popitem(last=False)
                        total -= gained
                    if evicted in self._sizes:
                        leaving[evicted] = None
                present[key] = size
                total += size
        return Walk(tuple(needed), tuple(leaving), tuple(Item(*pair) for pair in present.items()), total)

    def apply(self, walk: Walk) -> None:
        """Do what was planned on this order."""
        for key in walk.leaving:
            del self._sizes[key]
        for key, size in walk.newest:
            self._sizes[key] = size
            self._sizes.move_to_end(key)
        self.total = walk.total

    def clear(self) -> None:
        """Nothing is there."""
        self._sizes.clear()
        self.total = 0
