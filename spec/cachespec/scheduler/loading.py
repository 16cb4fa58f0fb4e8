"""Loads from an external store, as a round sees them: which tokens they bring, and which blocks are reserved.

A request whose KV is loaded before it is admitted holds blocks while it waits, and cannot be preempted. So that no
request waits for ever for blocks of another one, a load begins only if the free blocks suffice for all requests that
hold blocks, until each of them ends (SCH-10, SCH-14). While one of them waits, the same holds for every admission.
"""

from __future__ import annotations

from cachespec.kernel import Map
from cachespec.scheduler.configuration import Config, Request, final_length
from cachespec.scheduler.round_state import Prefix
from cachespec.scheduler.state import LOADED, LOADING, LOADS_IN_STEP, NO_TRANSFER, State, Transfer
from cachespec.scheduler.worker import table_length


def brings(config: Config, prefix: Prefix) -> bool:
    """Whether a prefix has tokens whose KV is not in the request's own blocks or in hits: it is loaded."""
    return prefix.start > prefix.covered + len(prefix.hits) * config.block_size


def has_loaded(state: State, request: Request) -> bool:
    """Whether the request waits with loaded KV."""
    return state.transfers.get(request, NO_TRANSFER).phase == LOADED


def waits_with_blocks(state: State, request: Request) -> bool:
    """Whether the request waits for its KV or with it."""
    return state.transfers.get(request, NO_TRANSFER).phase in (LOADING, LOADED)


def may_be_overwritten(state: State) -> bool:
    """SCH-14: a step in flight may write to blocks that its request has lost, and a load is not ordered behind it."""
    return any(part.void for plan in state.plans for part in plan.scheduled)


def begun_in_step(config: Config, state: State, request: Request, prefix: Prefix) -> Map[Request, Transfer]:
    """The transfers after an admission: what its first step loads may fail, and a finished load is over."""
    if config.load_failures and brings(config, prefix):
        return state.transfers.set(request, Transfer(LOADS_IN_STEP, prefix.start))
    return state.transfers.remove(request)


def lacks_reserve(config: Config, state: State, request: Request) -> bool:
    """SCH-10, SCH-14: a waiting request has blocks, and too few are free for all holders, this request among them."""
    waiting = tuple(other for other in state.waiting if waits_with_blocks(state, other))
    if not (config.loads_later and config.loads_later[request]) and all(other == request for other in waiting):
        return False
    if has_loaded(state, request):
        return False
    needed = missing_blocks(config, state, request)
    for other in (*state.running, *waiting):
        needed = needed + (missing_blocks(config, state, other) if other != request else 0)
    return needed > state.kv.free_count()


def missing_blocks(config: Config, state: State, request: Request) -> int:
    """The blocks that the request may still take until it ends."""
    whole = (final_length(config, request) - 1 + config.block_size - 1) // config.block_size
    return max(0, whole - table_length(state.kv, request))
