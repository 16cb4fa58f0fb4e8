"""What an executed plan changes: the output of its requests, their next drafts, and which of them end.

Each request has at most one part in the oldest plan, at a place that the plans in flight know. So what is claimed of
all parts of the plan is claimed of each request, with its part.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import SymbolicBoolean, SymbolicInteger, Term, assume, both, integer_term, path
from cacheproof.prove.loops import Locals, Loop
from cacheproof.prove.proof import Law, Move
from cacheproof.prove.scheduler.life import final, is_gone, is_there, may_end, of_each, output_of, runs
from cacheproof.prove.scheduler.queues import ANSWERS, PART, Members, TermsOfPart, parts_of
from cacheproof.prove.scheduler.settings import ended_length, number_of_later_turns
from cacheproof.prove.sequences import SymbolicSequence
from cacheproof.prove.shapes import INTEGER
from cachespec import scheduler
from cachespec.kernel import Code
from cachespec.scheduler import requests
from cachespec.scheduler.operations import Abort, FailLoad, FailStep, Schedule, Update

ROW = "loops"
PARTS = z3.ArraySort(z3.IntSort(), PART.sort)


class Executed(NamedTuple):
    """The parts of a plan, of which those before a place are executed."""

    parts: SymbolicSequence
    places: Term
    """Where the part of each request is."""
    until: Term
    accepted: Term
    """How many drafts were right."""

    def part(self, request: Term) -> TermsOfPart:
        """The part at the request's place."""
        return parts_of(self.parts.items[self.places[request]])

    def has(self, request: Term) -> Term:
        """Whether the request has a part, void or not, among those that are executed."""
        place = self.places[request]
        inside = z3.And(place >= 0, place < self.parts.length, place < self.until)
        return z3.And(inside, self.part(request).request == request)

    def counts(self, request: Term) -> Term:
        """Likewise, of parts that are not void."""
        return z3.And(self.has(request), self.part(request).void == 0)

    def sampled(self, request: Term) -> Term:
        """The output tokens that a part of the request samples: one, and one for each draft that was right."""
        drafts = self.part(request).drafts
        right = z3.If(self.accepted < drafts, self.accepted, drafts)
        return z3.If(self.part(request).samples == 1, 1 + right, z3.IntVal(0))


def ended(config: Any, request: Term) -> Term:
    """The tokens of the request once it is finished."""
    return integer_term(ended_length(config, SymbolicInteger(request)))


def is_other(request: Term, but: Term | None) -> Term:
    """It is another request than this one, if one is named."""
    return z3.BoolVal(True) if but is None else request != but


# Output and drafts --------------------------------------------------------------------------------------------------


def output_counts_once(
    config: Any, before: Any, after: Any, executed: Executed, but: Term | None = None
) -> SymbolicBoolean:
    """What was sampled was added to the output of each request that was there, or the request is gone."""

    def right(request: Term) -> Term:
        sampled = z3.If(executed.counts(request), executed.sampled(request), z3.IntVal(0))
        prompt, whole = config.prompts.items[request], ended(config, request)
        length = prompt + output_of(before, request) + sampled
        goes_on = z3.And(is_there(after, request), output_of(after, request) == length - prompt)
        there = z3.And(is_there(before, request), is_other(request, but))
        return z3.Implies(there, z3.If(length >= whole, is_gone(after, request), goes_on))

    return of_each(right)


def drafts_are_proposed(config: Any, after: Any, executed: Executed, but: Term | None = None) -> SymbolicBoolean:
    """A request with output that goes on has as many drafts as are configured, or as its output can still take."""

    def right(request: Term) -> Term:
        room = final(config, request) - 1 - config.prompts.items[request] - output_of(after, request)
        most = integer_term(config.drafts)
        proposed = z3.If(after.proposed.members[request], after.proposed.values[request], z3.IntVal(0))
        output = z3.And(executed.counts(request), executed.part(request).samples == 1, runs(after, request))
        return z3.Implies(z3.And(output, is_other(request, but)), proposed == z3.If(most < room, most, room))

    return of_each(right)


def executed_so_far(config: Any, before: Any, after: Any, now: Locals) -> Iterable[SymbolicBoolean]:
    """What the loop over the parts of a plan keeps of both."""
    places = path().shown["before"].plans.places
    executed = Executed(now["part_all"], places, integer_term(now["part_at"]), integer_term(now["accepted"]))
    yield output_counts_once(config, before, after, executed)
    yield drafts_are_proposed(config, after, executed)


def whole_plan(move: Move) -> Executed:
    """The oldest plan, executed to its end."""
    plans: Any = move.before.plans
    accepted = integer_term(move.operation.accepted) if type(move.operation) is Update else z3.IntVal(0)
    return Executed(plans.oldest, plans.places, plans.oldest.length, accepted)


def failed(move: Move) -> Term | None:
    """The request whose load has failed in the step, if any has."""
    return integer_term(move.operation.request) if type(move.operation) is FailStep else None


def each_token_counts_once(move: Move) -> SymbolicBoolean:
    """SCH-2/output."""
    if move.outcome.code is not Code.DONE:
        return both(True)
    return output_counts_once(move.config, move.before, move.after, whole_plan(move), failed(move))


def output_comes_with_drafts(move: Move) -> SymbolicBoolean:
    """SCH-2/offered."""
    if move.outcome.code is not Code.DONE:
        return both(True)
    return drafts_are_proposed(move.config, move.after, whole_plan(move), failed(move))


# Which requests end -------------------------------------------------------------------------------------------------


def has_ended(before: Any, after: Any, request: Term) -> Term:
    """The request is gone since."""
    return z3.And(is_gone(after, request), z3.Not(is_gone(before, request)))


class Naming(NamedTuple):
    """The requests of a plan that have ended between two states."""

    before: Any
    after: Any
    parts: SymbolicSequence

    def ends(self, place: Term) -> Term:
        """Whether the request of the part at this place has ended."""
        return has_ended(self.before, self.after, parts_of(self.parts.items[place]).request)

    def rank(self, place: Term) -> Term:
        """How many parts before the place have such a request: a number of the two states and the plan."""
        count = z3.Function("ended_before", ANSWERS, ANSWERS, PARTS, z3.IntSort(), z3.IntSort())
        return count(self.before.gone.members, self.after.gone.members, self.parts.items, place)

    def law(self) -> Term:
        """The number grows by 1 behind each part whose request has ended, and begins with 0."""
        place = z3.Int("place")
        grows = self.rank(place + 1) == self.rank(place) + z3.If(self.ends(place), 1, 0)
        inside = z3.And(place >= 0, place < self.parts.length)
        return z3.And(self.rank(z3.IntVal(0)) == 0, z3.ForAll([place], z3.Implies(inside, grows)))

    def are(self, named: Any, until: Term) -> SymbolicBoolean:
        """These are they, of the parts before this place and in their order."""
        place = z3.Int("place")
        rank = self.rank(place)
        there = z3.And(rank >= 0, rank < named.length, named.items[rank] == parts_of(self.parts.items[place]).request)
        inside = z3.And(place >= 0, place < until, self.ends(place))
        return SymbolicBoolean(z3.And(named.length == self.rank(until), z3.ForAll([place], z3.Implies(inside, there))))


def have_ended(before: Any, after: Any, named: Any) -> SymbolicBoolean:
    """Each named request has ended."""
    place = z3.Int("place")
    inside = z3.And(place >= 0, place < named.length)
    return SymbolicBoolean(z3.ForAll([place], z3.Implies(inside, has_ended(before, after, named.items[place]))))


def naming(entry: Locals, now: Locals) -> Iterable[Any]:
    """The requests named so far are those of the parts before this place that have ended."""
    place, parts = integer_term(now["part_at"]), now["part_all"]
    names = Naming(now["before"], now["after"], parts)
    named = as_sequence(now["ended"])
    assume(SymbolicBoolean(names.law()))
    yield SymbolicBoolean(z3.And(place >= 0, place <= parts.length))
    yield names.are(named, place)
    yield have_ended(now["before"], now["after"], named)


def as_sequence(named: Any) -> SymbolicSequence:
    """The requests that an answer names."""
    return named if type(named) is SymbolicSequence else SymbolicSequence.of(INTEGER, named)


def any_names(name: str, value: Any) -> Any:
    """Any requests."""
    return SymbolicSequence.fresh(INTEGER, name) if name == "ended" else None


LOOP = Loop(requests.named, ROW, naming, renewed=any_names, in_order=True)


def the_ended_are_named(move: Move) -> SymbolicBoolean:
    """SCH-6/named."""
    before, after, operation = move.before, move.after, move.operation
    nothing = of_each(lambda request: z3.Not(has_ended(before, after, request)))
    if type(operation) in (Update, FailStep):
        names = Naming(before, after, before.plans.oldest)
        assume(SymbolicBoolean(names.law()))
        named = as_sequence(move.outcome.values)
        none = nothing & SymbolicBoolean(named.length == 0)
        return either(before.plans.length > 0, none | names.are(named, before.plans.oldest.length), nothing)
    if type(operation) not in (Abort, FailLoad):
        return nothing
    first = integer_term(operation.request)
    later = z3.If(move.config.turns.length > 0, number_of_later_turns(move.config, first), 0)
    done = z3.BoolVal(move.outcome.code is Code.DONE)

    def right(request: Term) -> Term:
        named = z3.And(done, request >= first, request <= first + later)
        return has_ended(before, after, request) == named

    may = z3.BoolVal(True) if type(operation) is Abort else integer_term(move.config.failed_loads_end) == 1
    return either(may, of_each(right), nothing)


def either(condition: Term, one: SymbolicBoolean, other: SymbolicBoolean) -> SymbolicBoolean:
    """The one formula if the condition holds, and otherwise the other."""
    return SymbolicBoolean(z3.And(z3.Implies(condition, one.term), z3.Implies(z3.Not(condition), other.term)))


def ends_are_the_outputs(move: Move) -> SymbolicBoolean:
    """SCH-2/least."""
    if move.outcome.code is not Code.DONE:
        return both(True)
    config, before, executed, but = move.config, move.before, whole_plan(move), failed(move)
    named, place = as_sequence(move.outcome.values), z3.Int("place")
    request = named.items[place]
    sampled = z3.If(executed.has(request), executed.sampled(request), z3.IntVal(0))
    enough = may_end(config, request, output_of(before, request) + sampled)
    inside = z3.And(place >= 0, place < named.length, is_other(request, but))
    return SymbolicBoolean(z3.ForAll([place], z3.Implies(inside, enough)))


# The answer of a round ----------------------------------------------------------------------------------------------


def are_shown(values: SymbolicSequence, parts: SymbolicSequence, until: Term) -> SymbolicBoolean:
    """Request, first token and number of tokens of each part before this place, one behind the other."""
    place = z3.Int("place")
    part = parts_of(parts.items[place])
    said = [
        values.items[3 * place + number] == one for number, one in enumerate((part.request, part.start, part.tokens))
    ]
    inside = z3.And(place >= 0, place < until)
    return SymbolicBoolean(z3.And(values.length == 3 * until, z3.ForAll([place], z3.Implies(inside, z3.And(*said)))))


def the_round_is_answered(move: Move) -> SymbolicBoolean:
    """SCH-1/answered."""
    if move.outcome.code in (Code.REFUSED, Code.FAILED):
        return both(True)
    plan, same = move.after.plans.newest, move.after.plans.length == move.before.plans.length
    answer = both(plan is not None, move.outcome.code is Code.DONE)
    if plan is not None:
        parts = Members.of(plan.scheduled).in_order()
        answer = answer & are_shown(as_sequence(move.outcome.values), parts, parts.length)
    return either(same, both(move.outcome.code is Code.MISS), answer)


LAWS = (
    Law(
        "SCH-1/answered",
        "a round answers with the plan that it made, or with a miss if it made none",
        (Schedule,),
        the_round_is_answered,
    ),
    Law(
        "SCH-2/output",
        "each sampled token counts once, for its own request, until the output is complete",
        (Update, FailStep),
        each_token_counts_once,
    ),
    Law(
        "SCH-2/offered",
        "an output of a running request comes with the configured number of drafts, cut to what it can still take",
        (Update, FailStep),
        output_comes_with_drafts,
    ),
    Law(
        "SCH-2/least",
        "a request is finished by a stop token from `min_tokens` on, or with as many tokens as it may have",
        (Update, FailStep),
        ends_are_the_outputs,
    ),
    Law(
        "SCH-6/named",
        "an update names the requests that it ended, in plan order; beside it, only an abort and a failed load end a "
        "request",
        tuple(scheduler.NORMATIVE_SCHEDULER.transitions),
        the_ended_are_named,
    ),
)
