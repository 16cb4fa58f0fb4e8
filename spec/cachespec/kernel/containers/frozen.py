"""Containers that are plain tuples: hashable, canonical and compared at the speed of tuples."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, TypeVar

from cachespec.kernel.containers.interface import Map

Key = TypeVar("Key")
Value = TypeVar("Value")


class FrozenMap(tuple[tuple[Key, Value], ...]):
    """Pairs of key and value, sorted by key: equal maps are equal tuples."""

    __slots__ = ()

    @classmethod
    def of(cls, pairs: Iterable[tuple[Key, Value]]) -> FrozenMap[Key, Value]:
        """From pairs in any order; keys must be distinct."""
        return cls(sorted(pairs))

    def _place(self, key: Key) -> int:
        alone: Any = (key,)  # comes before every pair of this key, and behind every pair of a lesser one
        return bisect_left(self, alone)

    def has(self, key: Key) -> bool:
        place = self._place(key)
        return place < len(self) and self[place][0] == key

    def get(self, key: Key, default: Value) -> Value:
        place = self._place(key)
        return self[place][1] if place < len(self) and self[place][0] == key else default

    def set(self, key: Key, value: Value) -> FrozenMap[Key, Value]:
        place = self._place(key)
        rest = place + 1 if self.has(key) else place
        return FrozenMap((*self[:place], (key, value), *self[rest:]))

    def remove(self, key: Key) -> FrozenMap[Key, Value]:
        if not self.has(key):
            return self
        place = self._place(key)
        return FrozenMap((*self[:place], *self[place + 1 :]))

    @property
    def length(self) -> int:
        return len(self)

    @property
    def total(self) -> int:
        return sum(value for _, value in self)  # type: ignore[misc]  # for maps to integers

    def items(self) -> Iterable[tuple[Key, Value]]:
        return self


class FrozenQueue(tuple[tuple[Key, int], ...]):
    """Pairs of key and weight, oldest first."""

    __slots__ = ()

    def has(self, key: Key) -> bool:
        return any(member == key for member, _ in self)

    def weight(self, key: Key, default: int) -> int:
        return next((weight for member, weight in self if member == key), default)

    def push(self, key: Key, weight: int) -> FrozenQueue[Key]:
        return FrozenQueue((*(pair for pair in self if pair[0] != key), (key, weight)))

    def push_front(self, key: Key, weight: int) -> FrozenQueue[Key]:
        return FrozenQueue(((key, weight), *(pair for pair in self if pair[0] != key)))

    def remove(self, key: Key) -> FrozenQueue[Key]:
        return FrozenQueue(pair for pair in self if pair[0] != key)

    def oldest(self, default: Key) -> Key:
        return self[0][0] if self else default

    def oldest_outside(self, excluded: Map[Key, Any], default: Key) -> Key:
        return next((member for member, _ in self if not excluded.has(member)), default)

    @property
    def length(self) -> int:
        return len(self)

    @property
    def total(self) -> int:
        return sum(weight for _, weight in self)

    def items(self) -> Iterable[tuple[Key, int]]:
        return self


class _Frozen:
    """Makes frozen containers."""

    def map(self) -> FrozenMap[Any, Any]:
        return FrozenMap()

    def queue(self) -> FrozenQueue[Any]:
        return FrozenQueue()


FROZEN = _Frozen()
