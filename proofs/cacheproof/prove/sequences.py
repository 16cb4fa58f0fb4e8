"""A tuple of unknown length as terms: read by position, never listed."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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
    occurrences: Term | None = None
    """A ghost, if it is kept: how often each integer occurs. Every change keeps it up to date."""

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

    @classmethod
    def filled(cls, element: Shape, value: Any, length: Term) -> SymbolicSequence:
        """The tuple that has this value at each position."""
        return cls(element, z3.K(z3.IntSort(), element.encode(value)), length)

    def counted(self) -> SymbolicSequence:
        """The same tuple of integers, with the number of times that each occurs; the positions must be known."""
        occurrences: Any = z3.K(z3.IntSort(), z3.IntVal(0))
        if z3.is_const_array(self.items):
            return replace(self, occurrences=z3.Store(occurrences, self.items.arg(0), self.length))
        count = known_number(self.length)
        if count is None:
            raise NotFollowedError("the values of a tuple of unknown length are not counted")
        for value in (z3.simplify(self.items[place]) for place in range(count)):
            occurrences = z3.Store(occurrences, value, occurrences[value] + 1)
        return replace(self, occurrences=occurrences)

    def count(self, value: Any) -> SymbolicInteger:
        """How often the integer occurs."""
        if self.occurrences is None:
            raise NotFollowedError("nothing is known of how often a value occurs in this tuple")
        return SymbolicInteger(self.occurrences[integer_term(value)])

    def __getitem__(self, place: Any) -> Any:
        if type(place) is slice:
            return Stretch(self, place)
        position = integer_term(place)
        path().demand("the position is in the tuple", z3.And(position >= 0, position < self.length))
        value = self.element.decode(self.items[position])
        return value if self.seen is None else self.seen(position, value)

    def joined(self, *values: Any) -> SymbolicSequence:
        """With these values behind the others."""
        if self.occurrences is not None:
            raise NotFollowedError("a tuple whose values are counted does not grow")
        items, end = self.items, self.length
        for value in values:
            items, end = z3.Store(items, end, self.element.encode(value)), end + 1
        return SymbolicSequence(self.element, items, end)

    def mapped(self, function: Callable[[Any], Any]) -> SymbolicSequence:
        """`tuple(function(value) for value in self)`, if the function has the same integer for each value."""
        value = function(self.element.decode(path().fresh("value", self.element.sort)))
        if type(value) is not int:
            raise NotFollowedError("a tuple of unknown length is mapped to a constant, and to nothing else")
        return SymbolicSequence.filled(INTEGER, value, self.length)

    def with_value(self, place: Term, value: Any) -> SymbolicSequence:
        """With another value at a position that it has."""
        new = self.element.encode(value)
        counts = self.occurrences
        if counts is not None:
            old = self.items[place]
            counts = z3.Store(counts, old, counts[old] - 1)
            counts = z3.Store(counts, new, counts[new] + 1)
        return replace(self, items=z3.Store(self.items, place, new), occurrences=counts)

    def renewed(self, name: str) -> SymbolicSequence:
        """Any other one of its kind."""
        other = SymbolicSequence.fresh(self.element, name)
        if self.occurrences is None:
            return other
        return replace(other, occurrences=path().fresh(f"{name}.occurrences", self.occurrences.sort()))

    def symbolic_length(self) -> SymbolicInteger:
        """`len`."""
        return SymbolicInteger(self.length)

    def same_as(self, other: SymbolicSequence) -> SymbolicBoolean:
        """The same length and the same values; if they are counted, the same counts."""
        place = z3.Int("place")
        inside = z3.And(place >= 0, place < self.length)
        values = z3.ForAll([place], z3.Implies(inside, self.items[place] == other.items[place]))
        counted = self.occurrences is not None and other.occurrences is not None
        counts = self.occurrences == other.occurrences if counted else z3.BoolVal(True)
        return SymbolicBoolean(z3.And(self.length == other.length, values, counts))

    def identical_to(self, other: SymbolicSequence) -> SymbolicBoolean:
        """The same terms, behind the end too: more than equality, and free of quantifiers."""
        counted = self.occurrences is not None and other.occurrences is not None
        counts = self.occurrences == other.occurrences if counted else z3.BoolVal(True)
        return SymbolicBoolean(z3.And(self.length == other.length, self.items == other.items, counts))

    def __bool__(self) -> bool:
        return path().branch(self.length > 0)

    def __iter__(self) -> Iterator[Any]:
        count = known_number(self.length)
        if count is None:
            raise NotFollowedError("a tuple of unknown length cannot be listed or unpacked")
        return (self[place] for place in range(count))

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


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """The part of a tuple before a position, or from one on."""

    whole: SymbolicSequence
    cut: slice


def with_another(parts: Sequence[tuple[bool, Any]]) -> SymbolicSequence:
    """`(*several[:place], value, *several[place + 1 :])`, each part with whether it was starred."""
    match parts:
        case ((True, Stretch(whole, before)), (False, value), (True, Stretch(same, after))) if whole is same:
            place = integer_term(before.stop)
            ends = (before.start, before.step, after.stop, after.step) == (None,) * 4
            if ends and z3.is_true(z3.simplify(integer_term(after.start) == place + 1)):
                path().demand("the position is in the tuple", z3.And(place >= 0, place < whole.length))
                return whole.with_value(place, value)
    raise NotFollowedError("of a tuple of unknown length, one value is replaced, and nothing else")


def known_number(term: Term) -> int | None:
    """The integer that the term is, without any assumption; or None."""
    number = z3.simplify(term)
    return int(number.as_long()) if z3.is_int_value(number) else None


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
class Generated:
    """`tuple(function(number) for number in range(length))`: it is put behind another tuple."""

    length: Term
    function: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class SymbolicRange:
    """`range(length)`: a loop over it can be cut."""

    length: Term

    def element(self) -> SymbolicInteger:
        """Any one of them."""
        place = path().fresh("place", z3.IntSort())
        path().assume(z3.And(place >= 0, place < self.length))
        return SymbolicInteger(place)

    def mapped(self, function: Callable[[Any], Any]) -> Generated:
        """`tuple(function(number) for number in self)`."""
        return Generated(self.length, function)

    def symbolic_length(self) -> SymbolicInteger:
        """`len`."""
        return SymbolicInteger(self.length)

    def __getitem__(self, place: Any) -> Any:
        return place

    def __iter__(self) -> NoReturn:
        raise NotFollowedError("a loop over a range of unknown length needs to be cut")


@dataclass(frozen=True, slots=True)
class LaterRange:
    """`range(first, last)`: it is mapped, and nothing else."""

    first: Term
    last: Term

    def mapped(self, function: Callable[[Any], Any]) -> Generated:
        """`tuple(function(number) for number in self)`."""
        count = z3.If(self.last > self.first, self.last - self.first, z3.IntVal(0))
        return Generated(count, lambda place: function(SymbolicInteger(self.first) + place))

    def __iter__(self) -> NoReturn:
        raise NotFollowedError("a range of unknown length is mapped by `tuple(... for ... in ...)`, and nothing else")


@dataclass(frozen=True, slots=True)
class Numbered:
    """`enumerate(values)`: a loop over it can be cut."""

    values: Any

    def element(self) -> tuple[SymbolicInteger, Any]:
        """Any position, with its value."""
        place = SymbolicRange(integer_term(length(self.values))).element()
        return place, self.values[place]

    def symbolic_length(self) -> Any:
        """`len`."""
        return length(self.values)

    def __getitem__(self, place: Any) -> tuple[Any, Any]:
        return place, self.values[place]

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return builtins.enumerate(self.values)


def numbered(values: Any) -> Any:
    """`enumerate`, of tuples of unknown length too."""
    return Numbered(values) if hasattr(values, "symbolic_length") else builtins.enumerate(values)


def filtered(condition: Callable[[Any], Any], values: Any) -> Any:
    """What `tuple(value for value in values if condition(value))` is in the rewritten code."""
    return values.filtered(condition) if hasattr(values, "filtered") else tuple(filter(condition, values))


def all_of(condition: Callable[[Any], Any], values: Any) -> Any:
    """What `all(condition(value) for value in values)` is in the rewritten code."""
    return values.every(lambda _, value: condition(value)) if hasattr(values, "every") else all(map(condition, values))


def length(value: Any) -> Any:
    """`len`, of tuples of unknown length too."""
    return value.symbolic_length() if hasattr(value, "symbolic_length") else len(value)


def counted(*bounds: Any) -> Any:
    """`range`, up to an unknown number too."""
    if len(bounds) == 1 and type(bounds[0]) is SymbolicInteger:
        number = known_number(bounds[0].term)
        return SymbolicRange(z3.simplify(bounds[0].term)) if number is None else range(number)
    if len(bounds) == 2 and SymbolicInteger in map(type, bounds):  # from one number to another
        first, last = map(integer_term, bounds)
        ends = known_number(first), known_number(last)
        return LaterRange(first, last) if None in ends else range(*ends)  # type: ignore[arg-type]  # both are known
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
