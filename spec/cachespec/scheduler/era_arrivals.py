"""With priorities, the released schedulers order equals by arrival, preempted requests included."""

from __future__ import annotations

from typing import TypeVar

from cachespec.kernel import Code, Map, Operation, Outcome, Transition, Transitions
from cachespec.scheduler.configuration import FIRST_COME, Config, Request, is_turn, priority_of
from cachespec.scheduler.era_states import marks, with_marks
from cachespec.scheduler.operations import Add, ResetRunning
from cachespec.scheduler.round_state import Round
from cachespec.scheduler.rounds import preempt
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import State

Op = TypeVar("Op", bound=Operation)

ARRIVED = "arrived"
"""A field of the state: requests that are there, and the rank of each among those that have come. Empty where
priorities do not count."""


def rank_of(config: Config, state: State, request: Request) -> tuple[int, int]:
    """The request with the lower rank is served first and preempted last."""
    return priority_of(config, request), marks(state, ARRIVED).get(request, 0)


def least_important(config: Config, state: State) -> Request:
    """S2, S3: of those with the least important priority who came last; without priorities, who runs last."""
    if config.policy == FIRST_COME:
        return state.running[-1]
    return max(state.running, key=lambda request: rank_of(config, state, request))


def preempt_by_arrival(rules: Table, config: Config, current: Round, victim: Request) -> Round:
    """C-SCH-8: with priorities, those of its own that came before it and wait are admitted before it."""
    current = preempt(rules, config, current, victim)
    if config.policy == FIRST_COME:
        return current
    return current._replace(state=in_order(config, current.state))


def in_order(config: Config, state: State) -> State:
    """With the waiting requests by rank."""
    line = sorted(state.waiting, key=lambda request: rank_of(config, state, request))
    return state._replace(waiting=tuple(line))


def with_arrivals(transitions: Transitions[Config, State]) -> Transitions[Config, State]:
    """The transitions with a rank for each request that comes, and none for those that are gone."""
    return {kind: keeping_ranks(transition) for kind, transition in transitions.items()}


def keeping_ranks(transition: Transition[Config, State, Op]) -> Transition[Config, State, Op]:
    """One of them."""

    def called(config: Config, state: State, op: Op) -> tuple[State, Outcome]:
        after, outcome = transition(config, state, op)
        if config.policy == FIRST_COME:
            return after, outcome
        ranks = marks(after, ARRIVED)
        if isinstance(op, Add) and outcome.code is Code.DONE:
            ranks = ranks.set(op.request, 1 + max((rank for _, rank in ranks.items()), default=0))
        after = with_marks(after, ARRIVED, left(ranks, after))
        moved = isinstance(op, ResetRunning) or (isinstance(op, Add) and is_turn(config, op.request))
        return (in_order(config, after) if moved else after), outcome

    return called


def left(ranks: Map[Request, int], state: State) -> Map[Request, int]:
    """The ranks of those that are not gone."""
    for request, _ in tuple(ranks.items()):
        if state.gone.has(request):
            ranks = ranks.remove(request)
    return ranks
