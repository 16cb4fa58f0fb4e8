"""A scheduling step, for any number of requests and items, any lengths, and any budgets.

The step's own functions are run, in three proofs. `COUNTS`: what is offered of a request is not negative and within the
budget. `ITEMS`: the encoder pass makes neither the tokens nor the compute budget grow, or negative. `STEP`: with any
counts and any passes of which that is so, whatever is scheduled is positive and within both budgets. What the caches
answer is arbitrary, as is what is in flight and in which order requests stand: the claims hold whatever those say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from cacheproof.prove import states
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
from cacheproof.prove.proof import Law, Proof
from cacheproof.prove.sequences import SymbolicSequence, Unknown, length
from cacheproof.prove.shapes import INTEGER
from cachespec import scheduler
from cachespec.encoder_cache import Cache
from cachespec.kernel import DONE, FROZEN, Containers, Outcome
from cachespec.kernel.names import hints_of
from cachespec.scheduler import configuration, counts, feasibility, items, normative, rounds
from cachespec.scheduler.configuration import LENGTH, START, Config
from cachespec.scheduler.operations import Add, Schedule
from cachespec.scheduler.round_state import Asked, Fit, Prefix, Search, Slots
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


# What is arbitrary --------------------------------------------------------------------------------------------------


class Held(NamedTuple):
    """What a step looks at of the encoder cache."""

    held: Any


def any_state(name: str) -> State:
    """A state of which the queues, the counts and the encoder cache are anything, and the rest is not looked at."""
    hints = hints_of(State)
    fields: dict[str, Any] = {
        part: states.fresh(hints[part], f"{name}.{part}")
        for part in ("computed", "produced", "proposed", "compiling", "gone", "leaving", "transfers")
    }
    return State(
        kv=opaque(),
        encoder=any_cache(),
        waiting=any_line(),
        running=any_line(),
        plans=any_line(),
        worker=opaque(),
        **fields,
    )


def opaque() -> Any:
    """What nobody looks into."""
    return Unknown()


def any_line(*_: object) -> Any:
    """Requests in any order."""
    return SymbolicSequence.fresh(INTEGER, "line")


def any_cache(*_: object) -> Any:
    """Any encoder cache: a step looks into nothing of it but what is held."""
    return Held(states.fresh(hints_of(Cache)["held"], "held"))


def any_answer() -> Any:
    """Yes or no."""
    return SymbolicBoolean(path().fresh("yes", z3.BoolSort()))


def any_count(*_: object) -> Any:
    """A number that is not negative."""
    count = integer("count")
    assume(count >= 0)
    return count


def asked(*_: object) -> Asked:
    """In the place of a question to the encoder cache."""
    return Asked(any_cache(), any_answer())


def answered(*_: object) -> Slots:
    """In the place of a question for KV blocks."""
    return Slots(opaque(), any_answer())


def least(one: Any, other: Any) -> Any:
    """`min` of two, without forking."""
    return SymbolicInteger(z3.If(integer_term(one) < integer_term(other), integer_term(one), integer_term(other)))


def greatest(one: Any, other: Any) -> Any:
    """`max` of two, without forking."""
    return SymbolicInteger(z3.If(integer_term(one) > integer_term(other), integer_term(one), integer_term(other)))


def left_out(line: Any, request: Any) -> Any:
    """In the place of a line without one who stands in it: shorter by one."""
    shorter = any_line()
    assume(both(length(line) > 0, length(shorter) == length(line) - 1))
    return shorter


def line_with(config: Any, line: Any, request: Any) -> Any:
    """In the place of a line with one more request: any line."""
    return any_line()


def any_victim(config: Any, state: State) -> Any:
    """In the place of the choice of who is preempted."""
    return integer("victim")


def anything_lost(rules: Any, config: Any, state: State, request: Any) -> State:
    """In the place of what a preempted request gives back."""
    return state._replace(kv=opaque(), encoder=any_cache(), plans=any_line())


def any_prefix(rules: Any, config: Any, state: State, request: Any) -> Prefix:
    """In the place of what is cached of a request: any hits, and any start, even beyond what there is to compute."""
    start: Any = any_count()
    covered: Any = integer("covered")
    return Prefix(any_line(), start, covered)


def unloaded(config: Any, state: State, request: Any, prefix: Prefix) -> State:
    """In the place of a load from an external store, which changes the worker only."""
    return state


def any_wish(config: Any, state: State, request: Any, start: Any) -> Any:
    """In the place of what a request has to compute: any number, also a negative one."""
    return integer("wanted")


def any_offer(config: Any, state: State, request: Any, start: Any, tokens: Any, budget: Any) -> Any:
    """In the place of what is offered of it: what `COUNTS` says of that."""
    offer = integer("offer")
    assume(is_offer(offer, budget))
    return offer


def any_fit(rules: Any, config: Any, fit: Any, request: Any, start: Any) -> Any:
    """In the place of the encoder pass: what `ITEMS` says of it."""
    after = states.fresh_like(fit, "fit")
    assume(is_fit(fit, after))
    return after


def is_offer(offer: Any, budget: Any) -> SymbolicBoolean:
    """Not negative, and within the budget."""
    return both(offer >= 0, offer <= budget)


def is_fit(before: Any, after: Any) -> SymbolicBoolean:
    """Neither the tokens nor the compute budget have grown, or are negative."""
    return both(after.tokens >= 0, after.tokens <= before.tokens, after.embeds >= 0, after.embeds <= before.embeds)


def any_admission(config: Any, current: Any, request: Any) -> Any:
    """In the place of the look at grammars and adapters: either answer."""
    return any_answer()


def loading_or_denied(rules: Any, config: Any, current: Any, request: Any, prefix: Prefix) -> Any:
    """In the place of a load before the admission: the request waits on, in any state, or none is admitted any more."""
    ended: Any = integer("ended")
    return current._replace(state=current.state._replace(kv=opaque()), ended=ended)


RULES = normative.RULES._replace(
    wanted=any_wish,
    offered=any_offer,
    offered_whole=any_offer,
    may_join=any_admission,
    is_reserved=lambda config, state, request: any_answer(),
    load=loading_or_denied,
    cached_prefix=any_prefix,
    victim=any_victim,
    lose=anything_lost,
    back_in_line=line_with,
    joined=line_with,
)


# What is claimed ----------------------------------------------------------------------------------------------------

scheduled_by_itself = rounds.scheduled


def scheduled_and_judged(rules: Any, config: Any, current: Any, request: Any, start: Any, fit: Any) -> Any:
    """The only function that puts anything into a plan; what it is given is judged first."""
    demand("SCH-1", fit.tokens > 0)
    demand("SCH-1/budget", fit.tokens <= current.tokens)
    demand("SCH-4", both(fit.embeds >= 0, fit.embeds <= current.embeds))
    after = scheduled_by_itself(rules, config, current, request, start, fit)
    demand("SCH-1/budget", after.tokens == current.tokens - fit.tokens)
    return after


def planned(rules: Any, config: Any, current: Any) -> tuple[State, Outcome]:
    """In the place of the plan: what is left of both budgets is judged."""
    demand("SCH-1/budget", both(current.tokens >= 0, current.tokens <= config.token_budget))
    demand("SCH-4", both(current.embeds >= 0, current.embeds <= config.encoder_compute))
    return current.state, DONE


def count_only(rules: Any, config: Any, state: State) -> tuple[State, Outcome]:
    """In the place of a step: both counts, of any request, from anywhere, for any wish and any budget."""
    request, start, tokens, budget = any_request(config), any_count(), integer("tokens"), any_count()
    for count in (rules.offered, rules.offered_whole):
        demand("SCH-1/count", is_offer(count(config, state, request, start, tokens, budget), budget))
    return state, DONE


def pass_only(rules: Any, config: Any, state: State) -> tuple[State, Outcome]:
    """In the place of a step: one encoder pass, of any request, from anywhere."""
    closed: Any = integer("closed")
    begun = Fit(any_cache(), any_count(), any_count(), 0, (), (), closed, 0)
    demand("SCH-1/items", is_fit(begun, items.fitted(rules, config, begun, any_request(config), any_count())))
    return state, DONE


def law(name: str, statement: str) -> Law:
    """A claim that is demanded where it matters, in the middle of the step."""
    return Law(name, statement, (Schedule,), lambda move: True)


# The loops ----------------------------------------------------------------------------------------------------------


def fitting(entry: Locals, now: Locals) -> Iterable[Any]:
    """The tokens become no more and not negative, and so does the compute budget."""
    yield is_fit(entry["fit"], now["fit"])


def within_budgets(entry: Locals, now: Locals) -> Iterable[Any]:
    """Likewise what is left of the budgets of the step."""
    before, current = entry["current"], now["current"]
    yield both(current.tokens >= 0, current.tokens <= before.tokens)
    yield both(current.embeds >= 0, current.embeds <= before.embeds)


def searching(entry: Locals, now: Locals) -> Iterable[Any]:
    """Whoever is preempted for blocks: the budgets of the step stay as they are."""
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
    """Any value; what a valid configuration says of its items is assumed where one is read."""
    if kind is State:
        return any_state(name)
    value = states.fresh(kind, name)
    if kind is not Config:
        return value

    def an_item(place: Term, item: Any) -> Any:
        assume(both(item[START] >= 0, item[LENGTH] > 0))
        return item

    def a_row(place: Term, row: Any) -> Any:
        return replace(row, seen=an_item)

    def positive(place: Term, number: Any) -> Any:
        assume(number > 0)
        return number

    return value._replace(
        items=replace(value.items, seen=a_row),
        prompts=replace(value.prompts, seen=positive),
        outputs=replace(value.outputs, seen=positive),
    )


def lift(kind: Any, value: Any) -> Any:
    """A concrete state, as far as it is looked at."""
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
    """A valid configuration, and requests that it has."""
    yield both(config.block_size > 0, config.token_budget > 0, config.max_running > 0, config.ahead > 0)
    yield both(config.encoder_compute > 0, config.encoder_capacity > 0, config.max_model_len > 0)
    yield both(config.drafts >= 0, config.alignment >= 0, config.long_prefill_threshold >= 0)
    yield both(length(config.outputs) == length(config.prompts), length(config.items) == length(config.prompts))
    yield length(config.prompts) > 0


def any_request(config: Any) -> Any:
    """A request that there is; in a witness, where it is known how many there are, the first."""
    if z3.is_int_value(z3.simplify(length(config.prompts).term)):
        return 0
    request = integer("request")
    assume(both(request >= 0, request < length(config.prompts)))
    return request


def items_given(config: Any, request: Any) -> Any:
    """The items of a request; a configuration without any is one in which each has none."""
    return config.items[request]


def begun(config: Any, containers: Containers = FROZEN) -> State:
    """A request waits: the initial state of the steps in which witnesses are looked for."""
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
        (rounds, "loads_later", lambda *_: any_answer()),
        (rounds, "brings", lambda *_: any_answer()),
        (rounds, "loaded_first", lambda state: any_line()),
        (rounds, "begun_in_step", lambda config, state, request, prefix: state.transfers.remove(request)),
        (rounds, "blocks_of", any_line),
        (rounds, "left_out", left_out),
        (rounds, "known_length", any_count),
        (rounds, "length_in_sight", any_count),
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
    laws=(law("SCH-1/count", "the tokens offered to a request are between 0 and the budget"),),
    loops=(),
    replaced=(*WITHOUT_FORKS, (rounds, "run", count_only)),
)

PROOFS = (STEP, ITEMS, COUNTS)
