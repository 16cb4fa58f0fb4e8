"""The normative variant beside a trace of an era: the same calls, as far as it offers them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Any

from cacheproof.model.registry import AnyVariant
from cacheproof.model.trace import Trace, TraceStep
from cacheproof.present.show.moves import subject_of, whole_calls
from cachespec.kernel import Kind, Observation, Operation, Outcome

STATES = 200
"""The states that are looked through for one in which the next call is offered."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the normative variant does at one step of the trace: its own steps first, then the call."""

    first: tuple[Operation, ...]
    outcome: Outcome
    observations: dict[str, Observation]


@dataclass(frozen=True, slots=True)
class Beside:
    """The normative run. `turns` ends early if a call is not offered; `fork` is the first step that differs.

    `fork` is 0 if the initial states differ, and None if nothing does.
    """

    initial: dict[str, Observation]
    turns: tuple[Turn, ...]
    fork: int | None


def normative_beside(trace: Trace) -> Beside:
    """The run of the normative variant. It does what it owes, such as a join, if only then the call is offered."""
    component, config = subject_of(trace).component, trace.config
    variant, is_whole = component.normative, whole_calls(trace)
    move = variant.call if is_whole else variant.step

    def observed(state: Any) -> dict[str, Observation]:
        return dict(component.observe(config, variant.view(config, state)))

    state, turns = variant.start(config), list[Turn]()
    initial = observed(state)
    for step in trace.steps:
        way = _way_to(variant, config, state, step.operation)
        if way is None:
            break
        for operation in way:
            state, _ = move(config, state, operation)
        state, outcome = move(config, state, step.operation)
        turns.append(Turn(way, outcome, observed(state)))
    return Beside(initial, tuple(turns), _fork(trace, initial, turns))


def _fork(trace: Trace, initial: dict[str, Observation], turns: list[Turn]) -> int | None:
    if initial != trace.initial:
        return 0
    for number, (turn, step) in enumerate(zip(turns, trace.steps, strict=False), 1):
        if not _same(turn, step):
            return number
    return len(turns) + 1 if len(turns) < len(trace.steps) else None


def _same(turn: Turn, step: TraceStep) -> bool:
    return (turn.outcome, turn.observations) == (step.outcome, step.observations)


def _offered(variant: AnyVariant, config: Any, state: Any) -> list[Operation]:
    following = variant.continuation(config, state)
    known = variant.alphabet(config, state) if following is None else [following]
    return [one for one in known if type(one) in variant.transitions]


def _way_to(variant: AnyVariant, config: Any, state: Any, wanted: Operation) -> tuple[Operation, ...] | None:
    """The fewest steps of the system's own after which the call is offered; None if there are none."""
    seen, pending = {state}, deque[tuple[Any, tuple[Operation, ...]]]([(state, ())])
    for _ in range(STATES):
        if not pending:
            return None
        here, way = pending.popleft()
        offered = _offered(variant, config, here)
        if wanted in offered:
            return way
        for operation in islice((one for one in offered if one.kind is Kind.INTERNAL), STATES):
            after, _ = variant.step(config, here, operation)
            if after not in seen:
                seen.add(after)
                pending.append((after, (*way, operation)))
    return None
