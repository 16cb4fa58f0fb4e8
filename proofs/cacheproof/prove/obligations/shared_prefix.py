"""Requests that share a prefix, for any number of requests, prompts and items, and any sizes.

`PROOF` leaves the encoder cache and both of its budgets arbitrary: each answer is any answer. `REPORTED` does so, too,
but for the report at the end of a step, which is the encoder cache's own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import SymbolicBoolean, Term, both, implies, integer_term
from cacheproof.prove.lines import Shares, each
from cacheproof.prove.loops import Loop
from cacheproof.prove.proof import Invariant, Law, Move, Proof
from cacheproof.prove.scheduler.stand_ins import greatest, least
from cacheproof.prove.sequences import SymbolicSequence
from cacheproof.prove.shared_prefix.loops import (
    LOOPS,
    ROW,
    admitted_are_served,
    admitted_run,
    cached_as_computed,
    computed_as_counted,
    computed_is_in_range,
    counts_are_positive,
    follow,
    has_a_place_for_each,
    others_wait,
    queues_are_apart,
    reach_is_of_blocks,
    running_are_counted,
)
from cacheproof.prove.shared_prefix.stand_ins import (
    ANY_ENCODER,
    any_answer,
    any_budgets,
    any_entries_left,
    any_entries_then,
    any_items,
    any_reach,
    any_release,
    begun,
    cached,
    cached_prefix,
    environment,
    fresh,
    lift,
    lift_with_entries,
    nothing_more,
    only_room,
    with_entries,
    within,
)
from cacheproof.prove.states import unchanged
from cachespec import shared_prefix
from cachespec.encoder_cache import passes
from cachespec.encoder_cache import transitions as encoder_transitions
from cachespec.kernel import DONE, FROZEN, Containers
from cachespec.shared_prefix import configuration, transitions
from cachespec.shared_prefix.configuration import Config
from cachespec.shared_prefix.operations import Add, Finish, Step
from cachespec.shared_prefix.state import GONE, NEW, RUNNING, WAITING, State
from cachespec.shared_prefix.transitions import NORMATIVE_RULES

NORMATIVE = shared_prefix.COMPONENT.normative

INVARIANTS = (
    Invariant("SCH-2", "the computed tokens of a request are between 0 and its prompt length", computed_is_in_range),
    Invariant(
        "SCH-6",
        "a request is waiting, running or finished; at most the permitted number run, and only they have computed "
        "tokens",
        queues_are_apart,
    ),
    Invariant("running", "the number of requests with the status running is that of the queue", running_are_counted),
    Invariant("places", "each request has a status and a count, each prompt a reach", has_a_place_for_each),
    Invariant("reach", "the cached tokens of a prompt are whole blocks of it", reach_is_of_blocks),
)


# Laws ---------------------------------------------------------------------------------------------------------------


def shares_of(move: Move) -> Shares:
    """Requests and counts of the step."""
    return cast("Shares", move.outcome.values)


def counts_fit(move: Move) -> SymbolicBoolean:
    """SCH-1."""
    shares = shares_of(move)
    total = SymbolicBoolean(shares.total <= integer_term(move.config.batch_tokens))
    return both(counts_are_positive(shares), total)


def served_in_order(move: Move) -> SymbolicBoolean:
    """SCH-7."""
    names, running = shares_of(move).names, move.after.running
    return both(
        admitted_run(move.before, move.after),
        others_wait(move.before, move.after),
        follow(names, running, running.last),
        admitted_are_served(move.before, move.after, names),
    )


def written_is_cached(move: Move) -> SymbolicBoolean:
    """SCH-2/cached."""
    names = shares_of(move).names
    return both(*cached_as_computed(move.config, move.before, move.after, names, names.last))


def with_value(before: SymbolicSequence, after: SymbolicSequence, request: Any, value: int) -> SymbolicBoolean:
    """The later tuple is the earlier one with this value for this request."""

    def right(place: Term) -> Term:
        new = z3.If(place == integer_term(request), z3.IntVal(value), before.items[place])
        inside = z3.And(place >= 0, place < before.length)
        return z3.Implies(inside, after.items[place] == new)

    return both(SymbolicBoolean(each(right)), SymbolicBoolean(before.length == after.length))


def arrives_or_ends(move: Move) -> SymbolicBoolean:
    """SCH-6/asked."""
    before, after, request = move.before, move.after, move.operation.request
    status = before.status[request]
    others = before.waiting.without(integer_term(request))
    if type(move.operation) is Add:
        possible, waiting = both(status == NEW), others.joined(request)
        as_asked = both(
            with_value(before.status, after.status, request, WAITING), before.computed.same_as(after.computed)
        )
    else:
        possible, waiting = both(status == WAITING) | both(status == RUNNING), others
        as_asked = both(
            with_value(before.status, after.status, request, GONE),
            with_value(before.computed, after.computed, request, 0),
        )
    done = both(
        move.outcome == DONE,
        as_asked,
        after.waiting.equals(waiting),
        after.running.equals(before.running.without(integer_term(request))),
        before.reach.same_as(after.reach),
    )
    return both(implies(possible, done), implies(~possible, both(move.outcome != DONE, unchanged(before, after))))


LAWS = (
    Law(
        "SCH-1",
        "every scheduled count is positive, and the counts of a step sum to at most its token budget",
        (Step,),
        counts_fit,
    ),
    Law(
        "SCH-7",
        "running requests are served in admission order, and no waiting request is overtaken",
        (Step,),
        served_in_order,
    ),
    Law(
        "SCH-2/counted",
        "a request continues where it stopped, or after the blocks cached before the step",
        (Step,),
        lambda move: computed_as_counted(move.config, move.before, move.after, shares_of(move)),
    ),
    Law(
        "SCH-2/cached",
        "exactly the full blocks of computed tokens are cached",
        (Step,),
        written_is_cached,
    ),
    Law(
        "SCH-6/asked",
        "an arriving request waits last, a finished one is removed, other requests are unaffected, and cached "
        "blocks stay",
        (Add, Finish),
        arrives_or_ends,
    ),
)


WITNESSES = (
    Config(
        batch_tokens=3,
        block_size=2,
        sequences=2,
        prompts=(4,),
        items=(((0, 1, 3),),),
        requests=(0, 0, 0),
    ),
)

REPLACED = (
    (transitions, "min", least),
    (transitions, "max", greatest),
    (transitions, "Plan", begun),
    (transitions, "ask", any_answer),
    (transitions, "released", any_release),
    (transitions, "cached", cached),
    (transitions, "cached_prefix", cached_prefix),
    (transitions, "encoder_config", only_room),
    (transitions, "NORMATIVE_RULES", NORMATIVE_RULES._replace(budgets=any_budgets, encoder=ANY_ENCODER)),
)

PROOF = Proof(
    component="shared_prefix",
    variant=NORMATIVE,
    config=Config,
    invariants=INVARIANTS,
    laws=LAWS,
    witnesses=WITNESSES,
    environment=environment,
    loops=LOOPS,
    modules=(configuration, transitions),
    replaced=REPLACED,
    fresh=fresh,
    lift=lift,
)


# The report ---------------------------------------------------------------------------------------------------------


def all_is_reported(move: Move) -> SymbolicBoolean:
    """ENC-7."""
    return both(move.after.encoder.freed.total == 0)


def arrived(config: Any, containers: Containers = FROZEN) -> State:
    """The initial state of the search for witnesses: one request waits."""
    state = NORMATIVE.initial(WITNESSES[0], FROZEN)
    added: State = NORMATIVE.step(WITNESSES[0], state, Add(0))[0]
    return added


REPORTED = replace(
    PROOF,
    variant=replace(
        NORMATIVE,
        initial=arrived,
        transitions={Step: NORMATIVE.transitions[Step]},
        alphabet=lambda config, state: (Step(),),
    ),
    laws=(Law("ENC-7", "each step tells the worker which entries were evicted", (Step,), all_is_reported),),
    invariants=(),
    loops=(
        Loop(transitions.step_by, ROW, within, in_order=True),
        Loop(transitions.executed, ROW, within, in_order=True),
        Loop(passes.emptied, ROW, nothing_more, (lambda local: local["queue"].length,)),
        Loop(encoder_transitions.report, ROW, nothing_more, (lambda local: local["cache"].freed.length,)),
    ),
    modules=(configuration, transitions, passes, encoder_transitions),
    replaced=(
        (transitions, "Plan", begun),
        (transitions, "run", any_entries_then),
        (transitions, "admit", any_entries_then),
        (transitions, "cached", any_reach),
        (transitions, "items_of", any_items),
        (transitions, "released", any_entries_left),
        (transitions, "encoder_config", only_room),
        (transitions, "NORMATIVE_RULES", NORMATIVE_RULES._replace(budgets=any_budgets)),
    ),
    fresh=with_entries,
    lift=lift_with_entries,
)

PROOFS = (PROOF, REPORTED)
