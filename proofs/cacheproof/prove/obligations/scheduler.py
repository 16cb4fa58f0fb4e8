"""A scheduling step, for any number of requests and items, any lengths, and any budgets.

Three proofs run the functions of the step itself. `COUNTS`: the number of tokens offered to a request is not negative
and is within the budget. `ITEMS`: the encoder pass does not raise the token count or the compute budget, and makes
neither negative. `STEP`: with any counts and passes that meet these two claims, each scheduled count is positive and
within both budgets. The answers of the caches, the plans in flight and the order of requests are arbitrary
(`prove/scheduler/stand_ins.py`).

The others are in modules of their own: `LIFE` follows the requests through all operations, `PINS` is about what the
encoder pass lets them hold, `PASSES` and `INPUTS` are about the items of a plan, and `BEGUN` about the computed tokens
of encoder-decoder models.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from cacheproof.prove import states
from cacheproof.prove.executor import Term, assume, both, demand, integer
from cacheproof.prove.loops import Locals, Loop
from cacheproof.prove.proof import Law, Proof
from cacheproof.prove.scheduler.begun import BEGUN
from cacheproof.prove.scheduler.inputs import INPUTS
from cacheproof.prove.scheduler.passes import PASSES
from cacheproof.prove.scheduler.pins import PINS
from cacheproof.prove.scheduler.requests import LIFE
from cacheproof.prove.scheduler.stand_ins import (
    RULES,
    answered,
    any_answer,
    any_cache,
    any_count,
    any_fit,
    any_line,
    any_remote,
    any_state,
    asked,
    greatest,
    is_fit,
    is_offer,
    is_uncut,
    least,
    left_out,
    opaque,
    unloaded,
    with_valid_items,
    without_new_blocks,
)
from cacheproof.prove.sequences import SymbolicSequence, length
from cacheproof.prove.shapes import INTEGER
from cachespec import scheduler
from cachespec.kernel import DONE, FROZEN, Containers, Outcome
from cachespec.kernel.names import hints_of
from cachespec.scheduler import configuration, counts, feasibility, items, normative, rounds
from cachespec.scheduler.configuration import Config
from cachespec.scheduler.operations import Add, Schedule
from cachespec.scheduler.round_state import Fit, Search
from cachespec.scheduler.state import State

import z3  # type: ignore[import-untyped]  # isort: skip  # z3 ships no types

SMALL = Config(
    block_size=2,
    kv_blocks=3,
    token_budget=4,
    encoder_compute=2,
    encoder_capacity=2,
    max_running=2,
    max_model_len=8,
    prompts=(4, 3),
    outputs=(2, 2),
    items=(((0, 1, 2),), ((1, 0, 2),)),
)


# What is claimed ----------------------------------------------------------------------------------------------------

scheduled_by_itself = rounds.scheduled


def scheduled_and_judged(rules: Any, config: Any, current: Any, request: Any, start: Any, fit: Any) -> Any:
    """`scheduled`, the only function that adds to a plan, with its arguments judged first."""
    demand("SCH-1", fit.tokens > 0)
    demand("SCH-1/budget", fit.tokens <= current.tokens)
    demand("SCH-4", both(fit.embeds >= 0, fit.embeds <= current.embeds))
    after = scheduled_by_itself(rules, config, current, request, start, fit)
    demand("SCH-1/budget", after.tokens == current.tokens - fit.tokens)
    return after


def planned(rules: Any, config: Any, current: Any) -> tuple[State, Outcome]:
    """Stands for the making of the plan, and judges the rest of both budgets."""
    demand("SCH-1/budget", both(current.tokens >= 0, current.tokens <= config.token_budget))
    demand("SCH-4", both(current.embeds >= 0, current.embeds <= config.encoder_compute))
    return current.state, DONE


def count_only(rules: Any, config: Any, state: State) -> tuple[State, Outcome]:
    """Stands for a step: both counts, for any request, start, wish and budget."""
    request, start, tokens, budget = any_request(config), any_count(), integer("tokens"), any_count()
    for count in (rules.offered, rules.offered_whole):
        demand("SCH-1/count", is_offer(config, count(config, state, request, start, tokens, budget), tokens, budget))
    whole = rules.offered_whole(config, state, request, start, tokens, budget)
    demand("SCH-1/count", is_uncut(config, whole, tokens, budget))
    return state, DONE


def pass_only(rules: Any, config: Any, state: State) -> tuple[State, Outcome]:
    """Stands for a step: one encoder pass, for any request and start."""
    closed: Any = integer("closed")
    begun = Fit(any_cache(), any_remote(), any_count(), any_count(), 0, (), (), (), closed, 0)
    demand("SCH-1/items", is_fit(begun, items.fitted(rules, config, begun, any_request(config), any_count())))
    return state, DONE


def law(name: str, statement: str) -> Law:
    """A claim that the stand-ins demand in the middle of the step."""
    return Law(name, statement, (Schedule,), lambda move: True)


# The loops ----------------------------------------------------------------------------------------------------------


def fitting(entry: Locals, now: Locals) -> Iterable[Any]:
    """The token count and the compute budget do not grow, and do not become negative."""
    yield is_fit(entry["fit"], now["fit"])


def within_budgets(entry: Locals, now: Locals) -> Iterable[Any]:
    """The rests of both budgets of the step do not grow, and do not become negative."""
    before, current = entry["current"], now["current"]
    yield both(current.tokens >= 0, current.tokens <= before.tokens)
    yield both(current.embeds >= 0, current.embeds <= before.embeds)


def searching(entry: Locals, now: Locals) -> Iterable[Any]:
    """A preemption for blocks leaves the budgets of the step as they are."""
    for name in ("search", "current"):
        before, after = round_of(entry[name]), round_of(now[name])
        yield both(after.tokens == before.tokens, after.embeds == before.embeds)


def round_of(value: Any) -> Any:
    """The round in a search, or the round itself."""
    return value.round if hasattr(value, "round") else value


def renewed(name: str, value: Any) -> Any:
    """Any search."""
    return Search(states.fresh_like(value.round, name), any_answer()) if name == "search" else None


ROW = "loops"

STEP_LOOPS = (
    Loop(rounds.serve_running, ROW, within_budgets),
    Loop(rounds.admit_waiting, ROW, within_budgets),
    Loop(
        rounds.with_blocks,
        ROW,
        searching,
        (lambda local: length(local["search"].round.state.running),),
        renewed=renewed,
    ),
)


# Values -------------------------------------------------------------------------------------------------------------


def fresh(kind: Any, name: str) -> Any:
    """Any value; each item, prompt or output that is read meets the rules of a valid configuration."""
    if kind is State:
        return any_state(name)
    value = states.fresh(kind, name)
    if kind is not Config:
        return value

    def positive(place: Term, number: Any) -> Any:
        assume(number > 0)
        return number

    return with_valid_items(value)._replace(
        prompts=replace(value.prompts, seen=positive),
        outputs=replace(value.outputs, seen=positive),
    )


def lift(kind: Any, value: Any) -> Any:
    """The part of a concrete state that a step reads, as terms."""
    if kind is not State:
        return states.lift(kind, value)
    lifted = any_state("lifted")
    hints = hints_of(State)
    known: dict[str, Any] = {
        part: states.lift(hints[part], getattr(value, part)) for part in ("computed", "produced", "proposed")
    }
    lines: dict[str, Any] = {
        part: SymbolicSequence.of(INTEGER, range(len(getattr(value, part)))) for part in ("waiting", "running", "plans")
    }
    return lifted._replace(**known, **lines)


def environment(config: Any, operation: Any) -> Iterable[Any]:
    """The configuration is valid, and has at least one request."""
    yield both(config.block_size > 0, config.token_budget > 0, config.max_running > 0, config.ahead > 0)
    yield both(config.encoder_compute > 0, config.encoder_capacity > 0, config.max_model_len > 0)
    yield both(config.drafts >= 0, config.alignment >= 0, config.long_prefill_threshold >= 0)
    yield both(length(config.outputs) == length(config.prompts), length(config.items) == length(config.prompts))
    yield length(config.prompts) > 0


def any_request(config: Any) -> Any:
    """Any request of the configuration; the first, if the number of requests is known, as in a witness."""
    if z3.is_int_value(z3.simplify(length(config.prompts).term)):
        return 0
    request = integer("request")
    assume(both(request >= 0, request < length(config.prompts)))
    return request


def items_given(config: Any, request: Any) -> Any:
    """The items of a request; in a configuration without items, each request has an empty tuple."""
    return config.items[request]


def begun(config: Any, containers: Containers = FROZEN) -> State:
    """The initial state of the search for witnesses: one request waits."""
    state = scheduler.NORMATIVE_SCHEDULER.initial(SMALL, FROZEN)
    return scheduler.NORMATIVE_SCHEDULER.step(SMALL, state, Add(0))[0]


MODULES = (configuration, counts, feasibility, items, normative, rounds)

WITHOUT_FORKS = (
    *((module, "min", least) for module in (counts, feasibility, items, rounds)),
    *((module, "max", greatest) for module in (counts, feasibility, items, rounds)),
)

STEP = Proof(
    component="scheduler",
    variant=replace(
        scheduler.NORMATIVE_SCHEDULER,
        initial=begun,
        transitions={Schedule: scheduler.NORMATIVE_SCHEDULER.transitions[Schedule]},
        alphabet=lambda config, state: (Schedule(),),
    ),
    config=Config,
    invariants=(),
    laws=(
        law("SCH-1", "every scheduled token count is positive"),
        law("SCH-1/budget", "the token counts of a step sum to at most the token budget"),
        law("SCH-4", "the embeddings encoded in a step sum to at most the encoder compute budget"),
    ),
    witnesses=(SMALL,),
    environment=environment,
    loops=STEP_LOOPS,
    modules=MODULES,
    replaced=(
        *WITHOUT_FORKS,
        (normative, "RULES", RULES),
        (rounds, "fitted", any_fit),
        (rounds, "scheduled", scheduled_and_judged),
        (rounds, "planned", planned),
        (rounds, "slots", answered),
        (rounds, "takes_watermark", lambda *_: any_answer()),
        (rounds, "kv_config", lambda *_: opaque()),
        (rounds, "give_up", any_cache),
        (rounds, "take", any_cache),
        (rounds, "loaded", unloaded),
        (rounds, "with_new_blocks", without_new_blocks),
        (rounds, "loads_later", lambda *_: any_answer()),
        (rounds, "brings", lambda *_: any_answer()),
        (rounds, "loaded_first", lambda state: any_line()),
        (rounds, "begun_in_step", lambda config, state, request, prefix: state.transfers.remove(request)),
        (rounds, "blocks_of", any_line),
        (rounds, "with_contents", lambda config, brought, request, bring: brought),
        (rounds, "left_out", left_out),
        (rounds, "known_length", any_count),
        (rounds, "drafts_from", any_count),
    ),
    fresh=fresh,
    lift=lift,
)

ITEMS = replace(
    STEP,
    laws=(law("SCH-1/items", "no item raises the tokens of a request or the compute budget, or makes them negative"),),
    loops=(Loop(items.fitted, ROW, fitting),),
    replaced=(
        *WITHOUT_FORKS,
        (rounds, "run", pass_only),
        (items, "look_up", asked),
        (items, "ask_for_room", asked),
        (items, "is_granted", lambda *_: any_answer()),
        (items, "items_of", items_given),
    ),
)

COUNTS = replace(
    STEP,
    laws=(
        law(
            "SCH-1/count",
            "the tokens offered to a request are between 0 and what it lacks, within budget and threshold",
        ),
    ),
    loops=(),
    replaced=(*WITHOUT_FORKS, (rounds, "run", count_only)),
)

PROOFS = (STEP, ITEMS, COUNTS, LIFE, PINS, PASSES, INPUTS, BEGUN)
