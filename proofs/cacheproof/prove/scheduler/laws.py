"""What holds of each step of a scheduler: of its requests, and of the plan that a round makes."""

from __future__ import annotations

from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import (
    SymbolicBoolean,
    Term,
    both,
    demand,
    implies,
    integer_term,
)
from cacheproof.prove.proof import Law, Move
from cacheproof.prove.scheduler.life import (
    is_a_turn,
    is_gone,
    is_known,
    is_there,
    of_each,
    phase_of,
    runs,
    waits,
)
from cacheproof.prove.scheduler.queues import Members
from cacheproof.prove.scheduler.rounds import turns_begin
from cacheproof.prove.scheduler.settings import at_one, number_of_later_turns
from cachespec import scheduler
from cachespec.kernel import Code
from cachespec.scheduler.operations import Abort, Add, Compile, Schedule, Update
from cachespec.scheduler.state import ABANDONED, LOADING

EVERY_CALL = tuple(scheduler.NORMATIVE_SCHEDULER.transitions)


def new_plan(move: Move) -> Any:
    """The plan that a round has made, or None."""
    return move.after.plans.newest


def the_ended_are_not_scheduled(move: Move) -> SymbolicBoolean:
    """SCH-5."""
    plan = new_plan(move)
    if plan is None:
        return both(True)
    scheduled, finished, preempted = (
        Members.of(one).members for one in (plan.scheduled, plan.finished, plan.preempted)
    )
    return of_each(lambda request: z3.Implies(scheduled[request], z3.Not(z3.Or(finished[request], preempted[request]))))


def the_preempted_are_named(move: Move) -> SymbolicBoolean:
    """SCH-5/named: without a plan there is none."""
    plan, before, after = new_plan(move), move.before, move.after
    named = Members.of(() if plan is None else plan.preempted).members
    return of_each(lambda request: named[request] == z3.And(runs(before, request), waits(after, request)))


def drafts_are_used_up(move: Move) -> SymbolicBoolean:
    """SCH-2/once."""
    plan, after = new_plan(move), move.after
    scheduled = Members.of(() if plan is None else plan.scheduled).members
    return of_each(lambda request: z3.Implies(scheduled[request], z3.Not(after.proposed.members[request])))


def no_request_is_lost(move: Move) -> SymbolicBoolean:
    """SCH-6/kept."""
    config, before, operation, after = move.config, move.before, move.operation, move.after
    asked = integer_term(operation.request) if hasattr(operation, "request") else None
    turns = aborted_turns(config, operation) if type(operation) is Abort and move.outcome.code is Code.DONE else None

    def right(request: Term) -> Term:
        arrived = z3.BoolVal(False)
        if type(operation) is Add:
            arrived = z3.And(request == asked, z3.Or(waits(after, request), after.queued.members[request]))
        if turns is not None:
            arrived = turns(request)
        return is_known(after, request) == z3.Or(is_known(before, request), arrived)

    return of_each(right)


def aborted_turns(config: Any, operation: Any) -> Any:
    """The request and the later turns of its session."""
    first = integer_term(operation.request)
    last = first + number_of_later_turns(config, first)
    return lambda request: z3.And(request >= first, request <= last)


def the_answer_is_right(move: Move) -> SymbolicBoolean:
    """SCH-9/answered."""
    before, after, request = move.before, move.after, integer_term(move.operation.request)
    turn = z3.And(is_a_turn(move.config, request), z3.Not(is_known(before, request - 1)))
    there = z3.Or(waits(after, request), after.queued.members[request])
    code = move.outcome.code
    right = z3.If(
        turn,
        z3.BoolVal(code is Code.ABSENT),
        z3.If(there, z3.BoolVal(code is Code.DONE), z3.BoolVal(code is Code.TOO_LARGE)),
    )
    return SymbolicBoolean(z3.Implies(z3.Not(is_known(before, request)), right))


def grammars_are_awaited(move: Move) -> SymbolicBoolean:
    """SCH-13/awaited."""
    config, before, operation, after = move.config, move.before, move.operation, move.after
    asked = integer_term(operation.request) if hasattr(operation, "request") else None
    if type(operation) is Compile:
        done = both(move.outcome.code is Code.DONE)
        absent = both(move.outcome.code is Code.ABSENT)
        was = before.compiling.has(operation.request)
        demand("SCH-13/awaited", implies(was, done) & implies(~was, absent))

    def right(request: Term) -> Term:
        awaited = before.compiling.members[request]
        if type(operation) is Add:
            grammar = at_one(config.grammars, request)
            new = z3.And(request == asked, waits(after, request), z3.Not(waits(before, request)), grammar)
            awaited = z3.Or(awaited, new)
        if type(operation) is Compile:
            awaited = z3.And(awaited, request != asked)
        return after.compiling.members[request] == z3.And(awaited, z3.Not(is_gone(after, request)))

    return of_each(right)


def output_is_taken(move: Move) -> SymbolicBoolean:
    """SCH-2/taken."""
    if type(move.operation) is Update:
        plans: Any = move.before.plans
        return implies(SymbolicBoolean(plans.length > 0), move.outcome.code is Code.DONE)
    return both(move.outcome.code is not Code.FAILED)


def a_turn_follows(move: Move) -> SymbolicBoolean:
    """SCH-16/next."""
    return turns_begin(move.config, move.before, move.after)


def an_abort_ends_the_session(move: Move) -> SymbolicBoolean:
    """SCH-16/aborted."""
    config, before, after, request = move.config, move.before, move.after, integer_term(move.operation.request)
    if move.outcome.code is not Code.DONE:
        awaited = z3.And(is_a_turn(config, request), is_gone(before, request - 1), z3.Not(is_known(before, request)))
        return SymbolicBoolean(z3.Not(z3.Or(is_there(before, request), awaited)))
    ended = aborted_turns(config, move.operation)

    def right(turn: Term) -> Term:
        over = z3.And(is_gone(after, turn), z3.Not(is_there(after, turn)), z3.Not(after.queued.members[turn]))
        return z3.Implies(ended(turn), over)

    return of_each(right)


def an_abort_leaves_nothing(move: Move) -> SymbolicBoolean:
    """X-3, of the request's own blocks, items, place and steps in flight."""
    before, after, request = move.before, move.after, integer_term(move.operation.request)
    if move.outcome.code is not Code.DONE:
        return both(True)
    was = z3.And(before.transfers.members[request], phase_of(before, request) == LOADING)
    loads = z3.And(was, after.transfers.members[request], phase_of(after, request) == ABANDONED)
    items = z3.Or(after.encoder.kept.members[request], after.encoder.pinned.members[request])
    return SymbolicBoolean(
        z3.And(
            z3.Or(loads, z3.Not(after.kv.holders.members[request])),
            z3.Not(items),
            z3.Not(is_there(after, request)),
            z3.Not(after.plans.counted[request]),
        )
    )


def the_end_is_said_once(move: Move) -> SymbolicBoolean:
    """X-1. The end of a turn is not said where its session keeps what it has: a transfer of the next turn."""
    config, before, after, plan = move.config, move.before, move.after, new_plan(move)
    said = Members.of(() if plan is None else plan.finished).members
    is_round = type(move.operation) is Schedule and move.outcome.code not in (Code.REFUSED, Code.FAILED)

    def right(request: Term) -> Term:
        kept = z3.And(is_a_turn(config, request + 1), after.transfers.members[request + 1])
        ended = z3.And(is_gone(after, request), z3.Not(is_gone(before, request)), z3.Not(kept))
        left = z3.And(z3.Or(before.leaving.members[request], ended), z3.Not(said[request]))
        all_said = z3.Not(after.leaving.members[request]) if is_round else z3.BoolVal(True)
        known = z3.Implies(said[request], before.leaving.members[request])
        return z3.And(after.leaving.members[request] == left, known, all_said)

    return of_each(right)


def in_the_round(name: str, statement: str) -> Law:
    """A claim that is demanded where a part of a plan is made."""
    return Law(name, statement, (Schedule,), lambda move: True)


LAWS = (
    in_the_round(
        "SCH-2", "no token is computed at a position that leaves no room for an output within the model's length"
    ),
    in_the_round(
        "SCH-2/known",
        "the scheduled tokens of a request never exceed its tokens, including those in flight and its drafts",
    ),
    in_the_round("SCH-2/drafts", "drafts are verified in the step for which they were proposed"),
    in_the_round(
        "SCH-2/next", "a plan has at most one chunk per request, and a running request continues where it stopped"
    ),
    in_the_round(
        "SCH-2/samples",
        "a step samples for a request if and only if it computes the request's last known token; tokens beyond are "
        "drafts",
    ),
    in_the_round("SCH-2/awaited", "with pipeline stages, only known tokens and drafts are scheduled"),
    in_the_round(
        "SCH-1/threshold",
        "beside another request, no request gets more tokens in a step than the long-prefill threshold",
    ),
    in_the_round(
        "SCH-1/uncut",
        "without chunked prefill, the token budget never cuts the tokens with which a request is admitted",
    ),
    Law(
        "SCH-2/once",
        "the proposed drafts of a request that is scheduled are verified in this step or not at all",
        (Schedule,),
        drafts_are_used_up,
    ),
    Law(
        "SCH-5",
        "a plan schedules no request that it also lists as finished or preempted",
        (Schedule,),
        the_ended_are_not_scheduled,
    ),
    Law("SCH-5/named", "a plan names the requests preempted in its round", (Schedule,), the_preempted_are_named),
    Law(
        "SCH-6/kept",
        "every request that waited or ran still does or has ended, and only an arrival adds a request",
        EVERY_CALL,
        no_request_is_lost,
    ),
    Law("SCH-9/answered", "the answer to an arrival says whether the request was queued", (Add,), the_answer_is_right),
    Law(
        "SCH-13/awaited",
        "a request waits for its grammar from its arrival until the grammar is compiled or the request ends",
        EVERY_CALL,
        grammars_are_awaited,
    ),
    Law(
        "SCH-2/taken",
        "every round is made, and the output of a plan in flight is accepted: no assertion fails",
        (Schedule, Update),
        output_is_taken,
    ),
    Law(
        "SCH-16/next",
        "a turn that was queued waits as soon as the turn before it is finished",
        (Update,),
        a_turn_follows,
    ),
    Law("X-1", "the workers are told exactly once that a request has ended", EVERY_CALL, the_end_is_said_once),
    Law("SCH-16/aborted", "an abort ends all later turns of the session", (Abort,), an_abort_ends_the_session),
    Law(
        "X-3",
        "an aborted request holds nothing but blocks that a load still writes, and steps in flight no longer count for "
        "it",
        (Abort,),
        an_abort_leaves_nothing,
    ),
)
