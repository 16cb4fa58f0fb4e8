"""How 0.20.2 and 0.33.0 keep a session between two turns: it stays where it is, with its blocks and its items.

C-SCH-26: nothing takes these blocks from it, neither while it waits for input nor while its next turn waits to be
admitted. Plans that are made ahead of the output of a turn's end are not modelled.
"""

from __future__ import annotations

from cachespec.encoder_cache.era_shared import taken_over as items_taken_over
from cachespec.kv_blocks.handing_over import taken_over as blocks_taken_over
from cachespec.scheduler.configuration import Config, Request, later_turns
from cachespec.scheduler.era_loads import READY
from cachespec.scheduler.era_readiness import among_skipped, among_skipped_with_grammar
from cachespec.scheduler.requests import leave
from cachespec.scheduler.requests import next_turn as turn_begun
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import KEPT, NO_TRANSFER, State, Transfer


def kept_for_next_turn(rules: Table, config: Config, state: State, request: Request) -> State:
    """The blocks, the items and the computed tokens of a finished turn are those of the next one."""
    if not goes_on(config, request):
        return leave(rules, config, state, request)
    turn = request + 1
    return state._replace(
        kv=blocks_taken_over(state.kv, request, turn),
        encoder=items_taken_over(state.encoder, request, turn),
        transfers=state.transfers.set(turn, Transfer(KEPT, state.computed.get(request, 0))),
    )


def goes_on(config: Config, request: Request) -> bool:
    """Whether the session has a further turn."""
    return len(later_turns(config, request)) > 0


def resumed(state: State, turn: Request) -> State:
    """The turn has its input: it waits with what the session has computed."""
    kept = state.transfers.get(turn, NO_TRANSFER)
    if kept.phase != KEPT:
        return state
    return state._replace(transfers=state.transfers.set(turn, kept._replace(phase=READY)))


def next_turn(rules: Table, config: Config, state: State, request: Request) -> State:
    """The workers are not told of the end of a turn, if another one may come."""
    if not goes_on(config, request):
        return state
    state = turn_begun(rules, config, state, request)._replace(leaving=state.leaving.remove(request))
    return resumed(state, request + 1) if any(turn == request + 1 for turn in state.waiting) else state


def queued_again(config: Config, state: State, request: Request) -> State:
    """S3: an arrival; a turn whose session waited for it goes on."""
    return resumed(state, request)


def queued_among_skipped(config: Config, state: State, request: Request) -> State:
    """S2b: an arrival with a grammar to compile, or a turn whose session waits for it, begins in the first queue."""
    kept = state.transfers.get(request, NO_TRANSFER).phase == KEPT
    skipped = among_skipped_with_grammar(config, state, request)
    return resumed(among_skipped(config, skipped, request), request) if kept else skipped


def idle_sessions(state: State) -> int:
    """The sessions that wait for input."""
    return sum(1 for _, transfer in state.transfers.items() if transfer.phase == KEPT)
