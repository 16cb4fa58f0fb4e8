"""What each call does: as in the pool, and it tells."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from cachespec.kernel import Code, Operation, Outcome, Transition, Transitions
from cachespec.kv_blocks import (
    AllocateSlots,
    Commit,
    EvictBlock,
    FreeRequest,
    GetComputedBlocks,
    Pool,
    ResetPrefixCache,
    Withdraw,
)
from cachespec.kv_blocks import Config as PoolConfig
from cachespec.kv_blocks import transitions as pool_calls
from cachespec.kv_events.configuration import Config, pool_config
from cachespec.kv_events.operations import POOL_OPERATIONS, TakeEvents
from cachespec.kv_events.state import Event, Publisher, applied
from cachespec.kv_events.telling import (
    Telling,
    cleared,
    come,
    evicted,
    followed_by,
    gone,
    taken_and_registered,
)

PoolTransition = Transition[PoolConfig, Pool, Any]
Result = tuple[Publisher, Outcome]
Tellings = Mapping[type[Operation], Telling]

BY_BLOCK: Tellings = {AllocateSlots: taken_and_registered, EvictBlock: evicted, ResetPrefixCache: cleared}


def silent(own: PoolTransition, config: Config, publisher: Publisher, op: Any) -> Result:
    """The pool's own call, which tells nothing."""
    pool, outcome = own(pool_config(config), publisher.pool, op)
    return publisher._replace(pool=pool), outcome


def telling(own: PoolTransition, tell: Telling, config: Config, publisher: Publisher, op: Any) -> Result:
    """The pool's own call, and its events behind those that wait. KVE-1: nothing changes that is not told."""
    pool, outcome = own(pool_config(config), publisher.pool, op)
    events = tell(config, publisher.pool, op, outcome, pool)
    return publisher._replace(pool=pool, queue=followed_by(publisher.queue, events)), outcome


# The normative manager ----------------------------------------------------------------------------------------------


def get_computed_blocks(config: Config, publisher: Publisher, op: GetComputedBlocks) -> Result:
    """A look-up changes nothing."""
    return silent(pool_calls.get_computed_blocks, config, publisher, op)


def allocate_slots(config: Config, publisher: Publisher, op: AllocateSlots) -> Result:
    """What is reallocated may have been the last block of its hash."""
    return telling(pool_calls.allocate_slots, gone, config, publisher, op)


def commit(config: Config, publisher: Publisher, op: Commit) -> Result:
    """What was written can be found."""
    return telling(pool_calls.commit, come, config, publisher, op)


def free_request(config: Config, publisher: Publisher, op: FreeRequest) -> Result:
    """Free blocks can be found as before."""
    return silent(pool_calls.free_request, config, publisher, op)


def withdraw(config: Config, publisher: Publisher, op: Withdraw) -> Result:
    """What was scheduled was not registered."""
    return silent(pool_calls.withdraw, config, publisher, op)


def evict_block(config: Config, publisher: Publisher, op: EvictBlock) -> Result:
    """The block, and what stands behind it."""
    return telling(pool_calls.evict_block, gone, config, publisher, op)


def reset_prefix_cache(config: Config, publisher: Publisher, op: ResetPrefixCache) -> Result:
    """Reported as a whole."""
    return telling(pool_calls.reset_prefix_cache, cleared, config, publisher, op)


def take_events(config: Config, publisher: Publisher, op: TakeEvents) -> Result:
    """KVE-3: all events, in their order, and none of them again."""
    known = publisher.known
    for event in publisher.queue:
        known = applied(config, known, event)
    return publisher._replace(queue=(), known=known), Outcome(Code.DONE, flat(publisher.queue))


def flat(queue: tuple[Event, ...]) -> tuple[int, ...]:
    """Events as a call returns them."""
    values: tuple[int, ...] = ()
    for event in queue:
        values = (*values, event.kind, event.parent, len(event.hashes), *event.hashes)
    return values


TRANSITIONS: Transitions[Config, Publisher] = {
    GetComputedBlocks: get_computed_blocks,
    AllocateSlots: allocate_slots,
    Commit: commit,
    FreeRequest: free_request,
    Withdraw: withdraw,
    EvictBlock: evict_block,
    ResetPrefixCache: reset_prefix_cache,
    TakeEvents: take_events,
}


# The releases -------------------------------------------------------------------------------------------------------


def following(pool: Transitions[PoolConfig, Pool], tellings: Tellings) -> Transitions[Config, Publisher]:
    """The calls of a pool that tells so."""
    calls: dict[type[Operation], Transition[Config, Publisher, Any]] = {
        kind: partial(telling, pool[kind], tellings[kind]) if kind in tellings else partial(silent, pool[kind])
        for kind in POOL_OPERATIONS
        if kind in pool
    }
    return {**calls, TakeEvents: take_events}
