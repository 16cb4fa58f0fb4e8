"""Plans in flight as the proof of `begun.py` sees them: how much they sample and verify of each request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.containers import every
from cacheproof.prove.executor import NotFollowedError, SymbolicInteger, Term, integer_term, path
from cacheproof.prove.scheduler.queues import (
    ANSWERS,
    INTEGERS,
    PART,
    PartInFlight,
    ReadFromTheFront,
    TermsOfPart,
    first_parts,
    parts_of,
)
from cacheproof.prove.sequences import SymbolicSequence
from cacheproof.prove.shapes import INTEGER, small_array


def blank(value: Any) -> Term:
    """This value for each request."""
    return z3.K(z3.IntSort(), value)


def if_there(members: Term, numbers: Term, request: Term) -> Term:
    """The number of the request, or 0 if it is none of these."""
    return z3.If(members[request], numbers[request], z3.IntVal(0))


@dataclass(frozen=True, slots=True, eq=False)
class PartsOfRound:
    """The parts of a plan that is being made: their requests, and how much they sample and verify of each."""

    members: Term
    samples: Term
    drafts: Term
    newest: Any = None
    """What was added last."""

    @classmethod
    def fresh(cls, name: str) -> PartsOfRound:
        """Any parts."""
        members = path().fresh(f"{name}.members", ANSWERS)
        path().hints.append(members == small_array(INTEGER, z3.BoolVal(False), "member"))
        return cls(members, *(path().fresh(f"{name}.{part}", INTEGERS) for part in ("samples", "drafts")))

    @classmethod
    def of(cls, value: Any) -> PartsOfRound:
        """Those of a tuple that a round begins with."""
        if type(value) is PartsOfRound:
            return value
        if type(value) is tuple and not any(True for _ in value):
            return cls(blank(z3.BoolVal(False)), blank(z3.IntVal(0)), blank(z3.IntVal(0)))
        raise NotFollowedError("a round begins with empty tuples")

    def joined(self, part: Any) -> PartsOfRound:
        """With one part more."""
        request, samples, drafts = (integer_term(one) for one in (part.request, part.samples, part.drafts))
        return PartsOfRound(
            z3.Store(self.members, request, z3.BoolVal(True)),
            z3.Store(self.samples, request, samples),
            z3.Store(self.drafts, request, drafts),
            part,
        )

    def element(self) -> PartInFlight:
        """Any part of one of them."""
        numbers = (SymbolicInteger(path().fresh(name, z3.IntSort())) for name in PartInFlight._fields)
        return PartInFlight(*numbers)  # type: ignore[arg-type]  # terms stand for integers

    def renewed(self, name: str) -> PartsOfRound:
        """Any parts."""
        return PartsOfRound.fresh(name)

    def __iter__(self) -> Iterator[Any]:
        raise NotFollowedError("the parts of a round are not listed in this proof")

    def __bool__(self) -> bool:
        some = path().fresh("some", z3.BoolSort())
        path().assume(z3.Implies(z3.Not(some), every(INTEGER, lambda request: z3.Not(self.members[request]))))
        return path().branch(some)


@dataclass(frozen=True, slots=True, eq=False)
class CountedFlight(ReadFromTheFront):
    """The plans in flight."""

    counted: Term
    """The requests that they have parts of which are not void."""
    samples: Term
    """How many of these parts sample, of each request."""
    drafts: Term
    """How many drafts these parts verify, of each request."""
    oldest: SymbolicSequence
    """The parts of the oldest plan."""
    places: Term
    """Where in the oldest plan the part of each request is, if it has one."""
    length: Term
    newest: Any = None
    """The plan that was added last."""
    behind: CountedFlight | None = None
    """The plans behind the oldest, where they are known."""

    @classmethod
    def fresh(cls, name: str, length: Term | None = None) -> CountedFlight:
        """Any plans."""
        flight = cls(
            path().fresh(f"{name}.counted", ANSWERS),
            path().fresh(f"{name}.samples", INTEGERS),
            path().fresh(f"{name}.drafts", INTEGERS),
            SymbolicSequence.fresh(PART, f"{name}.oldest"),
            path().fresh(f"{name}.places", INTEGERS),
            path().fresh(f"{name}.length", z3.IntSort()) if length is None else length,
        )
        path().assume(flight.law())
        path().hints.append(flight.counted == small_array(INTEGER, z3.BoolVal(False), "counted"))
        path().hints += [
            array == small_array(INTEGER, z3.IntVal(0), "number") for array in (flight.samples, flight.drafts)
        ]
        return flight

    @classmethod
    def of(cls, plans: Any) -> CountedFlight:
        """These plans."""
        counted, samples, drafts = blank(z3.BoolVal(False)), blank(z3.IntVal(0)), blank(z3.IntVal(0))
        for part in (part for plan in plans for part in plan.scheduled if not part.void):
            request = part.request
            counted = z3.Store(counted, request, z3.BoolVal(True))
            samples = z3.Store(samples, request, z3.simplify(samples[request] + part.samples))
            drafts = z3.Store(drafts, request, z3.simplify(drafts[request] + part.drafts))
        oldest = [PartInFlight(*(getattr(part, name) for name in PartInFlight._fields)) for part in first_parts(plans)]
        places = blank(z3.IntVal(-1))
        for place, part in enumerate(oldest):
            places = z3.Store(places, part.request, place)
        behind = cls.of(plans[1:]) if plans else None
        known = SymbolicSequence.of(PART, oldest)
        return cls(counted, samples, drafts, known, places, z3.IntVal(len(plans)), behind=behind)

    def law(self) -> Term:
        """The sums are those of parts. A plan has at most one part of a request; only sampling ones verify drafts."""

        def right(place: Term) -> Term:
            part = parts_of(self.oldest.items[place])
            there = z3.And(
                self.counted[part.request],
                part.samples <= self.samples[part.request],
                part.drafts <= self.drafts[part.request],
            )
            counts = z3.Or(part.void == 1, z3.And(part.void == 0, there))
            return z3.And(counts, is_a_part(part), self.places[part.request] == place)

        place = z3.Int("place")
        inside = z3.And(place >= 0, place < self.oldest.length)
        sums = every(INTEGER, self._sums)
        return z3.And(self.length >= 0, z3.ForAll([place], z3.Implies(inside, right(place))), sums)

    def _sums(self, request: Term) -> Term:
        none = z3.And(self.samples[request] == 0, self.drafts[request] == 0)
        some = z3.And(self.samples[request] >= 0, self.drafts[request] >= 0)
        return z3.And(some, z3.Implies(z3.Not(self.counted[request]), none))

    def of_oldest(self, request: Term, name: str, begin: Term | None = None) -> Term:
        """This number of the request's part in the oldest plan from a place on; 0 if it has none that counts."""
        place = self.places[request]
        part = parts_of(self.oldest.items[place])
        inside = z3.And(place >= (z3.IntVal(0) if begin is None else begin), place < self.oldest.length)
        return z3.If(z3.And(inside, part.request == request, part.void == 0), getattr(part, name), z3.IntVal(0))

    def without(self, request: Any) -> CountedFlight:
        """`voided`: the parts of the request are void. Of the oldest plan nothing else is kept."""
        term, none = integer_term(request), z3.IntVal(0)
        return replace(
            self,
            counted=z3.Store(self.counted, term, z3.BoolVal(False)),
            samples=z3.Store(self.samples, term, none),
            drafts=z3.Store(self.drafts, term, none),
            oldest=SymbolicSequence.fresh(PART, "void"),
            behind=None if self.behind is None else self.behind.without(request),
        )

    def joined(self, plan: Any) -> CountedFlight:
        """With one more plan."""
        new = PartsOfRound.of(plan.scheduled)
        longer = CountedFlight.fresh("plans", self.length + 1)

        def right(request: Term) -> Term:
            samples, drafts = (if_there(new.members, numbers, request) for numbers in (new.samples, new.drafts))
            return z3.And(
                longer.counted[request] == z3.Or(self.counted[request], new.members[request]),
                longer.samples[request] == self.samples[request] + samples,
                longer.drafts[request] == self.drafts[request] + drafts,
            )

        path().assume(every(INTEGER, right))
        return replace(longer, newest=plan)

    def renewed(self, name: str) -> CountedFlight:
        """Any plans."""
        return CountedFlight.fresh(name)

    def _later(self) -> CountedFlight:
        """Those behind the oldest."""
        if self.behind is not None:
            return self.behind
        later = CountedFlight.fresh("later", length=self.length - 1)

        def right(request: Term) -> Term:
            return z3.And(
                later.samples[request] == self.samples[request] - self.of_oldest(request, "samples"),
                later.drafts[request] == self.drafts[request] - self.of_oldest(request, "drafts"),
                z3.Implies(later.counted[request], self.counted[request]),
            )

        path().assume(every(INTEGER, right))
        return later


def is_a_part(part: TermsOfPart) -> Term:
    """What is shown of each part where it is made: it has tokens, samples or not, and verifies only if it samples."""
    numbers = z3.And(part.tokens > 0, part.samples >= 0, part.samples <= 1, part.drafts >= 0)
    return z3.And(numbers, z3.Implies(part.drafts > 0, part.samples == 1))
