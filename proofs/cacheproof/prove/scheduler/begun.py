"""Encoder-decoder models: a request that runs has a computed token, even if all its drafts in flight are rejected.

The first step of such a request encodes its items, and a step is the first one if it begins at token 0. A running
request therefore encodes nothing (SCH-3/named in `inputs.py`). All operations of these models run from any state
in which the sums of the plans in flight agree with the computed tokens. The proof takes from `LIFE` where requests are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import (
    SymbolicBoolean,
    SymbolicInteger,
    Term,
    assume,
    both,
    demand,
    integer,
    integer_term,
    path,
)
from cacheproof.prove.loops import Locals, Loop
from cacheproof.prove.proof import Invariant
from cacheproof.prove.scheduler import values
from cacheproof.prove.scheduler.flight import CountedFlight, PartsOfRound, if_there
from cacheproof.prove.scheduler.life import known_requests_exist, of_each, output_of, queues_are_apart, runs, waits
from cacheproof.prove.scheduler.queues import Members
from cacheproof.prove.scheduler.requests import LIFE
from cacheproof.prove.scheduler.rounds import LOOPS as LOOPS_OF_LIFE
from cacheproof.prove.scheduler.rounds import is_start_of, scheduled_by_itself
from cacheproof.prove.scheduler.settings import is_asynchronous
from cacheproof.prove.scheduler.stand_ins import any_answer, opaque
from cacheproof.prove.scheduler.values import IN_ROUNDS_UNTOUCHED, SMALL
from cacheproof.prove.sequences import Unknown, length
from cachespec.scheduler import counts, requests, rounds
from cachespec.scheduler.operations import (
    Abort,
    Add,
    Compile,
    ResetEncoderCache,
    ResetPrefixCache,
    ResetRunning,
    Schedule,
    Update,
)
from cachespec.scheduler.round_state import Search
from cachespec.scheduler.state import State

ROW = "loops"
OPERATIONS = (Add, Compile, Schedule, Update, Abort, ResetPrefixCache, ResetRunning, ResetEncoderCache)
"""Without loads, sends and an encoder connector there are no others."""
OFF = ("external", "loads_later", "sends", "turns", "encoder_connector")
"""What a scheduler refuses beside an encoder-decoder model, by itself or because it needs one of these."""

CROSS = SMALL._replace(
    items=(((0, 0, 1), (1, 0, 1)), ((1, 0, 1),)),
    encoder_decoder=1,
    prefix_caching=0,
    chunked_prefill=0,
    running_resets=1,
    drafts=1,
    ahead=2,
)


# What is claimed ----------------------------------------------------------------------------------------------------


class Sums:
    """What plans in flight sample and verify of each request, with the parts that a round has made so far."""

    def __init__(self, plans: Any, made: PartsOfRound | None = None) -> None:
        self.plans, self.made = plans, made

    def samples(self, request: Term) -> Term:
        """The parts that sample."""
        more = if_there(self.made.members, self.made.samples, request) if self.made is not None else z3.IntVal(0)
        return self.plans.samples[request] + more

    def drafts(self, request: Term) -> Term:
        """The drafts."""
        more = if_there(self.made.members, self.made.drafts, request) if self.made is not None else z3.IntVal(0)
        return self.plans.drafts[request] + more


def has_begun(state: Any, sums: Any, request: Term) -> Term:
    """The request has a computed token that is no draft in flight."""
    return state.computed.values[request] - sums.drafts(request) > 0


def is_in_sight(config: Any, state: Any, sums: Any, request: Term) -> Term:
    """Its computed tokens are known, or plans in flight sample or verify them."""
    known = config.prompts.items[request] + output_of(state, request)
    return state.computed.values[request] <= known + sums.samples(request) + sums.drafts(request)


def of_the_running(state: Any, condition: Any) -> SymbolicBoolean:
    """The condition, of each running request."""
    return of_each(lambda request: z3.Implies(state.computed.members[request], condition(request)))


def requests_have_begun(config: Any, state: Any) -> SymbolicBoolean:
    """SCH-3/begun."""
    return of_the_running(state, lambda request: has_begun(state, Sums(state.plans), request))


def computed_tokens_are_in_sight(config: Any, state: Any) -> SymbolicBoolean:
    """SCH-2/computed."""
    return of_the_running(state, lambda request: is_in_sight(config, state, Sums(state.plans), request))


def both_hold(config: Any, state: Any, sums: Any) -> Iterable[SymbolicBoolean]:
    """Both claims, with these sums."""
    yield of_the_running(state, lambda request: has_begun(state, sums, request))
    yield of_the_running(state, lambda request: is_in_sight(config, state, sums, request))


def scheduled_and_counted(rules: Any, config: Any, current: Any, request: Any, start: Any, fit: Any) -> Any:
    """`scheduled`, the only function that adds to a plan. By SCH-2/next the request has no other part."""
    made = PartsOfRound.of(current.scheduled)
    assume(~SymbolicBoolean(made.members[integer_term(request)]))
    after = scheduled_by_itself(rules, config, current._replace(scheduled=made), request, start, fit)
    scheduled: Any = after.scheduled
    part = scheduled.newest
    only_samples = both(part.drafts == 0) | both(part.samples == 1)
    demand("SCH-2/computed", both(part.tokens > 0, part.drafts >= 0, part.samples >= 0, part.samples <= 1))
    demand("SCH-2/computed", only_samples)
    return after


# Stand-ins ----------------------------------------------------------------------------------------------------------


def promised(config: Any, state: State, request: Any) -> SymbolicInteger:
    """`promised`: what plans sample, and what they verify if steps are ahead of their output."""
    plans: Any = state.plans
    term = integer_term(request)
    ahead = z3.If(is_asynchronous(config).term, plans.drafts[term], z3.IntVal(0))
    return SymbolicInteger(plans.samples[term] + ahead)


def verifying(state: State, request: Any) -> SymbolicBoolean:
    """`verifying`: the plans in flight have drafts of the request."""
    plans: Any = state.plans
    return SymbolicBoolean(plans.drafts[integer_term(request)] > 0)


# Loops --------------------------------------------------------------------------------------------------------------


def queues_are_right(config: Any, state: Any) -> Iterable[SymbolicBoolean]:
    """SCH-6; every known request is one of the configuration; a request with a plan in flight runs."""
    yield queues_are_apart(config, state)
    yield known_requests_exist(config, state)
    yield of_each(lambda request: z3.Implies(state.plans.counted[request], runs(state, request)))


def the_same_numbers(before: Any, after: Any, request: Term) -> Term:
    """What counts for the request has not changed."""
    flights, proposals = (before.plans, after.plans), (before.proposed, after.proposed)
    return z3.And(
        after.computed.values[request] == before.computed.values[request],
        flights[1].samples[request] == flights[0].samples[request],
        flights[1].drafts[request] == flights[0].drafts[request],
        flights[1].counted[request] == flights[0].counted[request],
        proposals[1].members[request] == proposals[0].members[request],
        proposals[1].values[request] == proposals[0].values[request],
    )


def going_on(config: Any, before: Any, current: Any) -> Iterable[Any]:
    """What both loops of a round keep."""
    after, made = current.state, PartsOfRound.of(current.scheduled)
    yield both(after.produced is before.produced)
    yield from queues_are_right(config, after)
    yield from both_hold(config, after, Sums(after.plans, made))


def serving(entry: Locals, now: Locals) -> Iterable[Any]:
    """The claims hold of what is made so far."""
    line, after = now["running"], now["current"].state
    place = integer_term(now["position"])
    yield SymbolicBoolean(z3.And(place >= 0, place <= line.length))
    yield is_start_of(after.running, line)
    yield of_each(lambda request: z3.Implies(runs(after, request), line.counts[request] == 1))
    yield from going_on(now["config"], entry["current"].state, now["current"])


def searching(entry: Locals, now: Locals) -> Iterable[Any]:
    """Those that still run keep their numbers."""
    config, first, found = now["config"], entry["current"], now["search"].round
    before, after, request = first.state, found.state, integer_term(now["request"])
    line = before.running
    yield both(after.produced is before.produced)
    yield from queues_are_right(config, after)
    yield is_start_of(after.running, line)
    yield SymbolicBoolean(z3.And(line.counts[request] == 1, after.running.length >= line.places[request]))
    found_by = SymbolicBoolean(after.computed.members[request])
    yield ~both(now["search"].found) | found_by
    made = PartsOfRound.of(found.scheduled), PartsOfRound.of(first.scheduled)
    yield both(made[0] is made[1]) if type(first.scheduled) is PartsOfRound else both(True)

    def right(other: Term) -> Term:
        ran, run = runs(before, other), runs(after, other)
        return z3.Implies(run, z3.And(ran, the_same_numbers(before, after, other)))

    yield of_each(right)


def admitting(entry: Locals, now: Locals) -> Iterable[Any]:
    """Requests from this place on still wait."""
    after, line, place = now["current"].state, now["waiting"], integer_term(now["position"])
    other = z3.Int("other")
    yield SymbolicBoolean(z3.And(place >= 0, place <= line.length))
    inside = z3.And(other >= place, other < line.length)
    yield SymbolicBoolean(z3.ForAll([other], z3.Implies(inside, waits(after, line.items[other]))))
    yield of_each(lambda request: line.counts[request] <= 1)
    yield from going_on(now["config"], entry["current"].state, now["current"])


class LeftToExecute:
    """What plans in flight sample and verify, with the parts of the oldest plan from a place on."""

    def __init__(self, whole: Any, later: Any, place: Term) -> None:
        self.whole, self.later, self.place = whole, later, place

    def samples(self, request: Term) -> Term:
        """The parts that sample."""
        return self.later.samples[request] + self.whole.of_oldest(request, "samples", self.place)

    def drafts(self, request: Term) -> Term:
        """The drafts."""
        return self.later.drafts[request] + self.whole.of_oldest(request, "drafts", self.place)


def executing(entry: Locals, now: Locals) -> Iterable[Any]:
    """The claims hold with the parts from this place on, which are void or belong to requests that run."""
    config, after, whole = now["config"], now["state"], path().shown["before"].plans
    place = integer_term(now["part_at"])
    yield SymbolicBoolean(z3.And(place >= 0, place <= whole.oldest.length))
    yield from both_hold(config, after, LeftToExecute(whole, after.plans, place))
    yield of_each(
        lambda request: z3.Implies(whole.of_oldest(request, "tokens", place) > 0, after.computed.members[request])
    )
    yield of_the_running(after, lambda request: z3.And(request >= 0, request < config.prompts.length))


def resetting(entry: Locals, now: Locals) -> Iterable[Any]:
    """Each turn sets one request back."""
    before, after, turn = entry["state"], now["state"], integer_term(now["_"])
    yield from queues_are_right(now["config"], after)
    yield from both_hold(now["config"], after, Sums(after.plans))
    yield SymbolicBoolean(z3.And(turn >= 0, after.running.length == before.running.length - turn))


def renewed(name: str, value: Any) -> Any:
    """Any round; a search for blocks leaves the plan as it is."""
    if name == "search":
        return Search(any_round(value.round)._replace(scheduled=value.round.scheduled), any_answer())
    return any_round(value) if name == "current" else None


def any_round(current: Any) -> Any:
    """Any round, with the fields that no loop of a round touches."""
    kept = {part: getattr(current.state, part) for part in (*IN_ROUNDS_UNTOUCHED, "worker")}
    numbers: dict[str, Any] = {part: integer(part) for part in ("tokens", "embeds", "closed", "ended")}
    return current._replace(
        state=any_state("turn")._replace(**kept),
        scheduled=PartsOfRound.fresh("made"),
        preempted=Members.fresh("preempted"),
        chunks=Unknown(),
        brought=Unknown(),
        **numbers,
    )


def renewed_state(name: str, value: Any) -> Any:
    """Any state."""
    return any_state("turn")._replace(worker=opaque()) if name == "state" else None


LOOPS = (
    Loop(rounds.serve_running, ROW, serving, renewed=renewed, in_order=True),
    Loop(rounds.admit_waiting, ROW, admitting, renewed=renewed, in_order=True),
    Loop(
        rounds.with_blocks,
        ROW,
        searching,
        (lambda local: length(local["search"].round.state.running),),
        renewed=renewed,
    ),
    Loop(requests.executed_all, ROW, executing, renewed=renewed_state, in_order=True),
    Loop(requests.reset_running, ROW, resetting, renewed=renewed_state, in_order=True),
    *(loop for loop in LOOPS_OF_LIFE if loop.function in (rounds.planned, requests.with_items_released)),
)


# The proof ----------------------------------------------------------------------------------------------------------


def any_state(name: str) -> Any:
    """Any queues, numbers and plans."""
    return values.any_state(name, CountedFlight)


def fresh(kind: Any, name: str) -> Any:
    """Any value, as `LIFE` has it, but with the plans of this proof."""
    return any_state(name) if kind is State else values.fresh(kind, name)


def lift(kind: Any, value: Any) -> Any:
    """A concrete value, likewise."""
    lifted = values.lift(kind, value)
    return lifted._replace(plans=CountedFlight.of(value.plans)) if kind is State else lifted


def known_before(config: Any, state: Any, operation: Any) -> Iterable[Any]:
    """What `LIFE` shows of the queues."""
    yield from queues_are_right(config, state)


def environment(config: Any, operation: Any) -> Iterable[Any]:
    """An encoder-decoder model. The settings that a scheduler refuses beside it are off, and so no load can fail."""
    yield from LIFE.environment(config, operation)
    yield both(config.encoder_decoder == 1, config.load_failures == 0)
    for name in OFF:
        yield both(length(getattr(config, name)) == 0)


BEGUN = replace(
    LIFE,
    variant=replace(
        LIFE.variant,
        transitions={kind: function for kind, function in LIFE.variant.transitions.items() if kind in OPERATIONS},
    ),
    invariants=(
        Invariant(
            "SCH-3/begun",
            "in encoder-decoder models, a running request has a computed token that is no draft in flight",
            requests_have_begun,
        ),
        Invariant(
            "SCH-2/computed",
            "in encoder-decoder models, a computed token of a running request is known, sampled in flight or a draft",
            computed_tokens_are_in_sight,
        ),
    ),
    laws=(),
    witnesses=(CROSS,),
    environment=environment,
    lemmas=known_before,
    loops=LOOPS,
    replaced=(
        *LIFE.replaced,
        (counts, "promised", promised),
        (counts, "verifying", verifying),
        (rounds, "scheduled", scheduled_and_counted),
        (rounds, "shown", lambda plan: ()),
        (requests, "named", lambda plan, before, after: ()),
        (requests, "later_turns", lambda config, request: ()),
    ),
    fresh=fresh,
    lift=lift,
)
