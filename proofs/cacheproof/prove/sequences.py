"""A tuple of unknown length as terms: read by position, never listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import NotFollowedError, SymbolicBoolean, SymbolicInteger, Term, integer_term, path
from cacheproof.prove.shapes import INTEGER, Shape, record_sort, small_array


@dataclass(frozen=True, slots=True, eq=False)
class SymbolicSequence:
    """A tuple of unknown length. Reading a position demands that it exists."""

    element: Shape
    items: Term
    length: Term
    seen: Callable[[Term, Any], Any] | None = None
    """`(position, value) -> value`: assumptions about a value, made when it is read."""

    @classmethod
    def fresh(cls, element: Shape, name: str) -> SymbolicSequence:
        """Any tuple."""
        items = path().fresh(f"{name}.items", z3.ArraySort(z3.IntSort(), element.sort))
        length = path().fresh(f"{name}.length", z3.IntSort())
        path().assume(length >= 0)
        path().hints.append(items == small_array(INTEGER, element.blank, name))
        return cls(element, items, length)

    @classmethod
    def of(cls, element: Shape, values: Iterable[Any]) -> SymbolicSequence:
        """The tuple of these values."""
        items, length = path().fresh("items", z3.ArraySort(z3.IntSort(), element.sort)), 0
        for value in values:
            items, length = z3.Store(items, length, element.encode(value)), length + 1
        return cls(element, items, z3.IntVal(length))

    def __getitem__(self, place: Any) -> Any:
        position = integer_term(place)
        path().demand("the position is in the tuple", z3.And(position >= 0, position < self.length))
        value = self.element.decode(self.items[position])
        return value if self.seen is None else self.seen(position, value)

    def joined(self, value: Any) -> SymbolicSequence:
        """With one value more at the end."""
        items = z3.Store(self.items, self.length, self.element.encode(value))
        return SymbolicSequence(self.element, items, self.length + 1)

    def symbolic_length(self) -> SymbolicInteger:
        """`len`."""
        return SymbolicInteger(self.length)

    def same_as(self, other: SymbolicSequence) -> SymbolicBoolean:
        """The same length and the same values."""
        place = z3.Int("place")
        inside = z3.And(place >= 0, place < self.length)
        values = z3.ForAll([place], z3.Implies(inside, self.items[place] == other.items[place]))
        return SymbolicBoolean(z3.And(self.length == other.length, values))

    def __bool__(self) -> bool:
        return path().branch(self.length > 0)

    def __iter__(self) -> Iterator[Any]:
        number = z3.simplify(self.length)
        if not z3.is_int_value(number):
            raise NotFollowedError("a tuple of unknown length cannot be listed or unpacked")
        return (self[place] for place in range(number.as_long()))

    def __len__(self) -> NoReturn:
        raise NotFollowedError("`len` of a tuple of unknown length cannot be followed")

    def __contains__(self, value: object) -> NoReturn:
        raise NotFollowedError("`in` of a tuple of unknown length cannot be followed")

    def __eq__(self, other: object) -> SymbolicBoolean:  # type: ignore[override]  # a condition, not an answer
        if type(other) is tuple and other == ():
            return SymbolicBoolean(self.length == 0)
        raise NotFollowedError("tuples of unknown length are compared with `same_as` in proofs only")

    def __ne__(self, other: object) -> SymbolicBoolean:  # type: ignore[override]  # likewise
        return ~(self == other)

    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly


def row_of(element: Shape) -> Shape:
    """The shape of a tuple of unknown length, where tuples stand within tuples."""
    items = z3.ArraySort(z3.IntSort(), element.sort)
    sort, construct, (items_of, length_of) = record_sort("row", (items, z3.IntSort()))

    def encode(value: Any) -> Term:
        row = value if type(value) is SymbolicSequence else SymbolicSequence.of(element, value)
        return construct(row.items, row.length)

    def decode(term: Term) -> SymbolicSequence:
        path().assume(length_of(term) >= 0)
        return SymbolicSequence(element, items_of(term), length_of(term))

    samples = tuple(
        construct(z3.Store(z3.K(z3.IntSort(), element.blank), 0, one), z3.IntVal(1)) for one in element.samples
    )
    return Shape(sort, encode, decode, samples, construct(z3.K(z3.IntSort(), element.blank), z3.IntVal(0)))


@dataclass(frozen=True, slots=True)
class SymbolicRange:
    """`range(length)`: a loop over it can be cut."""

    length: Term

    def element(self) -> SymbolicInteger:
        """Any one of them."""
        place = path().fresh("place", z3.IntSort())
        path().assume(z3.And(place >= 0, place < self.length))
        return SymbolicInteger(place)

    def symbolic_length(self) -> SymbolicInteger:
        """`len`."""
        return SymbolicInteger(self.length)

    def __getitem__(self, place: Any) -> Any:
        return place

    def __iter__(self) -> NoReturn:
        raise NotFollowedError("a loop over a range of unknown length needs to be cut")


def length(value: Any) -> Any:
    """`len`, of tuples of unknown length too."""
    return value.symbolic_length() if hasattr(value, "symbolic_length") else len(value)


def counted(*bounds: Any) -> Any:
    """`range`, up to an unknown number too."""
    if len(bounds) == 1 and type(bounds[0]) is SymbolicInteger:
        number = z3.simplify(bounds[0].term)
        return range(number.as_long()) if z3.is_int_value(number) else SymbolicRange(number)
    return range(*bounds)


class Unknown:
    """A tuple that a loop has built up, of which nothing is known. Unpacked into a longer one it stands for itself."""

    def __iter__(self) -> Iterator[Unknown]:
        return iter((self,))

    def __bool__(self) -> NoReturn:
        raise NotFollowedError("nothing is known of a tuple that a cut loop has built")

    def __eq__(self, other: object) -> NoReturn:
        raise NotFollowedError("nothing is known of a tuple that a cut loop has built")

    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly
