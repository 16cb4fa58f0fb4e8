"""Places that are kept for output on its way, as 0.11.0 counts them (`num_output_placeholders`).

Only its asynchronous scheduler does. One place is kept when a plan is made, and given up when its output arrives; an
assertion says that there was one. The engine does not outlive that assertion: nothing happens any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from cachespec.kernel import FAILED, Operation, Outcome, Transition, Transitions
from cachespec.scheduler import era_rules, requests
from cachespec.scheduler.configuration import Config, Request, is_asynchronous
from cachespec.scheduler.counts import known_length
from cachespec.scheduler.environment import calls
from cachespec.scheduler.era_states import marks, with_marks
from cachespec.scheduler.rules import Executed, Table
from cachespec.scheduler.state import Scheduled, State

Op = TypeVar("Op", bound=Operation)

PLACEHOLDERS, DEAD = "placeholders", "dead"
"""Fields of the state: how many places each request has; and whose output had none."""


def placeholders_of(state: State, request: Request) -> int:
    """How many are kept for the request."""
    return marks(state, PLACEHOLDERS).get(request, 0)


def with_placeholders(state: State, request: Request, count: int) -> State:
    """With this count; no entry if it is 0."""
    placeholders = marks(state, PLACEHOLDERS)
    return with_marks(state, PLACEHOLDERS, placeholders.set(request, count) if count else placeholders.remove(request))


def is_dead(state: State) -> bool:
    """Whether the assertion has failed."""
    return any(True for _ in marks(state, DEAD).items())


def wanted_up_to_model(config: Config, state: State, request: Request, start: int) -> int:
    """S2: up to the length of the model. An asynchronous step beyond the last output is scheduled, and ignored."""
    end = known_length(config, state, request) + placeholders_of(state, request) + state.proposed.get(request, 0)
    return min(end, config.max_model_len - 1) - start


def kept_where_counted(rules: Table, config: Config, state: State, part: Scheduled) -> State:
    """S2: items are released at once; a place is kept where all that is known counts as computed.

    C-SCH-14: a request preempted in the same round counts from 0, so it gets no placeholder, yet its output arrives.
    """
    state = era_rules.released_at_once(rules, config, state, part)
    placeholders = placeholders_of(state, part.request)
    known = known_length(config, state, part.request)
    if not is_asynchronous(config) or state.computed.get(part.request, 0) != known + placeholders:
        return state
    return with_placeholders(state, part.request, placeholders + 1)


def executed_with_place(rules: Table, config: Config, state: State, part: Scheduled, accepted: int) -> State:
    """S2: nothing is left to release; output in flight of a preempted request is delivered."""
    if part.void or state.gone.has(part.request) or is_dead(state):
        return state
    placeholders = placeholders_of(state, part.request) - (part.samples if is_asynchronous(config) else 0)
    if placeholders < 0:
        return with_marks(state, DEAD, marks(state, DEAD).set(part.request, 1))
    return era_rules.executed_behind(
        rules, config, with_placeholders(state, part.request, placeholders), part, accepted, placeholders
    )


def asserting_positive(executed: Executed) -> Executed:
    """S2b: an assertion says that each count of an executed plan is positive, and ends the engine if not (SCH-1)."""

    def asserted(rules: Table, config: Config, state: State, part: Scheduled, accepted: int) -> State:
        if part.tokens > 0 or is_dead(state):
            return executed(rules, config, state, part, accepted)
        return with_marks(state, DEAD, marks(state, DEAD).set(part.request, 1))

    return asserted


def ended_by_assertion(transitions: Transitions[Config, State]) -> Transitions[Config, State]:
    """C-SCH-14: the transitions of an engine that does not outlive it; each later call fails."""
    return {kind: while_alive(transition) for kind, transition in transitions.items()}


def while_alive(transition: Transition[Config, State, Op]) -> Transition[Config, State, Op]:
    """What the call has done until the assertion failed is lost with the engine."""

    def called(config: Config, state: State, op: Op) -> tuple[State, Outcome]:
        if is_dead(state):
            return state, FAILED
        after, outcome = transition(config, state, op)
        return (with_marks(state, DEAD, marks(after, DEAD)), FAILED) if is_dead(after) else (after, outcome)

    return called


def calls_of_the_living(config: Config, state: State) -> Iterable[Operation]:
    """Nothing happens to an engine that is dead."""
    return () if is_dead(state) else calls(config, state)


def leave(rules: Table, config: Config, state: State, request: Request) -> State:
    """No place is kept for a request that is gone."""
    return with_placeholders(requests.leave(rules, config, state, request), request, 0)
