"""Any state of a scheduler as the proof of `requests.py` sees it, and what is assumed of a valid call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.executor import (
    Term,
    both,
    implies,
    integer_term,
)
from cacheproof.prove.scheduler.caches import Blocks, Items
from cacheproof.prove.scheduler.life import (
    is_a_turn,
    of_each,
)
from cacheproof.prove.scheduler.queues import Flight, Members, SymbolicLine
from cacheproof.prove.scheduler.stand_ins import opaque, with_valid_items
from cacheproof.prove.sequences import length
from cacheproof.prove.shapes import INTEGER, shape_of
from cachespec.kernel.names import hints_of
from cachespec.scheduler import (
    counts,
)
from cachespec.scheduler.configuration import SWITCHES, Config
from cachespec.scheduler.operations import FailLoad, FailStep, Update
from cachespec.scheduler.state import State, Transfer

HINTS = hints_of(State)

MAPS = ("computed", "produced", "proposed", "compiling", "queued", "gone", "leaving", "transfers", "remote")
IN_ROUNDS_UNTOUCHED = ("produced", "compiling", "queued", "gone", "leaving", "remote")
"""What no round changes before its plan is made."""


promised_by_itself = counts.promised

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
    aborts=1,
    resets=1,
    grammars=(0, 1),
)


def a_map(part: str, name: str) -> Any:
    """Any map of the state; its numbers may be negative as far as this proof knows."""
    value = INTEGER if part != "transfers" else shape_of(Transfer)
    return states.fresh_map(INTEGER, value, f"{name}.{part}", counted=False)


def any_state(name: str, flight: Any = Flight) -> State:
    """Any queues, numbers and holders, and any plans of this kind."""
    maps: dict[str, Any] = {part: a_map(part, name) for part in MAPS}
    return State(
        kv=any_blocks(),  # type: ignore[arg-type]  # a stand-in
        encoder=any_items(),  # type: ignore[arg-type]  # likewise
        waiting=SymbolicLine.fresh(f"{name}.waiting"),  # type: ignore[arg-type]  # likewise
        running=SymbolicLine.fresh(f"{name}.running"),  # type: ignore[arg-type]  # likewise
        plans=flight.fresh(f"{name}.plans"),
        worker=opaque(),
        **maps,
    )


def any_blocks() -> Blocks:
    """Any request may hold blocks."""
    return Blocks(Members.fresh("blocks"))


def any_items() -> Items:
    """Any request may hold items."""
    return Items(Members.fresh("kept"), Members.fresh("pinned"))


def fresh(kind: Any, name: str) -> Any:
    """Any value; each item, prompt or output that is read meets the rules of a valid configuration."""
    if kind is State:
        return any_state(name)
    value = states.fresh(kind, name)
    if kind is not Config:
        return value

    return with_valid_items(value)


def lift(kind: Any, value: Any) -> Any:
    """A concrete state, as this proof sees it."""
    if kind is not State:
        return states.lift(kind, value)
    lifted: dict[str, Any] = {}
    for part in MAPS:
        given = getattr(value, part)
        one = given if hasattr(given, "members") else states.lift(HINTS[part], given)
        lifted[part] = replace(one, counted=False)
    if type(value.kv) is Blocks:
        return value._replace(waiting=SymbolicLine.of(()), running=SymbolicLine.of(()), plans=no_plans(), **lifted)
    held, attempted = (dict(part.items()) for part in (value.encoder.held, value.encoder.attempted))
    parts: dict[str, Any] = {
        "kv": Blocks(members_of(request for (request, _), _ in value.kv.tables.items())),
        "encoder": Items(
            members_of(request for request, item in held if (request, item) not in attempted),
            members_of(request for request, item in held if (request, item) in attempted),
        ),
        "waiting": SymbolicLine.of(value.waiting),
        "running": SymbolicLine.of(value.running),
        "plans": Flight.of(
            value.plans,
            lambda request: promised_by_itself(SMALL, value, request),
            max((*value.waiting, *value.running), default=-1) + 1,
        ),
        "worker": opaque(),
    }
    return State(**parts, **lifted)


def no_plans() -> Flight:
    """None is in flight."""
    return Flight.of((), lambda request: 0, 0)


def members_of(several: Iterable[int]) -> Members:
    """These requests."""
    members = Members.of(())
    for request in several:
        members = members.joined(request)
    return replace(members, newest=None)


def environment(config: Any, operation: Any) -> Iterable[Any]:
    """The configuration is valid, and the call names a request that there is and needs no setting that is off."""
    several = length(config.prompts)
    yield both(config.block_size > 0, config.token_budget > 0, config.max_running > 0, config.ahead > 0)
    yield both(config.encoder_compute > 0, config.encoder_capacity > 0, config.max_model_len > 0)
    yield both(config.drafts >= 0, config.alignment >= 0, config.long_prefill_threshold >= 0, several > 0)
    yield both(True, *(both(getattr(config, name) >= 0, getattr(config, name) <= 1) for name in SWITCHES))
    yield both(length(config.outputs) == several, length(config.items) == several)
    for name in (
        "priorities",
        "external",
        "loads_later",
        "sends",
        "stops",
        "min_tokens",
        "adapters",
        "grammars",
        "turns",
    ):
        given = length(getattr(config, name))
        yield both(given == several) | both(given == 0)
    yield of_each(lambda request: numbers_are_valid(config, request))
    yield implies(config.load_failures != 0, length(config.turns) == 0)
    yield implies(config.pooling == 1, config.drafts == 0)
    if hasattr(operation, "request"):
        yield both(operation.request >= 0, operation.request < several)
    if type(operation) in (FailLoad, FailStep):
        yield both(config.load_failures == 1, operation.blocks >= 0)
    if type(operation) is Update:
        yield both(operation.accepted >= 0)


def numbers_are_valid(config: Any, request: Term) -> Term:
    """Prompts and outputs have a token, nothing is negative, and the first request is no turn."""
    exists = z3.And(request >= 0, request < config.prompts.length)
    positive = [part.items[request] > 0 for part in (config.prompts, config.outputs)]
    numbers = [part.items[request] >= 0 for part in (config.stops, config.min_tokens)]
    pooled = z3.Implies(integer_term(config.pooling) == 1, config.outputs.items[request] == 1)
    first = z3.Not(is_a_turn(config, z3.IntVal(0)))
    return z3.Implies(exists, z3.And(*positive, *numbers, pooled, first))
