"""Places that 0.20.2 and 0.33.0 keep for output that never comes (C-SCH-36).

A load that fails in its step drops the output of every request that has a failed block. The asynchronous scheduler
keeps the places that it made for that output (`num_output_placeholders`). From then on such a request counts as longer
than it is. Its next step computes a token that was never sampled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cachespec.kernel import Operation, Outcome, Transition, Transitions
from cachespec.scheduler.configuration import Config, Request, is_asynchronous
from cachespec.scheduler.counts import length_in_sight, promised
from cachespec.scheduler.era_states import marks, with_marks
from cachespec.scheduler.state import Scheduled, State

Op = TypeVar("Op", bound=Operation)
Keeps = Callable[[State, Request], bool]
"""Whether the places of a request are still kept."""

UNANSWERED = "unanswered"
"""A field of the state: requests, and how many places each has for output that was dropped."""


def unanswered(state: State, request: Request) -> int:
    """How many places the request has for output that was dropped."""
    return marks(state, UNANSWERED).get(request, 0)


def without_answer(config: Config, state: State, part: Scheduled) -> State:
    """The state after the output of this part was dropped."""
    places = part.samples + part.drafts
    if not is_asynchronous(config) or places == 0:
        return state
    count = unanswered(state, part.request) + places
    return with_marks(state, UNANSWERED, marks(state, UNANSWERED).set(part.request, count))


def awaited(config: Config, state: State, request: Request) -> int:
    """Output for which the asynchronous scheduler keeps a place. No other scheduler does."""
    return promised(config, state, request) + unanswered(state, request) if is_asynchronous(config) else 0


def in_sight(config: Config, state: State, request: Request) -> int:
    """The request's tokens, and the places that are kept for output."""
    return length_in_sight(config, state, request) + unanswered(state, request)


def runs(state: State, request: Request) -> bool:
    """S3: a preempted request has no places."""
    return state.computed.has(request)


def is_not_gone(state: State, request: Request) -> bool:
    """S2b: a preempted request keeps its places."""
    return not state.gone.has(request)


def while_kept(keeps: Keeps, transitions: Transitions[Config, State]) -> Transitions[Config, State]:
    """The transitions of a scheduler that keeps places as long as this says."""
    return {kind: giving_up(keeps, transition) for kind, transition in transitions.items()}


def giving_up(keeps: Keeps, transition: Transition[Config, State, Op]) -> Transition[Config, State, Op]:
    """One of them."""

    def called(config: Config, state: State, op: Op) -> tuple[State, Outcome]:
        after, outcome = transition(config, state, op)
        kept = marks(after, UNANSWERED)
        for request, _ in tuple(kept.items()):
            kept = kept if keeps(after, request) else kept.remove(request)
        return with_marks(after, UNANSWERED, kept), outcome

    return called
