"""Tuples of requests as terms: lines, in which no request occurs twice, and what a step gives to each request.

A line knows the place of each of its members. That is a *ghost*: a number that every change keeps up to date, and that
no transition reads. A line whose places are right has no member twice; this is a formula (`distinct`), which a proof
demands where it needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import (
    NotFollowedError,
    SymbolicBoolean,
    SymbolicInteger,
    Term,
    boolean_term,
    integer,
    integer_term,
    path,
)
from cacheproof.prove.sequences import known_number

INTEGERS = z3.ArraySort(z3.IntSort(), z3.IntSort())


def each(condition: Callable[[Term], Term], trigger: Callable[[Term], Term] | None = None) -> Term:
    """The condition, for every integer. `trigger`: the term at whose sight a solver uses it."""
    key = z3.Int("each")
    return z3.ForAll([key], condition(key), patterns=[] if trigger is None else [trigger(key)])


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A tuple of integers of unknown length. Its members stand from position `first` to before `last`."""

    items: Term
    first: Term
    last: Term
    place_of: Term
    """The position of each member."""

    @classmethod
    def fresh(cls, name: str) -> Line:
        """Any tuple, with any places."""
        items, places = (path().fresh(f"{name}.{part}", INTEGERS) for part in ("items", "places"))
        first, last = (path().fresh(f"{name}.{part}", z3.IntSort()) for part in ("first", "last"))
        path().assume(first <= last)
        return cls(items, first, last, places)

    @classmethod
    def of(cls, values: Iterable[Any]) -> Line:
        """The tuple of these values."""
        empty = z3.K(z3.IntSort(), z3.IntVal(0))
        return cls(empty, z3.IntVal(0), z3.IntVal(0), empty).joined(*values)

    def renewed(self, name: str) -> Line:
        """Any other one."""
        return Line.fresh(name)

    def joined(self, *values: Any) -> Line:
        """With these values behind the others."""
        items, last, places = self.items, self.last, self.place_of
        for value in values:
            term = integer_term(value)
            items, places, last = z3.Store(items, last, term), z3.Store(places, term, last), z3.simplify(last + 1)
        return Line(items, self.first, last, places)

    def __getitem__(self, place: Any) -> Any:
        if type(place) is slice:
            if (place.start, place.stop, place.step) != (1, None, None):
                raise NotFollowedError("of a line, only the first member is taken away")
            path().demand("the position is in the tuple", self.first < self.last)
            return replace(self, first=z3.simplify(self.first + 1))
        position = self.first + integer_term(place)
        path().demand("the position is in the tuple", z3.And(position >= self.first, position < self.last))
        return SymbolicInteger(z3.simplify(self.items[position]))

    def symbolic_length(self) -> SymbolicInteger:
        """`len`."""
        return SymbolicInteger(self.last - self.first)

    def is_in(self, position: Term) -> Term:
        """Whether a member stands there."""
        return z3.And(position >= self.first, position < self.last)

    def has(self, value: Term) -> Term:
        """Whether it is a member, if the places are right."""
        place = self.place_of[value]
        return z3.And(self.is_in(place), self.items[place] == value)

    def distinct(self) -> SymbolicBoolean:
        """The places are right: no member occurs twice."""
        right = each(lambda p: z3.Implies(self.is_in(p), self.place_of[self.items[p]] == p), lambda p: self.items[p])
        return SymbolicBoolean(right)

    def same_as(self, other: Line) -> SymbolicBoolean:
        """The same members at the same positions, and the same places."""
        parts = ("items", "first", "last", "place_of")
        return SymbolicBoolean(z3.And(*(getattr(self, part) == getattr(other, part) for part in parts)))

    def equals(self, other: Line) -> SymbolicBoolean:
        """The same members in the same order, wherever the positions begin."""
        moved = other.first - self.first
        same = each(lambda p: z3.Implies(self.is_in(p), self.items[p] == other.items[p + moved]))
        return SymbolicBoolean(z3.And(self.last - self.first == other.last - other.first, same))

    def filtered(self, condition: Callable[[Any], Any]) -> Line:
        """`tuple(member for member in self if member != value)`: those behind it move up."""
        return self.without(_excluded(condition))

    def without(self, value: Term) -> Line:
        """Without this member, if it is one. The places must be right."""
        path().demand("no member of a line occurs twice", self.distinct().term)
        place, there = self.place_of[value], self.has(value)
        items, places = (path().fresh(name, INTEGERS) for name in ("left", "places"))
        behind = each(
            lambda p: items[p] == z3.If(z3.And(there, p >= place), self.items[p + 1], self.items[p]), lambda p: items[p]
        )
        path().assume(behind)
        moved = each(lambda one: places[one] == self._moved(self.place_of[one], place, there), lambda one: places[one])
        path().assume(moved)
        return Line(items, self.first, self.last - z3.If(there, z3.IntVal(1), z3.IntVal(0)), places)

    @staticmethod
    def _moved(place: Term, gone: Term, there: Term) -> Term:
        return z3.If(z3.And(there, place > gone), place - 1, place)

    def __iter__(self) -> Iterator[SymbolicInteger]:
        count = known_number(self.last - self.first)
        if count is None:
            raise NotFollowedError("a line of unknown length cannot be listed: its loop needs to be cut")
        return (self[place] for place in range(count))

    def __bool__(self) -> bool:
        return path().branch(self.first < self.last)

    def __eq__(self, other: object) -> NoReturn:
        raise NotFollowedError("lines are compared with `same_as` or `equals` in proofs only")

    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly

    def shown(self, value_of: Callable[[Term], Any]) -> str:
        """As a counterexample shows it."""
        first, last = (value_of(term).as_long() for term in (self.first, self.last))
        return "(" + ", ".join(str(value_of(self.items[place])) for place in range(first, min(last, first + 8))) + ")"


def _excluded(condition: Callable[[Any], Any]) -> Term:
    """The value of which the condition says that a member is another one."""
    member = integer("member")
    term = z3.simplify(boolean_term(condition(member)))
    sides = term.arg(0).children() if z3.is_not(term) and z3.is_eq(term.arg(0)) else []
    others = [side for side in sides if not side.eq(member.term)]
    if len(sides) != 2 or len(others) != 1:
        raise NotFollowedError("of a line, only one member is left out")
    return others[0]


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """A flat tuple of pairs, request and number. Ghosts are the sum, and by request whether it occurs, with what."""

    names: Line
    numbers: Term
    """By the position of the request in `names`."""
    total: Term
    served: Term
    """Whether a request occurs."""
    given: Term
    """Its number; the last, if it occurs several times."""

    @classmethod
    def empty(cls) -> Shares:
        """No pairs."""
        nothing, nobody = (z3.K(z3.IntSort(), value) for value in (z3.IntVal(0), z3.BoolVal(False)))
        return cls(Line.of(()), nothing, z3.IntVal(0), nobody, nothing)

    @classmethod
    def of(cls, values: Iterable[Any]) -> Shares:
        """These values: request, number, request, number."""
        return cls.empty().extended(*values)

    def renewed(self, name: str) -> Shares:
        """Any other one."""
        return Shares(
            Line.fresh(f"{name}.names"),
            path().fresh(f"{name}.numbers", INTEGERS),
            path().fresh(f"{name}.total", z3.IntSort()),
            path().fresh(f"{name}.served", z3.ArraySort(z3.IntSort(), z3.BoolSort())),
            path().fresh(f"{name}.given", INTEGERS),
        )

    def extended(self, *values: Any) -> Shares:
        """With these pairs behind the others."""
        names, numbers, total, served, given = self.names, self.numbers, self.total, self.served, self.given
        for name, number in zip(values[::2], values[1::2], strict=True):
            request, term = integer_term(name), integer_term(number)
            numbers, total = z3.Store(numbers, names.last, term), total + term
            served, given = z3.Store(served, request, z3.BoolVal(True)), z3.Store(given, request, term)
            names = names.joined(name)
        return Shares(names, numbers, total, served, given)

    def __getitem__(self, place: Any) -> Line:
        if type(place) is not slice or (place.start, place.stop, place.step) != (None, None, 2):
            raise NotFollowedError("of pairs, all requests are read, and nothing else")
        return self.names

    def shown(self, value_of: Callable[[Term], Any]) -> str:
        """As a counterexample shows it."""
        first, last = (value_of(term).as_long() for term in (self.names.first, self.names.last))
        places = range(first, min(last, first + 8))
        return "(" + ", ".join(f"{value_of(self.names.items[p])}, {value_of(self.numbers[p])}" for p in places) + ")"
