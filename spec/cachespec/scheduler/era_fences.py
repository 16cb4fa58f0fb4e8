"""How 0.33.0 frees blocks that steps in flight may still write.

A load from outside is not ordered against the steps, so it could fill a block that such a step writes afterwards. With
several steps in flight, a consumer of KV therefore keeps the blocks of a request that has ended until all steps are
done that were planned before (#45357). A request in flight is not preempted for its blocks either (#49675).
"""

from __future__ import annotations

from cachespec.kernel import DONE, Outcome
from cachespec.scheduler import transfers
from cachespec.scheduler.configuration import Config, Request, is_sent
from cachespec.scheduler.era_loads import FENCED
from cachespec.scheduler.era_sessions import kept_for_next_turn
from cachespec.scheduler.era_states import marks, with_marks
from cachespec.scheduler.parts import without_blocks, without_items
from cachespec.scheduler.requests import withdrawn
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import LOADING, NO_TRANSFER, SENDING, Plan, State, Transfer

FENCES = "fences"
"""A field of the state: requests that have ended and still have blocks, by the order in which they ended."""


def is_fenced(config: Config, state: State, request: Request) -> bool:
    """Whether blocks of the request may be written by a step in flight while a load begins."""
    if config.ahead == 1 or not any(config.external):
        return False
    return any(part.request == request for plan in state.plans for part in plan.scheduled)


def left_behind_steps(rules: Table, config: Config, state: State, request: Request) -> State:
    """S3: the blocks of a finished request, unless they are sent."""
    if is_sent(config, request) or not is_fenced(config, state, request):
        return kept_for_next_turn(rules, config, state, request)
    return fenced(rules, config, state, request)


def withdrawn_behind_steps(rules: Table, config: Config, state: State, request: Request) -> State:
    """S3: the blocks of an aborted request, unless a load still writes them."""
    if transfers.phase_of(state, request) == LOADING or not is_fenced(config, state, request):
        return withdrawn(rules, config, state, request)
    return fenced(rules, config, state, request)


def fenced(rules: Table, config: Config, state: State, request: Request) -> State:
    """SCH-5: the request holds its blocks until the steps that are in flight now are done, and no item."""
    steps, ranks = sum(1 for plan in state.plans if plan.scheduled), marks(state, FENCES)
    last = max((rank for _, rank in ranks.items()), default=0)
    state = with_marks(state, FENCES, ranks.set(request, last + 1))
    state = state._replace(transfers=state.transfers.set(request, Transfer(FENCED, steps)))
    return without_items(rules, config, state, request)


def finish_send(rules: Table, config: Config, state: State, request: Request) -> tuple[State, Outcome]:
    """S3: the blocks of a request that is finished behind its last output are freed behind its steps in flight."""
    if transfers.phase_of(state, request) != SENDING or not is_fenced(config, state, request):
        return transfers.finish_send(rules, config, state, request)
    return fenced(rules, config, state, request), DONE


def freed_behind(rules: Table, config: Config, state: State, plan: Plan) -> State:
    """S3: the step of this plan is done. Blocks are freed in the order in which their requests ended."""
    if not plan.scheduled:
        return state
    ranks = marks(state, FENCES)
    for request, _ in sorted(ranks.items(), key=lambda fence: fence[1]):
        steps = state.transfers.get(request, NO_TRANSFER).tokens - 1
        if steps > 0:
            state = state._replace(transfers=state.transfers.set(request, Transfer(FENCED, steps)))
            continue
        state = with_marks(state, FENCES, marks(state, FENCES).remove(request))
        state = without_blocks(rules, config, state._replace(transfers=state.transfers.remove(request)), request)
    return state
