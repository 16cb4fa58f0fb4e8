"""Persistent containers after Baker (1978, shallow binding): one version owns the data, the others say how they differ.

The newest version of a chain owns the *body*, which is changed in place. Every other version holds the change that
leads from its neighbour, one step nearer to the owner, back to itself. Reading such a version first *reroots* the
chain: the changes on the way are applied, each is replaced by its inverse, and the body has a new owner. So a run that
only goes forward costs constant time an operation at any size, and every version stays readable.

Two branches that are read in turn would pay for the way between them again and again. Once a body has been turned by
more changes than a version is long, that version takes a copy of its own and leaves the chain, so that copying never
costs much more than the turning before it did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, Protocol, Self, TypeVar

from cachespec.kernel.containers.interface import Map

Key = TypeVar("Key")
Value = TypeVar("Value")

_new = object.__new__
_ABSENT: Any = object()
_END: Any = object()
"""The link before the oldest key and after the newest."""


class _Body(Protocol):
    """Data that changes in place; `turned` counts the changes that were made to reach other versions."""

    turned: int

    def apply(self, change: Any) -> Any:
        """Make the change; return the one that undoes it."""
        ...

    def copy(self) -> _Body:
        """The same data, apart from now on."""
        ...


class _Version:
    """One version of a container. Exactly one of `_body` and `_nearer` is there; `_back` leads here from `_nearer`."""

    __slots__ = ("_back", "_body", "_length", "_nearer", "_total")

    def __init__(self, body: Any, length: int = 0, total: int = 0) -> None:
        self._body = body
        self._nearer: Any = None
        self._back: Any = None
        self._length = length
        self._total = total

    def _owned(self) -> Any:
        """This version's body, after turning the chain towards it or leaving the chain."""
        if self._body is None:
            way = self._way()
            body = way[-1]._nearer._body
            body.turned += len(way)
            if body.turned > self._length:
                self._leave(way, body)
            else:
                self._turn(way)
        return self._body

    def _way(self) -> list[_Version]:
        """This version and the others on the way to the owner, without the owner."""
        way: list[_Version] = []
        version: _Version = self
        while version._body is None:
            way.append(version)
            version = version._nearer
        return way

    def _turn(self, way: list[_Version]) -> None:
        """Hand the body from the owner to this version, step by step."""
        owner = way[-1]._nearer
        for version in reversed(way):
            body = owner._body
            owner._back, owner._nearer, owner._body = body.apply(version._back), version, None
            version._back, version._nearer, version._body = None, None, body
            owner = version

    def _leave(self, way: list[_Version], body: Any) -> None:
        """Take a body of its own; the chain stays as it is."""
        own = body.copy()
        for version in reversed(way):
            own.apply(version._back)
        body.turned = 0
        self._body, self._nearer, self._back = own, None, None

    def _after(self, body: Any, change: Any, length: int, total: int) -> Self:
        """The version after the change; it owns the body, which was this version's."""
        return self._before(body.apply(change), body, length, total)

    def _before(self, back: Any, body: Any, length: int, total: int) -> Self:
        """The version after a change that was made to the body; `back` is the change that undoes it."""
        after = _new(type(self))
        after._body = body
        after._nearer = after._back = None
        after._length = length
        after._total = total
        self._back = back
        self._nearer = after
        self._body = None
        return after

    @property
    def length(self) -> int:
        return self._length

    @property
    def total(self) -> int:
        return self._total

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Map and queue list themselves in different orders; this class is never used on its own."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """By content. Counts are compared first, because they are there in every version."""
        if self is other:
            return True
        if type(other) is not type(self) or (self._length, self._total) != (other._length, other._total):
            return False
        mine = list(self.items())
        return mine == list(other.items())

    __hash__ = None  # type: ignore[assignment]  # what is compared by content and shared by identity has no hash


class _Pairs(Generic[Key, Value]):
    """Keys and values. A change is a key and the value that it gets, or `_ABSENT`."""

    __slots__ = ("turned", "values")

    def __init__(self, values: dict[Key, Value]) -> None:
        self.values = values
        self.turned = 0

    def apply(self, change: tuple[Key, Value]) -> tuple[Key, Value]:
        key, value = change
        before = self.values.get(key, _ABSENT)
        if value is _ABSENT:
            del self.values[key]
        else:
            self.values[key] = value
        return key, before

    def copy(self) -> _Pairs[Key, Value]:
        return _Pairs(dict(self.values))


class RerootingMap(_Version, Generic[Key, Value]):
    """A map whose newest version answers from one dictionary."""

    __slots__ = ()

    def __init__(self, body: _Pairs[Key, Value] | None = None, length: int = 0, total: int = 0) -> None:
        super().__init__(_Pairs({}) if body is None else body, length, total)

    def has(self, key: Key) -> bool:
        return key in (self._body or self._owned()).values

    def get(self, key: Key, default: Value) -> Value:
        value: Value = (self._body or self._owned()).values.get(key, default)
        return value

    def set(self, key: Key, value: Value) -> RerootingMap[Key, Value]:
        body = self._body or self._owned()
        values = body.values
        before = values.get(key, _ABSENT)
        values[key] = value
        total = self._total
        if isinstance(value, int):
            total += value
        if isinstance(before, int):
            total -= before
        return self._before((key, before), body, self._length + (before is _ABSENT), total)

    def remove(self, key: Key) -> RerootingMap[Key, Value]:
        body = self._body or self._owned()
        before = body.values.pop(key, _ABSENT)
        if before is _ABSENT:
            return self
        return self._before((key, before), body, self._length - 1, self._total - _number(before))

    def items(self) -> Iterable[tuple[Key, Value]]:
        return sorted(self._owned().values.items())


class _Line(Generic[Key]):
    """Keys in a doubly linked line, oldest first, with their weights.

    A change is a key, the weight that it gets or `_ABSENT`, and the key that it comes to stand behind. Changes are
    undone in the opposite order, so the key to stand behind is there again when it is needed.
    """

    __slots__ = ("newer", "older", "turned", "weights")

    def __init__(self, weights: dict[Key, int], older: dict[Key, Key], newer: dict[Key, Key]) -> None:
        self.weights = weights
        self.older = older
        self.newer = newer
        self.turned = 0

    def apply(self, change: tuple[Key, int, Key]) -> tuple[Key, int, Key]:
        key, weight, behind = change
        inverse = (key, self.weights.get(key, _ABSENT), self.older.get(key, _END))
        if inverse[1] is not _ABSENT:
            self._unlink(key)
        if weight is not _ABSENT:
            self._link(key, weight, behind)
        return inverse

    def _link(self, key: Key, weight: int, behind: Key) -> None:
        newer = self.newer[behind]
        self.weights[key] = weight
        self.older[key], self.newer[key] = behind, newer
        self.newer[behind] = self.older[newer] = key

    def _unlink(self, key: Key) -> None:
        del self.weights[key]
        older, newer = self.older.pop(key), self.newer.pop(key)
        self.newer[older], self.older[newer] = newer, older

    def newest_but(self, key: Key) -> Key:
        """The key at the end of the line, the given one left out."""
        newest = self.older[_END]
        return self.older[newest] if newest == key else newest

    def __iter__(self) -> Iterator[Key]:
        """Oldest first."""
        key = self.newer[_END]
        while key is not _END:
            yield key
            key = self.newer[key]

    def copy(self) -> _Line[Key]:
        return _Line(dict(self.weights), dict(self.older), dict(self.newer))


class RerootingQueue(_Version, Generic[Key]):
    """A queue whose newest version answers from one linked line."""

    __slots__ = ()

    def __init__(self, body: _Line[Key] | None = None, length: int = 0, total: int = 0) -> None:
        super().__init__(_Line({}, {_END: _END}, {_END: _END}) if body is None else body, length, total)

    def has(self, key: Key) -> bool:
        return key in (self._body or self._owned()).weights

    def weight(self, key: Key, default: int) -> int:
        weight: int = (self._body or self._owned()).weights.get(key, default)
        return weight

    def push(self, key: Key, weight: int) -> RerootingQueue[Key]:
        line = self._body or self._owned()
        return self._placed(line, key, weight, line.newest_but(key))

    def push_front(self, key: Key, weight: int) -> RerootingQueue[Key]:
        return self._placed(self._owned(), key, weight, _END)

    def _placed(self, line: _Line[Key], key: Key, weight: int, behind: Key) -> RerootingQueue[Key]:
        before = line.weights.get(key, _ABSENT)
        length = self._length + (before is _ABSENT)
        return self._after(line, (key, weight, behind), length, self._total + weight - _number(before))

    def remove(self, key: Key) -> RerootingQueue[Key]:
        line = self._body or self._owned()
        before = line.weights.get(key, _ABSENT)
        if before is _ABSENT:
            return self
        return self._after(line, (key, _ABSENT, _END), self._length - 1, self._total - _number(before))

    def oldest(self, default: Key) -> Key:
        oldest = (self._body or self._owned()).newer[_END]
        return default if oldest is _END else oldest

    def newest(self, default: Key) -> Key:
        """The newest key, or the default where the queue is empty."""
        newest = self._owned().older[_END]
        return default if newest is _END else newest

    def before(self, key: Key, default: Key) -> Key:
        """The key before this one, which must be there; the default where this one is the oldest."""
        before = self._owned().older[key]
        return default if before is _END else before

    def after(self, key: Key, default: Key) -> Key:
        """The key after this one, which must be there; the default where this one is the newest."""
        after = self._owned().newer[key]
        return default if after is _END else after

    def oldest_outside(self, excluded: Map[Key, Any], default: Key) -> Key:
        return next((key for key in self._owned() if not excluded.has(key)), default)

    def items(self) -> Iterable[tuple[Key, int]]:
        line = self._owned()
        return [(key, line.weights[key]) for key in line]


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


class _Rerooting:
    """Makes rerooting containers."""

    def map(self) -> RerootingMap[Any, Any]:
        return RerootingMap()

    def queue(self) -> RerootingQueue[Any]:
        return RerootingQueue()


REROOTING = _Rerooting()
