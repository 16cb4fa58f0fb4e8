"""What is claimed of each part of a plan, and what the loops of a round and of an output keep."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import (
    SymbolicBoolean,
    SymbolicInteger,
    Term,
    both,
    demand,
    implies,
    integer,
    integer_term,
    path,
)
from cacheproof.prove.loops import Locals, Loop
from cacheproof.prove.scheduler.life import (
    INVARIANTS,
    is_gone,
    is_known,
    is_there,
    of_each,
    of_each_turn,
    runs,
    waits,
)
from cacheproof.prove.scheduler.outputs import LOOP as NAMING_LOOP
from cacheproof.prove.scheduler.outputs import are_shown, as_sequence, executed_so_far
from cacheproof.prove.scheduler.queues import Members
from cacheproof.prove.scheduler.settings import is_next_turn
from cacheproof.prove.scheduler.stand_ins import any_answer, is_within_threshold, opaque
from cacheproof.prove.scheduler.values import IN_ROUNDS_UNTOUCHED, any_state
from cacheproof.prove.sequences import SymbolicSequence, Unknown, length
from cacheproof.prove.shapes import INTEGER
from cacheproof.prove.states import unchanged
from cachespec.scheduler import (
    requests,
    rounds,
)
from cachespec.scheduler.round_state import Search

ROW = "loops"

scheduled_by_itself = rounds.scheduled


def scheduled_and_judged(rules: Any, config: Any, current: Any, request: Any, start: Any, fit: Any) -> Any:
    """`scheduled`, the only function that adds to a plan, and what is claimed of the part that it adds."""
    before, named = path().shown["before"], Members.of(current.scheduled)
    after = scheduled_by_itself(rules, config, current._replace(scheduled=named), request, start, fit)
    scheduled: Any = after.scheduled
    part = scheduled.newest
    for name, condition in claims_of_part(config, before, named, current.tokens, part):
        demand(name, condition)
    demand("SCH-6/apart", both(part.tokens > 0, part.drafts >= 0, part.samples >= 0, part.samples <= 1, part.void == 0))
    return after


def claims_of_part(config: Any, before: Any, named: Members, tokens: Any, part: Any) -> Iterable[tuple[str, Any]]:
    """What is claimed of a part, in a round that began in `before`; `named` have parts, and so many tokens are left."""
    request, end = part.request, part.start + part.tokens
    known = config.prompts[request] + before.produced.get(request, 0)
    in_sight = known + SymbolicInteger(before.plans.promised[integer_term(request)])
    yield "SCH-2/next", ~SymbolicBoolean(named.members[integer_term(request)])
    yield "SCH-2/next", both(before.computed.get(request, part.start) == part.start)
    yield "SCH-2", both(end < config.max_model_len + config.pooling)
    yield "SCH-2/known", both(in_sight + config.drafts >= end)
    yield "SCH-2/drafts", both(before.proposed.get(request, 0) >= part.drafts)
    yield "SCH-2/samples", samples_are_right(part, in_sight * -1 + end)
    yield "SCH-2/awaited", implies(config.pipelined == 1, known + part.drafts >= end)
    yield "SCH-1/threshold", is_within_threshold(config, part.tokens)
    yield "SCH-1/uncut", implies(before.waiting.has(request), is_uncut(config, known - part.start, tokens))


def samples_are_right(part: Any, beyond: Any) -> SymbolicBoolean:
    """What lies behind the tokens in sight is drafts, and from the last one in sight on the part samples."""
    drafts = implies(beyond >= 0, part.drafts == beyond) & implies(beyond < 0, both(part.drafts == 0))
    return drafts & both(implies(beyond >= 0, both(part.samples == 1)), implies(beyond < 0, both(part.samples == 0)))


def is_uncut(config: Any, left: Any, budget: Any) -> SymbolicBoolean:
    """Without chunked prefill, what the threshold allows of these tokens is within the budget."""
    threshold = config.long_prefill_threshold
    fits = both(left <= budget) | both(threshold > 0, threshold <= budget)
    return both(config.chunked_prefill == 1) | fits


# Loops --------------------------------------------------------------------------------------------------------------


def life(config: Any, state: Any) -> Iterable[Any]:
    """All invariants."""
    return (one.holds(config, state) for one in INVARIANTS)


def as_before(before: Any, after: Any, *names: str) -> Iterable[Any]:
    """These fields have not changed."""
    for name in names:
        was, now = getattr(before, name), getattr(after, name)
        if was is not now:
            yield unchanged(was, now) if hasattr(was, "members") and hasattr(was, "values") else both(False)


def the_same_requests_are_there(before: Any, after: Any) -> SymbolicBoolean:
    """Each request is as often among those that wait or run."""

    def right(request: Term) -> Term:
        was, now = (one.waiting.counts[request] + one.running.counts[request] for one in (before, after))
        return z3.Implies(z3.BoolVal(True), was == now)

    return of_each(right)


def less_is_promised(before: Any, after: Any) -> SymbolicBoolean:
    """Plans promise the same to requests that still run, and nothing to others; drafts are used up or kept."""

    def right(request: Term) -> Term:
        run, flight = runs(after, request), (before.plans, after.plans)
        promises = z3.If(run, flight[0].promised[request], z3.IntVal(0))
        kept = z3.And(
            before.proposed.members[request], after.proposed.values[request] == before.proposed.values[request]
        )
        return z3.And(
            flight[1].promised[request] == promises,
            z3.Implies(flight[1].counted[request], flight[0].counted[request]),
            z3.Implies(after.proposed.members[request], kept),
        )

    return of_each(right)


def goes_on(config: Any, before: Any, after: Any) -> Iterable[Any]:
    """What every loop of a round keeps."""
    yield from as_before(before, after, *IN_ROUNDS_UNTOUCHED)
    yield from life(config, after)
    yield the_same_requests_are_there(before, after)
    yield less_is_promised(before, after)
    yield SymbolicBoolean(after.plans.length == before.plans.length)


def is_start_of(shorter: Any, longer: Any) -> SymbolicBoolean:
    """The one line is the other without some of its last requests."""
    place = z3.Int("place")
    inside = z3.And(place >= 0, place < shorter.length)
    same = z3.ForAll([place], z3.Implies(inside, shorter.items[place] == longer.items[place]))
    return SymbolicBoolean(z3.And(shorter.length <= longer.length, same))


def serving(entry: Locals, now: Locals) -> Iterable[Any]:
    """Requests with a part come before this place; those behind it have their numbers, or were preempted."""
    before, after = entry["current"].state, now["current"].state
    line, place = now["running"], integer_term(now["position"])
    parts_now, lost = (Members.of(one).members for one in (now["current"].scheduled, now["current"].preempted))
    yield from goes_on(now["config"], before, after)
    yield is_start_of(after.running, line)
    yield SymbolicBoolean(z3.And(place >= 0, place <= line.length))

    def right(request: Term) -> Term:
        ran, run, has_part = line.counts[request] > 0, runs(after, request), parts_now[request]
        same = after.computed.values[request] == before.computed.values[request]
        return z3.And(
            z3.Implies(run, ran),
            z3.Implies(has_part, z3.And(run, line.places[request] < place, z3.Not(after.proposed.members[request]))),
            z3.Implies(z3.And(run, z3.Not(has_part)), same),
            lost[request] == z3.And(ran, z3.Not(run)),
            z3.Implies(lost[request], integer_term(now["current"].ended) == 1),
        )

    yield of_each(right)


def searching(entry: Locals, now: Locals) -> Iterable[Any]:
    """Each victim is the last that runs, at last the request itself; the others keep their numbers."""
    first, search = entry["current"], now["search"]
    before, found = first.state, search.round
    after, request = found.state, integer_term(now["request"])
    line = before.running
    yield from goes_on(now["config"], before, after)
    yield is_start_of(after.running, line)
    yield SymbolicBoolean(z3.And(line.counts[request] == 1, after.running.length >= line.places[request]))
    yield both(found.tokens == first.tokens, found.embeds == first.embeds, found.closed == first.closed)
    yield implies(search.found, SymbolicBoolean(after.computed.members[request]))
    lost, earlier = (Members.of(one).members for one in (found.preempted, first.preempted))
    same_parts = Members.of(found.scheduled).members, Members.of(first.scheduled).members
    no_victim = after.running.length == line.length
    yield SymbolicBoolean(integer_term(found.ended) == z3.If(no_victim, integer_term(first.ended), z3.IntVal(1)))

    def right(other: Term) -> Term:
        ran, run = runs(before, other), runs(after, other)
        return z3.And(
            z3.Implies(run, z3.And(ran, after.computed.values[other] == before.computed.values[other])),
            lost[other] == z3.Or(earlier[other], z3.And(ran, z3.Not(run))),
            same_parts[0][other] == same_parts[1][other],
            z3.Implies(z3.And(ran, z3.Not(run)), line.places[other] >= after.running.length),
        )

    yield of_each(right)


def admitting(entry: Locals, now: Locals) -> Iterable[Any]:
    """Requests from this place on still wait; after a preemption no request is admitted."""
    config, before, current = now["config"], entry["current"].state, now["current"]
    first, after, line = path().shown["before"], current.state, now["waiting"]
    parts_now, lost = (Members.of(one).members for one in (current.scheduled, current.preempted))
    yield from goes_on(config, before, after)
    place, other = integer_term(now["position"]), z3.Int("other")
    yield SymbolicBoolean(z3.And(place >= 0, place <= line.length))
    inside = z3.And(other >= place, other < line.length)
    yield SymbolicBoolean(z3.ForAll([other], z3.Implies(inside, waits(after, line.items[other]))))

    def right(request: Term) -> Term:
        ran, run = runs(first, request), runs(after, request)
        return z3.And(
            line.counts[request] <= 1,
            z3.Implies(runs(before, request), run),
            z3.Implies(parts_now[request], z3.And(run, z3.Not(after.proposed.members[request]))),
            lost[request] == z3.And(ran, z3.Not(run)),
            z3.Implies(lost[request], integer_term(current.ended) == 1),
            first.waiting.counts[request] + first.running.counts[request]
            == after.waiting.counts[request] + after.running.counts[request],
        )

    yield of_each(right)


def renewed_round(name: str, value: Any) -> Any:
    """Any round, with the fields that no loop of a round touches."""
    if name == "search":
        return Search(renewed_round("current", value.round), any_answer())
    if name != "current":
        return None
    any_one = any_state("turn")
    kept = {part: getattr(value.state, part) for part in (*IN_ROUNDS_UNTOUCHED, "worker")}
    numbers: dict[str, Any] = {part: integer(part) for part in ("tokens", "embeds", "closed", "ended")}
    return value._replace(
        state=any_one._replace(**kept),
        scheduled=Members.fresh("scheduled", parts=True),
        preempted=Members.fresh("preempted"),
        chunks=Unknown(),
        brought=Unknown(),
        **numbers,
    )


def showing(entry: Locals, now: Locals) -> Iterable[Any]:
    """Three numbers of each part before this place were written down."""
    place, parts = integer_term(now["part_at"]), now["part_all"].in_order()
    yield SymbolicBoolean(z3.And(place >= 0, place <= parts.length))
    yield are_shown(as_sequence(now["values"]), parts, place)


def any_values(name: str, value: Any) -> Any:
    """Any numbers."""
    return SymbolicSequence.fresh(INTEGER, name) if name == "values" else None


def executing(entry: Locals, now: Locals) -> Iterable[Any]:
    """The parts from this place on that are not void belong to requests that run."""
    config, before, after = now["config"], entry["state"], now["state"]
    parts_all, place = now["part_all"], integer_term(now["part_at"])
    yield from life(config, after)
    yield from as_before(before, after, "remote")
    yield SymbolicBoolean(z3.And(place >= 0, place <= parts_all.length))
    other = z3.Int("other")
    part = parts_all.items[other]
    request, void = part.sort().accessor(0, 0)(part), part.sort().accessor(0, 5)(part)
    inside = z3.And(other >= place, other < parts_all.length)
    yield SymbolicBoolean(z3.ForAll([other], z3.Implies(inside, z3.Or(void == 1, runs(after, request)))))
    yield only_ends(before, after)
    yield turns_begin(config, before, after)
    yield from executed_so_far(config, before, after, now)


def turns_begin(config: Any, before: Any, after: Any) -> SymbolicBoolean:
    """A queued turn waits as soon as the one before it has ended, and not earlier."""

    def right(request: Term) -> Term:
        ended = z3.And(is_gone(after, request - 1), z3.Not(is_gone(before, request - 1)))
        begins = z3.And(before.queued.members[request], ended)
        return z3.And(
            after.queued.members[request] == z3.And(before.queued.members[request], z3.Not(begins)),
            z3.Implies(begins, waits(after, request)),
        )

    return of_each_turn(config, right)


def only_ends(before: Any, after: Any) -> SymbolicBoolean:
    """Requests end, and nothing else; the workers are to be told, and blocks of such a request may be sent."""

    def is_new(request: Term) -> Term:
        return z3.And(is_gone(after, request), z3.Not(is_gone(before, request)))

    def right(request: Term) -> Term:
        return z3.And(
            is_known(after, request) == is_known(before, request),
            z3.Implies(is_gone(before, request), is_gone(after, request)),
            z3.Implies(waits(before, request), waits(after, request)),
            after.compiling.members[request]
            == z3.And(before.compiling.members[request], z3.Not(is_gone(after, request))),
            after.leaving.members[request] == z3.Or(before.leaving.members[request], is_new(request)),
            z3.Implies(after.transfers.members[request], z3.Or(before.transfers.members[request], is_new(request))),
        )

    return of_each(right)


def ending_turns(entry: Locals, now: Locals) -> Iterable[Any]:
    """The turns before this place have ended; the turn at this place neither waits nor runs."""
    config, before, after = now["config"], entry["state"], now["state"]
    turns, place = now["turn_all"], integer_term(now["turn_at"])
    yield from life_but_turns(config, after)
    following, left = turns.items[place], place < turns.length
    yield from as_before(before, after, "transfers", "remote", "kv", "encoder", "plans")
    yield SymbolicBoolean(z3.And(place >= 0, place <= turns.length))
    request = integer_term(now["request"])
    yield is_next_turn(config, request, turns.length, turns.items, place)
    yield SymbolicBoolean(z3.Implies(left, z3.Not(is_there(before, following))))
    yield SymbolicBoolean(z3.Implies(left, z3.Not(is_gone(before, following))))

    def right(other: Term) -> Term:
        ended = z3.And(other > request, other <= request + place)
        same = [
            getattr(after, part).members[other] == z3.And(getattr(before, part).members[other], z3.Not(ended))
            for part in ("queued", "compiling", "computed", "produced", "proposed")
        ]
        lines = [
            getattr(after, part).counts[other] == getattr(before, part).counts[other] for part in ("waiting", "running")
        ]
        now_gone = is_gone(after, other) == z3.Or(is_gone(before, other), ended)
        leaving = after.leaving.members[other] == z3.Or(before.leaving.members[other], ended)
        absent = z3.Not(z3.Or(is_gone(before, other), is_there(before, other)))
        return z3.And(*same, *lines, now_gone, leaving, z3.Implies(ended, absent))

    yield of_each(right)


def life_but_turns(config: Any, state: Any) -> Iterable[Any]:
    """All invariants but the order of turns, which an abort restores at its end."""
    return (one.holds(config, state) for one in INVARIANTS if one.name != "SCH-16")


def resetting(entry: Locals, now: Locals) -> Iterable[Any]:
    """Each turn sets one request back."""
    before, after, turn = entry["state"], now["state"], integer_term(now["_"])
    yield from life(now["config"], after)
    yield from as_before(before, after, *IN_ROUNDS_UNTOUCHED)
    yield the_same_requests_are_there(before, after)
    yield SymbolicBoolean(z3.And(turn >= 0, after.running.length == before.running.length - turn))


def the_same(entry: Locals, now: Locals) -> Iterable[Any]:
    """Nothing changes."""
    for name in ("state", "encoder"):
        if name in now:
            yield both(now[name] is entry[name])


def renewed_state(name: str, value: Any) -> Any:
    """Any state."""
    return any_state("turn")._replace(worker=opaque()) if name == "state" else None


def renewed_but_holders(name: str, value: Any) -> Any:
    """Any state, with the caches, transfers and plans as they are."""
    if name != "state":
        return None
    kept = {part: getattr(value, part) for part in ("kv", "encoder", "transfers", "remote", "plans", "worker")}
    return any_state("turn")._replace(**kept)


def kept_as_it_is(name: str, value: Any) -> Any:
    """The value itself."""
    return value


LOOPS = (
    Loop(rounds.serve_running, ROW, serving, renewed=renewed_round, in_order=True),
    Loop(rounds.admit_waiting, ROW, admitting, renewed=renewed_round, in_order=True),
    Loop(
        rounds.with_blocks,
        ROW,
        searching,
        (lambda local: length(local["search"].round.state.running),),
        renewed=renewed_round,
    ),
    Loop(rounds.planned, ROW, the_same, renewed=kept_as_it_is),
    Loop(rounds.shown, ROW, showing, renewed=any_values, in_order=True),
    Loop(requests.executed_all, ROW, executing, renewed=renewed_state, in_order=True),
    NAMING_LOOP,
    Loop(requests.with_items_released, ROW, the_same, renewed=kept_as_it_is),
    Loop(requests.abort, ROW, ending_turns, renewed=renewed_but_holders, in_order=True),
    Loop(requests.reset_running, ROW, resetting, renewed=renewed_state, in_order=True),
)
