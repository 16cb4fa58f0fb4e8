"""Queues of requests, parts of plans, and plans in flight as terms, for the proof that follows requests.

A line is a multiset of requests with their order. Of a plan that is being made only the requests are kept that have a
part in it, or are named. Of the plans in flight the proof keeps which requests they count for, the output tokens that
they promise to each of them, and the parts of the oldest plan. What is assumed of each of them is a law of tuples, and
the tests compare it with the specification's own functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.containers import every
from cacheproof.prove.executor import (
    NotFollowedError,
    SymbolicBoolean,
    SymbolicInteger,
    Term,
    integer_term,
    path,
)
from cacheproof.prove.sequences import SymbolicSequence
from cacheproof.prove.shapes import INTEGER, shape_of, small_array

INTEGERS = z3.ArraySort(z3.IntSort(), z3.IntSort())
ANSWERS = z3.ArraySort(z3.IntSort(), z3.BoolSort())


@dataclass(frozen=True, slots=True, eq=False)
class SymbolicLine:
    """Any requests in any order."""

    counts: Term
    """How often each request is in the line."""
    items: Term
    """The requests by their places."""
    places: Term
    """One of the places of each request that is there."""
    length: Term

    @classmethod
    def fresh(cls, name: str, counts: Term | None = None, length: Term | None = None) -> SymbolicLine:
        """Any line, or any line of these requests."""
        line = cls(
            path().fresh(f"{name}.counts", INTEGERS) if counts is None else counts,
            path().fresh(f"{name}.items", INTEGERS),
            path().fresh(f"{name}.places", INTEGERS),
            path().fresh(f"{name}.length", z3.IntSort()) if length is None else length,
        )
        path().assume(line.law())
        path().hints += [array == small_array(INTEGER, z3.IntVal(0), "place") for array in (line.items, line.places)]
        if counts is None:
            path().hints.append(line.counts == small_array(INTEGER, z3.IntVal(0), "count"))
        return line

    @classmethod
    def of(cls, requests: Iterable[int]) -> SymbolicLine:
        """The line of these requests."""
        counts, items, places, length = z3.K(z3.IntSort(), z3.IntVal(0)), z3.K(z3.IntSort(), z3.IntVal(-1)), None, 0
        places = z3.K(z3.IntSort(), z3.IntVal(0))
        for request in requests:
            counts = z3.Store(counts, request, counts[request] + 1)
            items, places, length = z3.Store(items, length, request), z3.Store(places, request, length), length + 1
        return cls(z3.simplify(counts), items, places, z3.IntVal(length))

    def law(self) -> Term:
        """Each place has a request that is there, and each request a place; one that is there once, one place."""
        place, request = z3.Int("place"), z3.Int("request")
        inside = z3.And(place >= 0, place < self.length)
        there = self.counts[self.items[place]]
        known = z3.Implies(inside, z3.And(there >= 1, z3.Implies(there == 1, self.places[self.items[place]] == place)))
        at = self.places[request]
        placed = z3.And(at >= 0, at < self.length, self.items[at] == request)
        counted = z3.And(self.counts[request] >= 0, z3.Implies(self.counts[request] > 0, placed))
        return z3.And(self.length >= 0, z3.ForAll([place], known), z3.ForAll([request], counted))

    def has(self, request: Any) -> SymbolicBoolean:
        """Whether the request is there."""
        return SymbolicBoolean(self.counts[integer_term(request)] > 0)

    def without(self, request: Any) -> SymbolicLine:
        """`left_out`. If it was the last one, and there once, those before it stay where they are."""
        term = integer_term(request)
        times = self.counts[term]
        shorter = SymbolicLine.fresh("line", z3.Store(self.counts, term, z3.IntVal(0)), self.length - times)
        place = z3.Int("place")
        inside = z3.And(place >= 0, place < shorter.length)
        same = z3.ForAll([place], z3.Implies(inside, shorter.items[place] == self.items[place]))
        path().assume(z3.Implies(z3.And(times == 1, self.items[self.length - 1] == term), same))
        return shorter

    def added(self, request: Any) -> SymbolicLine:
        """`placed` and `in_front`: with the request, somewhere."""
        term = integer_term(request)
        return SymbolicLine.fresh("line", z3.Store(self.counts, term, self.counts[term] + 1), self.length + 1)

    def reordered(self) -> SymbolicLine:
        """The same requests in any order."""
        return SymbolicLine.fresh("line", self.counts, self.length)

    def renewed(self, name: str) -> SymbolicLine:
        """Any line."""
        return SymbolicLine.fresh(name)

    def __getitem__(self, place: Any) -> SymbolicInteger:
        position = self.length - 1 if type(place) is int and place == -1 else integer_term(place)
        path().demand("the position is in the tuple", z3.And(position >= 0, position < self.length))
        return SymbolicInteger(self.items[position])

    def symbolic_length(self) -> SymbolicInteger:
        """`len`."""
        return SymbolicInteger(self.length)


class PartInFlight(NamedTuple):
    """The numbers of a part of a plan."""

    request: int
    start: int
    tokens: int
    drafts: int
    samples: int
    void: int


PART = shape_of(PartInFlight)


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """The requests in a tuple of requests, or of parts of a plan."""

    members: Term
    newest: Any = None
    """What was added last."""
    parts: Any = None
    """The numbers of the parts in their order, if they are known: a tuple or a sequence."""

    @classmethod
    def fresh(cls, name: str, *, parts: bool = False) -> Members:
        """Any requests, or any parts."""
        members = path().fresh(name, ANSWERS)
        path().hints.append(members == small_array(INTEGER, z3.BoolVal(False), "member"))
        return cls(members, parts=SymbolicSequence.fresh(PART, f"{name}.parts") if parts else None)

    @classmethod
    def of(cls, value: Any) -> Members:
        """Those of a tuple that a round begins with."""
        if type(value) is Members:
            return value
        if type(value) is tuple and not any(True for _ in value):
            return cls(z3.K(z3.IntSort(), z3.BoolVal(False)), parts=())
        raise NotFollowedError("a round begins with empty tuples")

    def joined(self, value: Any) -> Members:
        """With one more: a request, or the request of a part."""
        request = getattr(value, "request", value)
        members = z3.Store(self.members, integer_term(request), z3.BoolVal(True))
        if self.parts is None or not hasattr(value, "tokens"):
            return Members(members, value)
        part = PartInFlight(*(getattr(value, name) for name in PartInFlight._fields))
        return Members(members, value, parts=self.in_order().joined(part))

    def without(self, request: Any) -> Members:
        """Without this request."""
        return Members(z3.Store(self.members, integer_term(request), z3.BoolVal(False)))

    def in_order(self) -> SymbolicSequence:
        """The parts."""
        if self.parts is None:
            raise NotFollowedError("of these requests the order is not known")
        return SymbolicSequence.of(PART, ()) if type(self.parts) is tuple else self.parts

    def element(self) -> PartInFlight:
        """Any part of one of them."""
        request = path().fresh("request", z3.IntSort())
        path().assume(self.members[request])
        numbers = (SymbolicInteger(path().fresh(name, z3.IntSort())) for name in PartInFlight._fields[1:])
        return PartInFlight(SymbolicInteger(request), *numbers)  # type: ignore[arg-type]  # terms stand for integers

    def renewed(self, name: str) -> Members:
        """Any requests."""
        return Members.fresh(name)

    def symbolic_length(self) -> SymbolicInteger:
        """`len`, of parts."""
        return self.in_order().symbolic_length()

    def __getitem__(self, place: Any) -> Any:
        return self.in_order()[place]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.in_order())

    def __bool__(self) -> bool:
        some = path().fresh("some", z3.BoolSort())
        path().assume(z3.Implies(z3.Not(some), every(INTEGER, lambda request: z3.Not(self.members[request]))))
        return path().branch(some)


class PlanInFlight(NamedTuple):
    """A plan, as an update reads it."""

    scheduled: Any


class ReadFromTheFront(ABC):
    """Plans in flight of which code reads the oldest, those behind it, and how many there are."""

    __slots__ = ()
    oldest: SymbolicSequence
    length: Term

    @abstractmethod
    def _later(self) -> ReadFromTheFront:
        """Those behind the oldest."""

    def __getitem__(self, place: Any) -> Any:
        path().demand("the position is in the tuple", self.length > 0)
        if type(place) is slice and place.start == 1 and place.stop is None:
            return self._later()
        if type(place) is int and place == 0:
            return PlanInFlight(self.oldest)
        raise NotFollowedError("of the plans in flight, only the oldest is read")

    def symbolic_length(self) -> SymbolicInteger:
        """`len`."""
        return SymbolicInteger(self.length)

    def __len__(self) -> NoReturn:
        raise NotFollowedError("`len` of plans in flight cannot be followed")

    def __bool__(self) -> bool:
        return path().branch(self.length > 0)


@dataclass(frozen=True, slots=True, eq=False)
class Flight(ReadFromTheFront):
    """The plans in flight."""

    counted: Term
    """The requests that they have parts of which are not void."""
    promised: Term
    """Output tokens that they may sample, of each request."""
    oldest: SymbolicSequence
    """The parts of the oldest plan."""
    places: Term
    """Where in the oldest plan the part of each request is, if it has one."""
    length: Term
    newest: Any = None
    """The plan that was added last."""
    behind: Flight | None = None
    """The plans behind the oldest, where they are known."""

    @classmethod
    def fresh(cls, name: str, counted: Term | None = None, length: Term | None = None) -> Flight:
        """Any plans, or any that count for these requests."""
        flight = cls(
            path().fresh(f"{name}.counted", ANSWERS) if counted is None else counted,
            path().fresh(f"{name}.promised", INTEGERS),
            SymbolicSequence.fresh(PART, f"{name}.oldest"),
            path().fresh(f"{name}.places", INTEGERS),
            path().fresh(f"{name}.length", z3.IntSort()) if length is None else length,
        )
        path().assume(flight.law())
        path().hints.append(flight.promised == small_array(INTEGER, z3.IntVal(0), "promised"))
        if counted is None:
            path().hints.append(flight.counted == small_array(INTEGER, z3.BoolVal(False), "counted"))
        return flight

    @classmethod
    def of(cls, plans: Any, promised: Callable[[int], int], requests: int) -> Flight:
        """These plans."""
        counted, promises = z3.K(z3.IntSort(), z3.BoolVal(False)), z3.K(z3.IntSort(), z3.IntVal(0))
        for part in (part for plan in plans for part in plan.scheduled if not part.void):
            counted = z3.Store(counted, part.request, z3.BoolVal(True))
        for request in range(requests):
            promises = z3.Store(promises, request, promised(request))
        oldest = [PartInFlight(*(getattr(part, name) for name in PartInFlight._fields)) for part in first_parts(plans)]
        places = z3.K(z3.IntSort(), z3.IntVal(-1))
        for place, part in enumerate(oldest):
            places = z3.Store(places, part.request, place)
        behind = cls.of(plans[1:], promised, requests) if plans else None
        return cls(counted, promises, SymbolicSequence.of(PART, oldest), places, z3.IntVal(len(plans)), behind=behind)

    def law(self) -> Term:
        """A part that is not void counts for its request; a plan has one part of a request; no promise is negative."""

        def right(place: Term) -> Term:
            part = parts_of(self.oldest.items[place])
            counts = z3.Or(part.void == 1, z3.And(part.void == 0, self.counted[part.request]))
            return z3.And(counts, part.samples >= 0, part.samples <= 1, part.drafts >= 0, part.tokens > 0,
                          self.places[part.request] == place)  # fmt: skip

        place = z3.Int("place")
        inside = z3.And(place >= 0, place < self.oldest.length)
        promises = every(INTEGER, self._promise)
        return z3.And(self.length >= 0, z3.ForAll([place], z3.Implies(inside, right(place))), promises)

    def _promise(self, request: Term) -> Term:
        some = self.promised[request] > 0
        return z3.And(self.promised[request] >= 0, z3.Implies(some, self.counted[request]))

    def without(self, request: Any) -> Flight:
        """`voided`: the parts of the request are void."""
        term = integer_term(request)
        return replace(
            self,
            counted=z3.Store(self.counted, term, z3.BoolVal(False)),
            promised=z3.Store(self.promised, term, z3.IntVal(0)),
            oldest=self._marked(term),
            behind=self.behind and self.behind.without(request),
        )

    def _marked(self, request: Term) -> SymbolicSequence:
        items = path().fresh("oldest", self.oldest.items.sort())

        def right(place: Term) -> Term:
            before = parts_of(self.oldest.items[place])
            void = z3.If(before.request == request, z3.IntVal(1), before.void)
            return items[place] == PART.encode(as_part(before._replace(void=void)))

        number = z3.simplify(self.oldest.length)
        if z3.is_int_value(number):
            for place in range(number.as_long()):
                path().assume(right(z3.IntVal(place)))
        else:
            place = z3.Int("place")
            inside = z3.And(place >= 0, place < self.oldest.length)
            path().assume(z3.ForAll([place], z3.Implies(inside, right(place))))
        return SymbolicSequence(PART, items, self.oldest.length)

    def joined(self, plan: Any) -> Flight:
        """With one more plan."""
        new = Members.of(plan.scheduled).members
        counted = path().fresh("counted", ANSWERS)
        path().assume(every(INTEGER, lambda request: counted[request] == z3.Or(self.counted[request], new[request])))
        longer = Flight.fresh("plans", counted, self.length + 1)
        return replace(longer, newest=plan)

    def renewed(self, name: str) -> Flight:
        """Any plans."""
        return Flight.fresh(name)

    def _later(self) -> Flight:
        """Those behind the oldest: they count for no other requests."""
        if self.behind is not None:
            return self.behind
        later = Flight.fresh("plans", length=self.length - 1)
        path().assume(every(INTEGER, lambda request: z3.Implies(later.counted[request], self.counted[request])))
        return later


class TermsOfPart(NamedTuple):
    """A part, over terms."""

    request: Term
    start: Term
    tokens: Term
    drafts: Term
    samples: Term
    void: Term


def parts_of(part: Term) -> TermsOfPart:
    """The numbers of a part, over terms."""
    return TermsOfPart(*(part.sort().accessor(0, place)(part) for place in range(len(TermsOfPart._fields))))


def as_part(part: TermsOfPart) -> PartInFlight:
    """The part as code reads it."""
    return PartInFlight(*(SymbolicInteger(term) for term in part))  # type: ignore[arg-type]  # terms stand for integers


def first_parts(plans: Any) -> Any:
    """The parts of the oldest plan."""
    return plans[0].scheduled if plans else ()
