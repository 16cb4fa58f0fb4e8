"""Which waiting requests may join in the released schedulers, and where those wait that were passed over."""

from __future__ import annotations

from typing import TypeVar

from cachespec.kernel import Map, Operation, Outcome, Transition, Transitions
from cachespec.scheduler.configuration import (
    FIRST_COME,
    Config,
    Request,
    ended_length,
    first_turn,
    is_turn,
    least_output,
)
from cachespec.scheduler.era_placeholders import DEAD
from cachespec.scheduler.era_states import marks, with_marks
from cachespec.scheduler.readiness import adapter_fits, adapters_of, is_compiled, is_loading
from cachespec.scheduler.round_state import Round
from cachespec.scheduler.rules import Phase, Table
from cachespec.scheduler.state import Line, State

Op = TypeVar("Op", bound=Operation)

SKIPPED = "skipped"
"""A field of the state: waiting requests that were passed over, or arrived with a grammar to compile; each 1."""


def may_join_scheduled(config: Config, current: Round, request: Request) -> bool:
    """S1, S2, S2b. SCH-12: running requests that get nothing in this step do not count (C-SCH-18)."""
    state = current.state
    return (
        is_compiled(state, request)
        and not is_loading(state, request)
        and adapter_fits(config, request, scheduled_in(current))
    )


def scheduled_in(current: Round) -> Line:
    """The running requests that are scheduled in this step."""
    running = current.state.running
    return tuple(part.request for part in current.scheduled if any(part.request == other for other in running))


def stopped_by_adapter(rules: Table, config: Config, current: Round, request: Request) -> Round:
    """S1: no request behind it is considered."""
    return current._replace(ended=1)


def asserting_adapters(admit: Phase) -> Phase:
    """C-SCH-18: an assertion says that the adapters of the step are few enough, and ends the engine if not."""

    def admitted(rules: Table, config: Config, current: Round) -> Round:
        scheduled = scheduled_in(current)
        if len(adapters_of(config, scheduled)) <= config.max_adapters:
            return admit(rules, config, current)
        dead = marks(current.state, DEAD).set(scheduled[0], 1)
        return current._replace(state=with_marks(current.state, DEAD, dead), ended=1)

    return admitted


def skipped(rules: Table, config: Config, current: Round, request: Request) -> Round:
    """S2b: the request changes to a queue that is served before the others (C-SCH-19)."""
    return current._replace(state=among_skipped(config, current.state, request))


def among_skipped_with_grammar(config: Config, state: State, request: Request) -> State:
    """S2b: an arrival whose grammar is to be compiled begins in that queue (C-SCH-19)."""
    return among_skipped(config, state, request) if state.compiling.has(request) else state


def among_skipped(config: Config, state: State, request: Request) -> State:
    """With the request in that queue. With priorities, the first of both queues is the next."""
    if config.policy != FIRST_COME:
        return state
    return with_marks(state, SKIPPED, marks(state, SKIPPED).set(request, 1))


def with_skipped_first(transitions: Transitions[Config, State]) -> Transitions[Config, State]:
    """S2b: the transitions of a scheduler with two waiting queues, shown as one in the order of service."""
    return {kind: keeping_queues(transition) for kind, transition in transitions.items()}


def keeping_queues(transition: Transition[Config, State, Op]) -> Transition[Config, State, Op]:
    """One of them. C-SCH-19: preempted requests, and those without a grammar, wait behind."""

    def called(config: Config, state: State, op: Op) -> tuple[State, Outcome]:
        after, outcome = transition(config, state, op)
        names = still_waiting(marks(after, SKIPPED), after)
        first = tuple(request for request in after.waiting if names.has(request))
        others = tuple(request for request in after.waiting if not names.has(request))
        return with_marks(after, SKIPPED, names)._replace(waiting=(*first, *others)), outcome

    return called


def still_waiting(names: Map[Request, int], state: State) -> Map[Request, int]:
    """Those that have not been admitted or aborted."""
    for request, _ in tuple(names.items()):
        if not any(request == other for other in state.waiting):
            names = names.remove(request)
    return names


def ended_after_least(config: Config, request: Request) -> int:
    """S2b. C-SCH-20: before `min_tokens` the model's length ends nothing, and no further token is computed."""
    if is_turn(config, request):
        most = config.prompts[request] + config.outputs[first_turn(config, request)]
        return min(ended_length(config, request), most)
    return max(ended_length(config, request), config.prompts[request] + least_output(config, request))
