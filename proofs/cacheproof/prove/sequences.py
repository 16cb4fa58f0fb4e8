"""A tuple of unknown length as terms: read by position, never listed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import NotFollowedError, SymbolicBoolean, Term, integer_term, path
from cacheproof.prove.shapes import Shape


@dataclass(frozen=True, slots=True, eq=False)
class SymbolicSequence:
    """A tuple of unknown length. Reading a position demands that it is there."""

    element: Shape
    items: Term
    length: Term

    @classmethod
    def fresh(cls, element: Shape, name: str) -> SymbolicSequence:
        """Any tuple."""
        items = path().fresh(f"{name}.items", z3.ArraySort(z3.IntSort(), element.sort))
        length = path().fresh(f"{name}.length", z3.IntSort())
        path().assume(length >= 0)
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
        return self.element.decode(self.items[position])

    def same_as(self, other: SymbolicSequence) -> SymbolicBoolean:
        """The same length and the same values."""
        place = z3.Int("place")
        inside = z3.And(place >= 0, place < self.length)
        values = z3.ForAll([place], z3.Implies(inside, self.items[place] == other.items[place]))
        return SymbolicBoolean(z3.And(self.length == other.length, values))

    def __iter__(self) -> NoReturn:
        raise NotFollowedError("a tuple of unknown length cannot be listed or unpacked")

    def __len__(self) -> NoReturn:
        raise NotFollowedError("`len` of a tuple of unknown length cannot be followed")

    def __contains__(self, value: object) -> NoReturn:
        raise NotFollowedError("`in` of a tuple of unknown length cannot be followed")

    def __eq__(self, other: object) -> NoReturn:
        raise NotFollowedError("tuples of unknown length are compared with `same_as` in proofs only")

    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly
