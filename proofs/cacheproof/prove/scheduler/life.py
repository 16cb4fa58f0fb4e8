"""What holds of every state of a scheduler: where each request is, what it holds, and what is remembered of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.containers import every
from cacheproof.prove.executor import SymbolicBoolean, Term, integer_term
from cacheproof.prove.proof import Invariant
from cacheproof.prove.shapes import INTEGER
from cachespec.scheduler.state import ABANDONED, LOADED, LOADING, LOADS_IN_STEP, SENDING

State = Any


def of_each(condition: Callable[[Term], Term]) -> SymbolicBoolean:
    """The condition, for every request."""
    return SymbolicBoolean(every(INTEGER, condition))


def of_each_turn(config: Any, condition: Callable[[Term], Term]) -> SymbolicBoolean:
    """Likewise; a solver looks at those requests only of which it has to know whether they are turns.

    The condition speaks of the request before, so without this limit it would be led from one to the next for ever.
    """
    request = z3.Const("request", z3.IntSort())
    return SymbolicBoolean(z3.ForAll([request], condition(request), patterns=[config.turns.items[request]]))


# Of one request, over terms -----------------------------------------------------------------------------------------


def waits(state: State, request: Term) -> Term:
    """It is among those that wait."""
    return state.waiting.counts[request] > 0


def runs(state: State, request: Term) -> Term:
    """It is among those that run."""
    return state.running.counts[request] > 0


def is_there(state: State, request: Term) -> Term:
    """It waits or runs."""
    return z3.Or(waits(state, request), runs(state, request))


def is_gone(state: State, request: Term) -> Term:
    """It is finished or aborted."""
    return state.gone.members[request]


def is_known(state: State, request: Term) -> Term:
    """It has arrived, or cannot arrive any more."""
    return z3.Or(is_there(state, request), state.queued.members[request], is_gone(state, request))


def phase_of(state: State, request: Term) -> Term:
    """The phase of its transfer, if it has one."""
    transfer = state.transfers.values[request]
    return transfer.sort().accessor(0, 0)(transfer)


def holds_items(state: State, request: Term) -> Term:
    """It may hold an item."""
    return z3.Or(state.encoder.kept.members[request], state.encoder.pinned.members[request])


def at(numbers: Any, request: Term) -> Term:
    """A setting of the request, or 0 where there are none."""
    return z3.If(numbers.length > 0, numbers.items[request], z3.IntVal(0))


def is_a_turn(config: Any, request: Term) -> Term:
    """It is a later turn of a session."""
    turns = config.turns
    return z3.And(request >= 0, request < turns.length, turns.items[request] == 1)


def final(config: Any, request: Term) -> Term:
    """The most tokens that it may have."""
    prompt, most = config.prompts.items[request], integer_term(config.max_model_len)
    whole = prompt + config.outputs.items[request]
    least = z3.If(whole < most, whole, most)
    return z3.If(prompt + 1 > least, prompt + 1, least)


def may_end(config: Any, request: Term, output: Term) -> Term:
    """Whether the output is complete with this number of tokens, as the property of the specification writes it."""
    stop, least = at(config.stops, request), at(config.min_tokens, request)
    stopped = z3.And(stop > 0, stop <= output, least <= stop)
    return z3.Or(stopped, config.prompts.items[request] + output >= final(config, request))


def output_of(state: State, request: Term) -> Term:
    """Its output tokens."""
    return z3.If(state.produced.members[request], state.produced.values[request], z3.IntVal(0))


# Of a state ---------------------------------------------------------------------------------------------------------


def queues_are_apart(config: Any, state: State) -> SymbolicBoolean:
    """SCH-6."""

    def right(request: Term) -> Term:
        one, none = z3.IntVal(1), z3.IntVal(0)
        elsewhere = z3.If(state.queued.members[request], one, none) + z3.If(state.gone.members[request], one, none)
        waiting, running = state.waiting.counts[request], state.running.counts[request]
        return z3.And(waiting + running + elsewhere <= 1, state.computed.members[request] == (running > 0))

    return of_each(right)


def the_living_are_remembered(config: Any, state: State) -> SymbolicBoolean:
    """SCH-6/forgotten."""

    def right(request: Term) -> Term:
        output = z3.Implies(state.produced.members[request], is_there(state, request))
        return z3.And(output, z3.Implies(state.proposed.members[request], runs(state, request)))

    return of_each(right)


def blocks_are_of_the_running(config: Any, state: State) -> SymbolicBoolean:
    """SCH-5/blocks."""

    def right(request: Term) -> Term:
        may = z3.Or(runs(state, request), state.transfers.members[request])
        return z3.Implies(state.kv.holders.members[request], may)

    return of_each(right)


def items_are_of_the_running(config: Any, state: State) -> SymbolicBoolean:
    """SCH-5/items."""
    return of_each(lambda request: z3.Implies(holds_items(state, request), runs(state, request)))


def grammars_are_there(config: Any, state: State) -> SymbolicBoolean:
    """SCH-13."""
    return of_each(lambda request: z3.Not(z3.And(state.compiling.members[request], runs(state, request))))


def few_run(config: Any, state: State) -> SymbolicBoolean:
    """SCH-1/running."""
    return SymbolicBoolean(state.running.length <= integer_term(config.max_running))


def output_is_incomplete(config: Any, state: State) -> SymbolicBoolean:
    """SCH-2/finished."""

    def right(request: Term) -> Term:
        output = state.produced.values[request]
        return z3.Implies(state.produced.members[request], z3.Not(may_end(config, request, output)))

    return of_each(right)


def drafts_could_count(config: Any, state: State) -> SymbolicBoolean:
    """SCH-2/proposed."""

    def right(request: Term) -> Term:
        drafts = state.proposed.values[request]
        length = config.prompts.items[request] + output_of(state, request) + drafts
        few = z3.And(drafts > 0, drafts <= integer_term(config.drafts), length < final(config, request))
        return z3.Implies(state.proposed.members[request], few)

    return of_each(right)


def turns_are_in_order(config: Any, state: State) -> SymbolicBoolean:
    """SCH-16."""

    def right(request: Term) -> Term:
        turn = z3.And(is_there(state, request), is_a_turn(config, request))
        before = z3.And(is_known(state, request - 1), z3.Not(is_gone(state, request - 1)))
        queued = z3.Implies(state.queued.members[request], before)
        return z3.And(z3.Implies(turn, is_gone(state, request - 1)), queued)

    return of_each_turn(config, right)


def known_requests_exist(config: Any, state: State) -> SymbolicBoolean:
    """Requests are numbers, and a queued request is a turn."""

    def right(request: Term) -> Term:
        exists = z3.And(request >= 0, request < config.prompts.length)
        queued = z3.Implies(state.queued.members[request], is_a_turn(config, request))
        return z3.And(z3.Implies(is_known(state, request), exists), queued)

    return of_each(right)


def turns_end_in_order(config: Any, state: State) -> SymbolicBoolean:
    """SCH-16, of turns that have ended."""

    def right(request: Term) -> Term:
        ended = z3.And(is_gone(state, request), is_a_turn(config, request))
        return z3.Implies(ended, is_gone(state, request - 1))

    return of_each_turn(config, right)


def prompts_fit(config: Any, state: State) -> SymbolicBoolean:
    """SCH-9, of the prompt alone: each request that is there or queued leaves room for an output."""

    def right(request: Term) -> Term:
        longest = integer_term(config.max_model_len) - z3.If(integer_term(config.pooling) == 1, 0, 1)
        there = z3.Or(is_there(state, request), state.queued.members[request])
        output = z3.Implies(state.produced.members[request], state.produced.values[request] > 0)
        return z3.And(z3.Implies(there, config.prompts.items[request] <= longest), output)

    return of_each(right)


def others_wait(config: Any, state: State) -> SymbolicBoolean:
    """A request whose grammar is compiled waits, one in flight runs, and `leaving` names requests that are gone."""

    def right(request: Term) -> Term:
        return z3.And(
            z3.Implies(state.compiling.members[request], waits(state, request)),
            z3.Implies(state.plans.counted[request], runs(state, request)),
            z3.Implies(state.leaving.members[request], is_gone(state, request)),
        )

    return of_each(right)


def transfers_are_in_queues(config: Any, state: State) -> SymbolicBoolean:
    """SCH-14, of queues: a load is awaited or runs, and what is over belongs to a request that is gone."""

    def right(request: Term) -> Term:
        phase = phase_of(state, request)
        right_queue = z3.Or(
            z3.And(z3.Or(phase == LOADING, phase == LOADED), waits(state, request)),
            z3.And(phase == LOADS_IN_STEP, runs(state, request)),
            z3.And(z3.Or(phase == ABANDONED, phase == SENDING), is_gone(state, request)),
        )
        return z3.Implies(state.transfers.members[request], right_queue)

    return of_each(right)


INVARIANTS = (
    Invariant(
        "SCH-6", "every known request is in exactly one state: queued, waiting, running or finished", queues_are_apart
    ),
    Invariant(
        "SCH-6/forgotten",
        "only waiting and running requests have output, and only running ones have drafts",
        the_living_are_remembered,
    ),
    Invariant(
        "SCH-5/blocks",
        "only running requests, and requests with a transfer, hold KV blocks",
        blocks_are_of_the_running,
    ),
    Invariant("SCH-5/items", "only running requests hold items", items_are_of_the_running),
    Invariant("SCH-13", "no request runs before the grammar of its output is compiled", grammars_are_there),
    Invariant("SCH-1/running", "at most `max_running` requests run", few_run),
    Invariant("SCH-2/finished", "a request with complete output is finished", output_is_incomplete),
    Invariant(
        "SCH-2/proposed",
        "the proposed drafts are at most the configured number and at most what the output can still take",
        drafts_could_count,
    ),
    Invariant("SCH-16", "a turn waits or runs only after the turn before it has ended", turns_are_in_order),
    Invariant("SCH-6/existing", "only requests of the configuration are known", known_requests_exist),
    Invariant("SCH-16/ended", "a turn ends only after the turn before it has ended", turns_end_in_order),
    Invariant("SCH-9/prompt", "the prompt of every queued request leaves room for an output", prompts_fit),
    Invariant("SCH-6/apart", "what is compiled waits, and what is in flight runs", others_wait),
    Invariant(
        "SCH-14/queues", "a request with a transfer is in the queue that its phase names", transfers_are_in_queues
    ),
)
"""The last five are needed for the others."""
