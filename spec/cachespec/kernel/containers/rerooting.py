"""Persistent containers after Baker (1978, shallow binding): the newest version owns one dictionary.

Older versions are chains of undo records that lead to the newest. Reading an old version first *reroots* the chain,
which makes that version the owner; so a run that only goes forward costs constant time an operation at any size, and
every version stays readable. Where versions alternate often, the frozen containers are the better choice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from cachespec.kernel.containers.interface import Map

Key = TypeVar("Key")
Value = TypeVar("Value")

_ABSENT: Any = object()


class RerootingMap(Generic[Key, Value]):
    """A map whose newest version answers from one dictionary."""

    __slots__ = ("_newer", "_root", "_total", "_undo")

    def __init__(self, root: dict[Key, Value] | None = None, total: int = 0) -> None:
        self._root: dict[Key, Value] | None = {} if root is None else root
        self._newer: RerootingMap[Key, Value] | None = None
        self._undo: tuple[Key, Value] | None = None
        self._total = total

    def _rooted(self) -> dict[Key, Value]:
        """This version's dictionary, after turning the chain towards it."""
        chain: list[RerootingMap[Key, Value]] = []
        version = self
        while version._root is None:
            chain.append(version)
            assert version._newer is not None
            version = version._newer
        root = version._root
        while chain:
            older = chain.pop()
            assert older._undo is not None
            key, value = older._undo
            version._root, version._newer, version._undo = None, older, (key, root.get(key, _ABSENT))
            if value is _ABSENT:
                del root[key]
            else:
                root[key] = value
            older._root, older._newer, older._undo = root, None, None
            version = older
        return root

    def _successor(self, root: dict[Key, Value], undo: tuple[Key, Value], total: int) -> RerootingMap[Key, Value]:
        after = RerootingMap(root, total)
        self._root, self._newer, self._undo = None, after, undo
        return after

    def has(self, key: Key) -> bool:
        return key in self._rooted()

    def get(self, key: Key, default: Value) -> Value:
        return self._rooted().get(key, default)

    def set(self, key: Key, value: Value) -> RerootingMap[Key, Value]:
        root = self._rooted()
        before = root.get(key, _ABSENT)
        root[key] = value
        return self._successor(root, (key, before), self._total + _number(value) - _number(before))

    def remove(self, key: Key) -> RerootingMap[Key, Value]:
        root = self._rooted()
        if key not in root:
            return self
        before = root.pop(key)
        return self._successor(root, (key, before), self._total - _number(before))

    @property
    def length(self) -> int:
        return len(self._rooted())

    @property
    def total(self) -> int:
        return self._total

    def items(self) -> Iterable[tuple[Key, Value]]:
        return sorted(self._rooted().items())


class RerootingQueue(Generic[Key]):
    """A queue whose newest version answers from one ordered dictionary.

    An undo record keeps the key's stamp as well as its weight, so that a version that is read again has its old order:
    `_sorted` says whether the dictionary's order is still that of the stamps.
    """

    __slots__ = ("_clock", "_map", "_order", "_total")

    def __init__(
        self,
        stamps: RerootingMap[Key, tuple[int, int]] | None = None,
        clock: int = 0,
        total: int = 0,
        order: _Order[Key] | None = None,
    ) -> None:
        self._map: RerootingMap[Key, tuple[int, int]] = RerootingMap() if stamps is None else stamps
        self._clock = clock
        self._total = total
        self._order: _Order[Key] = _Order() if order is None else order

    def has(self, key: Key) -> bool:
        return self._map.has(key)

    def weight(self, key: Key, default: int) -> int:
        return self._map.get(key, (0, default))[1]

    def push(self, key: Key, weight: int) -> RerootingQueue[Key]:
        self._order.follow(self)
        before = self._map.get(key, (0, 0))[1]
        stamps = self._map.set(key, (self._clock, weight))
        after = RerootingQueue(stamps, self._clock + 1, self._total + weight - before, self._order)
        self._order.pushed(after, key)
        return after

    def remove(self, key: Key) -> RerootingQueue[Key]:
        if not self._map.has(key):
            return self
        self._order.follow(self)
        before = self._map.get(key, (0, 0))[1]
        after = RerootingQueue(self._map.remove(key), self._clock, self._total - before, self._order)
        self._order.removed(after, key)
        return after

    def oldest(self, default: Key) -> Key:
        self._order.follow(self)
        return self._order.first(default)

    def oldest_outside(self, excluded: Map[Key, Any], default: Key) -> Key:
        self._order.follow(self)
        return next((key for key in self._order.keys if not excluded.has(key)), default)

    @property
    def length(self) -> int:
        return self._map.length

    @property
    def total(self) -> int:
        return self._total

    def items(self) -> Iterable[tuple[Key, int]]:
        self._order.follow(self)
        return [(key, self._map.get(key, (0, 0))[1]) for key in self._order.keys]


class _Order(Generic[Key]):
    """The keys of one version of a queue, oldest first; shared along a chain of versions, rebuilt when it branches."""

    __slots__ = ("keys", "version")

    def __init__(self) -> None:
        self.keys: OrderedDict[Key, None] = OrderedDict()
        self.version: RerootingQueue[Key] | None = None

    def follow(self, queue: RerootingQueue[Key]) -> None:
        """Make the order that of this version: free when it is the newest, a sort by stamp otherwise."""
        if self.version is not queue:
            stamped = sorted((stamp, key) for key, (stamp, _) in queue._map.items())
            self.keys = OrderedDict((key, None) for _, key in stamped)
            self.version = queue

    def pushed(self, after: RerootingQueue[Key], key: Key) -> None:
        self.keys[key] = None
        self.keys.move_to_end(key)
        self.version = after

    def removed(self, after: RerootingQueue[Key], key: Key) -> None:
        del self.keys[key]
        self.version = after

    def first(self, default: Key) -> Key:
        return next(iter(self.keys), default)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


class _Rerooting:
    """Makes rerooting containers."""

    def map(self) -> RerootingMap[Any, Any]:
        return RerootingMap()

    def queue(self) -> RerootingQueue[Any]:
        return RerootingQueue()


REROOTING = _Rerooting()
