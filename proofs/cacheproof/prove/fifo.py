"""A queue of unknown length as terms: first in, first out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import (
    NotFollowedError,
    SymbolicBoolean,
    SymbolicInteger,
    Term,
    boolean_term,
    integer_term,
    path,
)
from cacheproof.prove.histories import Opaque, opaque_term


@dataclass(frozen=True, slots=True, eq=False)
class Fifo:
    """A tuple of records from which only the first is taken, and which only grows at its end.

    An entry keeps its number as long as it is in the queue: those before it are counted from `first`.
    """

    record: Callable[..., Any]
    """The type of the entries: its fields are integers or opaque values."""
    columns: tuple[Term, ...]
    """For each field an array, by number."""
    first: Term
    """The number of the oldest entry."""
    next: Term
    """The number of the next entry to come."""

    @classmethod
    def fresh(cls, record: Callable[..., Any], sorts: tuple[Any, ...], name: str) -> Fifo:
        """Any queue of such records, whose fields are of these sorts."""
        integer = z3.IntSort()
        columns = tuple(
            path().fresh(f"{name}.{place}", z3.ArraySort(integer, sort)) for place, sort in enumerate(sorts)
        )
        first, following = (path().fresh(f"{name}.{end}", integer) for end in ("first", "next"))
        path().assume(first <= following)
        path().hints.append(z3.And(first == 0, following <= len(sorts)))
        return cls(record, columns, first, following)

    def at(self, number: Term) -> Any:
        """The entry of this number."""
        return self.record(*(_value(column[number]) for column in self.columns))

    def __getitem__(self, place: Any) -> Any:
        if type(place) is slice:
            if place.start != 1 or place.stop is not None or place.step is not None:
                raise NotFollowedError("of a queue, only the first entry can be taken away")
            path().demand("the position is in the tuple", self.first < self.next)
            return replace(self, first=self.first + 1)
        position = integer_term(place)
        path().demand("the position is in the tuple", z3.And(position >= 0, position < self.next - self.first))
        return self.at(self.first + position)

    def joined(self, entry: Any) -> Fifo:
        """With one entry more at its end."""
        columns = tuple(
            z3.Store(column, self.next, _term(value, column.sort().range()))
            for column, value in zip(self.columns, entry, strict=True)
        )
        return replace(self, columns=columns, next=self.next + 1)

    def every(self, holds: Callable[[Term, Any], Any]) -> SymbolicBoolean:
        """`(number, entry) -> condition`, for all entries."""
        number = z3.FreshConst(z3.IntSort(), "number")
        inside = z3.And(self.first <= number, number < self.next)
        condition = boolean_term(holds(number, self.at(number)))
        return SymbolicBoolean(z3.ForAll([number], z3.Implies(inside, condition)))

    @property
    def length(self) -> Term:
        """How many entries there are."""
        return self.next - self.first

    def symbolic_length(self) -> SymbolicInteger:
        """`len`."""
        return SymbolicInteger(self.length)

    def __eq__(self, other: object) -> SymbolicBoolean:  # type: ignore[override]  # a condition, not an answer
        if type(other) is tuple and other == ():
            return SymbolicBoolean(self.first == self.next)
        raise NotFollowedError("a queue is compared with the empty tuple only")

    def __ne__(self, other: object) -> SymbolicBoolean:  # type: ignore[override]  # likewise
        return ~(self == other)

    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly

    def __iter__(self) -> NoReturn:
        raise NotFollowedError("a queue of unknown length cannot be listed")

    def __len__(self) -> NoReturn:
        raise NotFollowedError("`len` of a queue of unknown length cannot be followed")


def _value(term: Term) -> Any:
    return SymbolicInteger(term) if term.sort() == z3.IntSort() else Opaque(term)


def _term(value: Any, sort: Any) -> Term:
    return integer_term(value) if sort == z3.IntSort() else opaque_term(value, sort)
