"""What each call does: as in the pool, and it tells."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from cachespec.kernel import Code, Operation, Outcome, Transition, Transitions
from cachespec.kv_blocks import AllocateSlots, Commit, EvictBlock, Pool, ResetPrefixCache
from cachespec.kv_blocks import Config as PoolConfig
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

BY_HASH: Tellings = {AllocateSlots: gone, Commit: come, EvictBlock: gone, ResetPrefixCache: cleared}
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


def following(pool: Transitions[PoolConfig, Pool], tellings: Tellings) -> Transitions[Config, Publisher]:
    """The calls of a pool that tells so."""
    calls: dict[type[Operation], Transition[Config, Publisher, Any]] = {
        kind: partial(telling, pool[kind], tellings[kind]) if kind in tellings else partial(silent, pool[kind])
        for kind in POOL_OPERATIONS
        if kind in pool
    }
    return {**calls, TakeEvents: take_events}
