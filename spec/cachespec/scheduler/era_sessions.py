"""How 0.20.2 and 0.33.0 keep a session between two turns: it stays where it is, with its blocks and its items.

C-SCH-26: nothing takes these blocks from it, neither while it waits for input nor while its next turn waits to be
admitted. C-SCH-39: where 0.20.2 has planned a step beyond the end of a turn, S2b does not follow it.
"""

from __future__ import annotations

from typing import cast

from cachespec.encoder_cache import Cache, CacheByModel
from cachespec.encoder_cache.era_shared import taken_over as items_taken_over
from cachespec.kernel import Map
from cachespec.kv_blocks.handing_over import taken_over as blocks_taken_over
from cachespec.scheduler.configuration import FIRST_COME, Config, Request, is_turn, kept_tokens, later_turns
from cachespec.scheduler.era_arrivals import in_order
from cachespec.scheduler.era_loads import READY
from cachespec.scheduler.era_readiness import among_skipped, among_skipped_with_grammar
from cachespec.scheduler.era_rules import shorter_than_model
from cachespec.scheduler.era_states import marks, with_marks
from cachespec.scheduler.requests import leave
from cachespec.scheduler.requests import next_turn as turn_begun
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import KEPT, NO_TRANSFER, State, Transfer

IDLE = "idle"
"""A field of the state: the next turns of sessions, by the order in which the turns before them have ended."""


def input_is_shorter_than_model(config: Config, request: Request) -> bool:
    """C-SCH-28: of a turn, only the new input is looked at, and not what the session has before it."""
    if not is_turn(config, request):
        return shorter_than_model(config, request)
    return config.prompts[request] - kept_tokens(config, request - 1) < config.max_model_len


def kept_for_next_turn(rules: Table, config: Config, state: State, request: Request) -> State:
    """The blocks, the items and the computed tokens of a finished turn are those of the next one.

    Drafts that were accepted beyond the turn's last output are not tokens of the session.
    """
    if not goes_on(config, request):
        return leave(rules, config, state, request)
    turn, computed = request + 1, min(state.computed.get(request, 0), kept_tokens(config, request))
    encoder = cast("CacheByModel", state.encoder)
    items = encoder._replace(shared=items_taken_over(encoder.shared, request, turn))
    ranks = still_idle(state)
    state = with_marks(state, IDLE, ranks.set(turn, 1 + max((rank for _, rank in ranks.items()), default=0)))
    return state._replace(
        kv=blocks_taken_over(state.kv, request, turn),
        encoder=cast("Cache", items),
        transfers=state.transfers.set(turn, Transfer(KEPT, computed)),
    )


def still_idle(state: State) -> Map[Request, int]:
    """The ranks of turns that have not been admitted."""
    ranks = marks(state, IDLE)
    for turn, _ in tuple(ranks.items()):
        if not state.transfers.has(turn):
            ranks = ranks.remove(turn)
    return ranks


def goes_on(config: Config, request: Request) -> bool:
    """Whether the session has a further turn."""
    return len(later_turns(config, request)) > 0


def resumed(state: State, turn: Request) -> State:
    """The turn has its input: it waits with what the session has computed, in the order in which turns ended."""
    kept, ranks = state.transfers.get(turn, NO_TRANSFER), marks(state, IDLE)
    if kept.phase != KEPT:
        return state
    later = tuple(other for other in state.waiting if ranks.get(other, 0) > ranks.get(turn, 0))
    first = tuple(other for other in state.waiting if other != turn and ranks.get(other, 0) <= ranks.get(turn, 0))
    return state._replace(
        waiting=(*first, turn, *later), transfers=state.transfers.set(turn, kept._replace(phase=READY))
    )


def next_turn(rules: Table, config: Config, state: State, request: Request) -> State:
    """The workers are not told of the end of a turn, if another one may come."""
    if not goes_on(config, request):
        return state
    state = turn_begun(rules, config, state, request)._replace(leaving=state.leaving.remove(request))
    return resumed(state, request + 1) if any(turn == request + 1 for turn in state.waiting) else state


def next_turn_in_order(rules: Table, config: Config, state: State, request: Request) -> State:
    """S2b, S3: with priorities, a turn whose session goes on waits by its rank, as all others do."""
    return by_policy(config, next_turn(rules, config, state, request))


def queued_again(config: Config, state: State, request: Request) -> State:
    """S3: an arrival; a turn whose session waited for it goes on."""
    return resumed(state, request)


def queued_among_skipped(config: Config, state: State, request: Request) -> State:
    """S2b: an arrival with a grammar to compile, or a turn whose session waits for it, begins in the first queue."""
    kept = state.transfers.get(request, NO_TRANSFER).phase == KEPT
    skipped = among_skipped_with_grammar(config, state, request)
    if not kept:
        return skipped
    return resumed(among_skipped(config, skipped, request), request)


def by_policy(config: Config, state: State) -> State:
    """S2b: with priorities, all that wait are in one order."""
    return state if config.policy == FIRST_COME else in_order(config, state)
