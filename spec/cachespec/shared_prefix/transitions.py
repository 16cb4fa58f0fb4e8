"""One step of a scheduler, as small as the question allows.

The question is what happens to a request that finds its prefix cached, and begins inside an item whose encoder output
is not. Its start is a multiple of the block size, and at least one block is computed anew. Left out: decoding, which
takes a token of each running request; preemption; and memory for blocks. A step is scheduled and executed at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cachespec import encoder_cache
from cachespec.encoder_cache.operations import (
    ENCODER,
    Abandon,
    Allocate,
    CanAllocate,
    CheckAndUpdate,
    FreeInput,
    FreeRequest,
    Report,
)
from cachespec.kernel import ABSENT, DONE, PRESENT, Code, Containers, Operation, Outcome, Transitions, Variant
from cachespec.shared_prefix.configuration import Config, Request, encoder_config, items_of, length_of
from cachespec.shared_prefix.operations import Add, Finish, Step
from cachespec.shared_prefix.state import GONE, NEW, RUNNING, WAITING, State

Result = tuple[Any, Outcome]


class Rules(NamedTuple):
    """Where variants differ."""

    budgets: Callable[[Config], tuple[int, int]]
    """Compute and space."""
    blocked: Callable[[int, int], int]
    """`(start of an item without room, computed) -> tokens`: what is scheduled instead."""
    encoder: Variant[encoder_cache.Config, Any, Any]
    at_schedule: int
    """1: a block is in the prefix cache as soon as it is scheduled. 0: when it is written, at the end of the step."""


class Plan(NamedTuple):
    """A step in the making."""

    state: Any
    tokens: int
    """Left in this step."""
    compute: int
    """Encoder compute budget left in this step."""
    scheduled: tuple[int, ...] = ()
    """Request, tokens, request, tokens."""
    stopped: int = 0
    """1: no request is admitted in this step any more."""


def changed(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    """With another value at this place."""
    return (*values[:place], value, *values[place + 1 :])


def ask(config: Config, rules: Rules, state: Any, operation: Operation) -> tuple[Any, Outcome]:
    """One call of the encoder cache manager."""
    encoder, outcome = rules.encoder.step(encoder_config(config, rules.budgets(config)[1]), state.encoder, operation)
    return state._replace(encoder=encoder), outcome


# One request --------------------------------------------------------------------------------------------------------


def window(config: Config, rules: Rules, plan: Plan, request: Request, start: int, tokens: int) -> tuple[Plan, int]:
    """The encoder pass: how many of the tokens can be scheduled, with the items in them found or given room."""
    pending = 0
    granted: tuple[int, ...] = ()
    state, compute = plan.state, plan.compute
    for position, (_, begin, end) in enumerate(items_of(config, request)):
        if begin < start + tokens and end > start:
            state, found = ask(config, rules, state, CheckAndUpdate(request, position))
            if found.code is not Code.HIT:
                size = end - begin
                state, answer = ask(config, rules, state, CanAllocate(request, position, compute, pending))
                if size > compute or answer.code is not Code.DONE:
                    tokens = rules.blocked(begin, start)
                else:
                    granted, pending, compute = (*granted, position), pending + size, compute - size
    if tokens == 0:
        state, _ = ask(config, rules, state, Abandon(request, ENCODER))
        return plan._replace(state=state), 0
    for position in granted:
        state, _ = ask(config, rules, state, Allocate(request, position))
    return plan._replace(state=state, compute=compute), tokens


def schedule(config: Config, rules: Rules, plan: Plan, request: Request, start: int, tokens: int) -> Plan:
    """Adds tokens of the request to the step."""
    state = plan.state._replace(computed=changed(plan.state.computed, request, start + tokens))
    plan = plan._replace(
        state=state,
        tokens=plan.tokens - tokens,
        scheduled=(*plan.scheduled, request, tokens),
    )
    return plan._replace(state=cached(config, state, request)) if rules.at_schedule else plan


def cached(config: Config, state: Any, request: Request) -> Any:
    """The full blocks of what is computed are in the prefix cache."""
    prompt = config.requests[request]
    blocks = state.computed[request] // config.block_size
    return state._replace(reach=changed(state.reach, prompt, max(state.reach[prompt], blocks * config.block_size)))


def cached_prefix(config: Config, state: Any, request: Request) -> int:
    """Where the request begins: at least its last block is computed anew, because its end is needed."""
    reach: int = state.reach[config.requests[request]]
    return reach if reach < length_of(config, request) else reach - config.block_size


# One step -----------------------------------------------------------------------------------------------------------


def step_by(config: Config, state: Any, rules: Rules) -> Result:
    """Running requests in their order, then waiting ones; then all that was scheduled is executed."""
    plan = Plan(state, config.batch_tokens, rules.budgets(config)[0])
    for request in state.running:
        plan = run(config, rules, plan, request)
    for request in state.waiting:
        plan = admit(config, rules, plan, request)
    after = executed(config, rules, plan)
    return after, Outcome(Code.DONE, plan.scheduled)


def run(config: Config, rules: Rules, plan: Plan, request: Request) -> Plan:
    """A running request gets what is left of its prompt, as far as the step and the encoder allow."""
    start = plan.state.computed[request]
    tokens = min(length_of(config, request) - start, plan.tokens)
    if tokens <= 0:
        return plan
    plan, tokens = window(config, rules, plan, request, start, tokens)
    return schedule(config, rules, plan, request, start, tokens) if tokens != 0 else plan


def admit(config: Config, rules: Rules, plan: Plan, request: Request) -> Plan:
    """The next waiting request runs, from the end of its cached prefix on. No request overtakes."""
    start = cached_prefix(config, plan.state, request)
    tokens = min(length_of(config, request) - start, plan.tokens)
    if plan.stopped or tokens <= 0 or plan.state.status.count(RUNNING) == config.sequences:
        return plan._replace(stopped=1)
    plan, tokens = window(config, rules, plan, request, start, tokens)
    if tokens == 0:
        return plan._replace(stopped=1)
    state = plan.state._replace(
        waiting=plan.state.waiting[1:],
        running=(*plan.state.running, request),
        status=changed(plan.state.status, request, RUNNING),
    )
    return schedule(config, rules, plan._replace(state=state), request, start, tokens)


def executed(config: Config, rules: Rules, plan: Plan) -> Any:
    """Blocks are written, and items that lie behind a request are released."""
    state = plan.state
    for request in plan.scheduled[::2]:
        state = cached(config, state, request)
        for position, (_, _, end) in enumerate(items_of(config, request)):
            if end <= state.computed[request]:
                state = released(config, rules, state, request, position)
    return ask(config, rules, state, Report())[0]


def released(config: Config, rules: Rules, state: Any, request: Request, position: int) -> Any:
    """Only what the request has: the manager is not asked to release anything else."""
    held = ask(config, rules, state, encoder_cache.CachedInputs(request))[1].values
    return ask(config, rules, state, FreeInput(request, position))[0] if position in held else state


# Calls --------------------------------------------------------------------------------------------------------------


def add(config: Config, state: Any, op: Add) -> Result:
    """It waits behind the others."""
    if state.status[op.request] != NEW:
        return state, PRESENT
    status = changed(state.status, op.request, WAITING)
    return state._replace(waiting=(*state.waiting, op.request), status=status), DONE


def finish_by(config: Config, state: Any, op: Finish, rules: Rules) -> Result:
    """It holds nothing any more. Its blocks stay in the prefix cache."""
    if state.status[op.request] not in (WAITING, RUNNING):
        return state, ABSENT
    state, _ = ask(config, rules, state, FreeRequest(op.request))
    return state._replace(
        waiting=tuple(request for request in state.waiting if request != op.request),
        running=tuple(request for request in state.running if request != op.request),
        status=changed(state.status, op.request, GONE),
        computed=changed(state.computed, op.request, 0),
    ), DONE


def initial_by(config: Config, containers: Containers, rules: Rules, kind: type[Any] = State) -> Any:
    """No request has arrived, and no block is cached."""
    nobody = tuple(0 for _ in config.requests)
    space = rules.budgets(config)[1]
    return kind(
        waiting=(),
        running=(),
        status=nobody,
        computed=nobody,
        reach=tuple(0 for _ in config.prompts),
        encoder=rules.encoder.initial(encoder_config(config, space), containers),
    )


# The normative rules ------------------------------------------------------------------------------------------------


def largest(config: Config) -> int:
    """Tokens of the largest item; 1 where there is none."""
    return max((end - start for items in config.items for _, start, end in items), default=1)


def step_and_item(config: Config) -> tuple[int, int]:
    """As `encoder_budget` has it: whichever is larger."""
    size = max(config.batch_tokens, largest(config))
    return size, size


def up_to_the_item(start: int, computed: int) -> int:
    """SCH-1, X-2: what lies before the item; nothing, where the request is at the item already or inside (C-SCH-1)."""
    return max(0, start - computed)


NORMATIVE_RULES = Rules(step_and_item, up_to_the_item, encoder_cache.NORMATIVE_ENCODER_CACHE, at_schedule=0)


def step(config: Config, state: State, op: Step) -> Result:
    """SCH-1: every count is positive, whatever the encoder has room for; how large the budgets are does not matter."""
    return step_by(config, state, NORMATIVE_RULES)


def finish(config: Config, state: State, op: Finish) -> Result:
    """The request is gone."""
    return finish_by(config, state, op, NORMATIVE_RULES)


def initial(config: Config, containers: Containers) -> State:
    """No request has arrived, and no block is cached."""
    state: State = initial_by(config, containers, NORMATIVE_RULES)
    return state


TRANSITIONS: Transitions[Config, Any] = {Add: add, Step: step, Finish: finish}
