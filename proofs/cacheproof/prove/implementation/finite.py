"""The containers of a state over a fixed set of keys: for each key a condition, and terms for its values.

A queue keeps dense ranks, the oldest 0 and -1 outside, so that equal orders are equal terms. Nothing here branches:
which key is the oldest is an if-then-else over all keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cacheproof.prove.executor import (
    NotFollowedError,
    SymbolicBoolean,
    SymbolicInteger,
    boolean_term,
    integer_term,
    path,
)
from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.cells import Cell, known, term

Key = Any
"""An integer, or a tuple of integers."""


def cell_of(value: Any) -> Cell:
    """An integer or truth value of the specification as a cell."""
    if type(value) in (int, bool):
        return value
    if type(value) is SymbolicBoolean:
        return known(boolean_term(value))
    return known(integer_term(value))


def value_of(cell: Cell) -> Any:
    """A cell as the specification sees it."""
    if not cells.is_term(cell):
        return cell
    return SymbolicBoolean(cell) if cells.is_truth(cell) else SymbolicInteger(cell)


def is_record(value: Any) -> bool:
    """Whether it is a tuple with named or numbered parts."""
    return isinstance(value, tuple) if type(value) not in (SymbolicInteger, SymbolicBoolean) else False


def choose(condition: Cell, met: Any, unmet: Any) -> Any:
    """`one` if the condition holds, otherwise `other`; records part by part."""
    for one, other, when in ((met, unmet, condition), (unmet, met, cells.inverse(condition))):
        if hasattr(type(one), "or_else"):
            return one.or_else(when, other)
    if is_record(met):
        parts = [choose(condition, one, other) for one, other in zip(met, unmet, strict=True)]
        return type(met)(*parts) if hasattr(met, "_fields") else tuple(parts)
    return value_of(cells.choose(condition, cell_of(met), cell_of(unmet)))


def agree(one: Any, other: Any) -> Cell:
    """Whether two values are equal: integers, and records part by part."""
    for mine, its in ((one, other), (other, one)):
        if hasattr(type(mine), "agrees"):
            return mine.agrees(its)
    if is_record(one):
        if len(one) != len(other):
            return False
        return cells.every(agree(mine, its) for mine, its in zip(one, other, strict=True))
    return cells.equal(cell_of(one), cell_of(other))


@dataclass(frozen=True, slots=True, eq=False)
class FiniteMap:
    """Realises `cachespec.kernel.Map`."""

    members: Mapping[Key, Cell]
    """For each possible key, whether it is present."""
    values: Mapping[Key, Any]
    """Its value; any value if it is absent."""

    def has(self, key: Any) -> Any:
        return value_of(cells.some(cells.every((same, self.members[one])) for one, same in self._meant(key)))

    def get(self, key: Any, default: Any) -> Any:
        result = default
        for one, same in self._meant(key):
            there = cells.every((same, self.members[one]))
            if there is not False:
                result = self.values[one] if there is True else choose(there, self.values[one], result)
        return result

    def set(self, key: Any, value: Any) -> FiniteMap:
        members, values = dict(self.members), dict(self.values)
        meant = list(self._meant(key))
        _demand_known(meant)
        for one, same in meant:
            members[one] = cells.some((same, members[one]))
            values[one] = value if same is True else choose(same, value, values[one])
        return replace(self, members=members, values=values)

    def remove(self, key: Any) -> FiniteMap:
        members = dict(self.members)
        for one, same in self._meant(key):
            members[one] = cells.every((members[one], cells.inverse(same)))
        return replace(self, members=members)

    @property
    def length(self) -> Any:
        return value_of(cells.count(self.members.values()))

    @property
    def total(self) -> Any:
        numbers = (cells.choose(there, cell_of(self.values[key]), 0) for key, there in self.members.items())
        return value_of(cells.total(numbers))

    def items(self) -> Iterable[tuple[Any, Any]]:
        raise NotFollowedError("a container of unknown members cannot be listed: `items` is for views only")

    def agrees(self, other: FiniteMap) -> Cell:
        """The same keys with the same values."""
        return cells.every(
            cells.every(
                (
                    cells.equal(there, other.members[key]),
                    cells.some((cells.inverse(there), agree(self.values[key], other.values[key]))),
                )
            )
            if there is not False
            else cells.inverse(other.members[key])
            for key, there in self.members.items()
        )

    def __eq__(self, other: object) -> Any:
        return value_of(self.agrees(other)) if isinstance(other, FiniteMap) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly

    def _meant(self, key: Any) -> Iterator[tuple[Key, Cell]]:
        return meant(self.members, key)


class FiniteUnits(FiniteMap):
    """Numbers in which an absent one reads as 0, so that a present 0 and an absent number are equal."""

    __slots__ = ()

    def agrees(self, other: FiniteMap) -> Cell:
        """The same numbers of all keys."""
        return cells.every(agree(self.get(key, 0), other.get(key, 0)) for key in self.members)


@dataclass(frozen=True, slots=True, eq=False)
class FiniteQueue:
    """Realises `cachespec.kernel.Queue`."""

    ranks: Mapping[Key, Cell]
    """For each key that there can be, its place from the oldest on; -1 outside."""
    weights: Mapping[Key, Cell]

    def has(self, key: Any) -> Any:
        return value_of(cells.some(cells.every((same, self.queued(one))) for one, same in meant(self.ranks, key)))

    def weight(self, key: Any, default: Any) -> Any:
        result = cell_of(default)
        for one, same in meant(self.ranks, key):
            result = cells.choose(cells.every((same, self.queued(one))), self.weights[one], result)
        return value_of(result)

    def push(self, key: Any, weight: Any) -> FiniteQueue:
        rest = self.remove(key)
        return rest.placed(key, weight, cell_of(rest.length))

    def push_front(self, key: Any, weight: Any) -> FiniteQueue:
        rest = self.remove(key)
        later = {one: cells.choose(rest.queued(one), cells.add(rank, 1), -1) for one, rank in rest.ranks.items()}
        return replace(rest, ranks=later).placed(key, weight, 0)

    def remove(self, key: Any) -> FiniteQueue:
        chosen = list(meant(self.ranks, key))
        gone: Cell = -1
        for one, same in chosen:
            gone = cells.choose(same, self.ranks[one], gone)
        there = cells.at_most(0, gone)
        ranks = {}
        for one, rank in self.ranks.items():
            later = cells.every((there, cells.less(gone, rank)))
            ranks[one] = cells.choose(later, cells.subtract(rank, 1), rank)
        for one, same in chosen:
            ranks[one] = cells.choose(same, -1, ranks[one])
        return replace(self, ranks=ranks)

    def oldest(self, default: Any) -> Any:
        result = default
        for one, rank in self.ranks.items():
            result = choose(cells.equal(rank, 0), one, result)
        return result

    def oldest_outside(self, excluded: Any, default: Any) -> Any:
        eligible = {
            one: cells.every((self.queued(one), cells.inverse(cell_of(excluded.has(one))))) for one in self.ranks
        }
        result = default
        for one, rank in self.ranks.items():
            older = (
                cells.every((eligible[other], cells.less(its, rank)))
                for other, its in self.ranks.items()
                if other != one
            )
            result = choose(cells.every((eligible[one], cells.inverse(cells.some(older)))), one, result)
        return result

    @property
    def length(self) -> Any:
        return value_of(cells.count(map(self.queued, self.ranks)))

    @property
    def total(self) -> Any:
        return value_of(cells.total(cells.choose(self.queued(one), self.weights[one], 0) for one in self.ranks))

    def items(self) -> Iterable[tuple[Any, int]]:
        raise NotFollowedError("a container of unknown members cannot be listed: `items` is for views only")

    def agrees(self, other: FiniteQueue) -> Cell:
        """The same keys in the same order, with the same weights."""
        return cells.every(
            cells.every(
                (
                    cells.equal(rank, other.ranks[one]),
                    cells.some((cells.less(rank, 0), cells.equal(self.weights[one], other.weights[one]))),
                )
            )
            for one, rank in self.ranks.items()
        )

    def __eq__(self, other: object) -> Any:
        return value_of(self.agrees(other)) if isinstance(other, FiniteQueue) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly

    def queued(self, key: Key) -> Cell:
        """Whether the key is in it."""
        return cells.at_most(0, self.ranks[key])

    def placed(self, key: Any, weight: Any, rank: Cell) -> FiniteQueue:
        """With a key that was outside at this rank; no other changes its own."""
        ranks, weights = dict(self.ranks), dict(self.weights)
        chosen = list(meant(self.ranks, key))
        _demand_known(chosen)
        for one, same in chosen:
            ranks[one] = cells.choose(same, rank, ranks[one])
            weights[one] = cells.choose(same, cell_of(weight), weights[one])
        return FiniteQueue(ranks, weights)


def meant(keys: Iterable[Key], key: Any) -> Iterator[tuple[Key, Cell]]:
    """Every key that can be meant, with the condition that it is."""
    wanted = tuple(map(cell_of, key)) if is_record(key) else (cell_of(key),)
    for one in keys:
        parts = one if isinstance(one, tuple) else (one,)
        same = cells.every(cells.equal(mine, its) for mine, its in zip(parts, wanted, strict=True))
        if same is not False:
            yield one, same


def _demand_known(chosen: Sequence[tuple[Key, Cell]]) -> None:
    """A stored key has a row in the tables."""
    there = cells.some(same for _, same in chosen)
    if there is not True:
        path().demand("a key that is stored is one of the configuration", term(there))


class FiniteSequence(tuple[Any, ...]):
    """A tuple that is read at unknown positions too; the position has to exist."""

    __slots__ = ()

    def __getitem__(self, place: Any) -> Any:
        if type(place) is not SymbolicInteger:
            return super().__getitem__(place)
        position = cell_of(place)
        inside = cells.every((cells.at_most(0, position), cells.less(position, len(self))))
        path().demand("the position is in the tuple", term(inside))
        path().assume(term(inside))
        result = super().__getitem__(-1)
        for index in reversed(range(len(self) - 1)):
            result = choose(cells.equal(position, index), super().__getitem__(index), result)
        return result
