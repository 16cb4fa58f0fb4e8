"""What a call tells: normatively of hashes, in the releases of blocks.

Normatively a hash is stored when a first block can be found by it, and removed when none can be found any more. A
subscriber that keeps a set and one that counts then know the same. The releases tell of each block for itself, though a
hash can have several (C-KV-28).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cachespec.kernel import Code, Outcome
from cachespec.kv_blocks import AllocateSlots, Commit, EvictBlock, Pool
from cachespec.kv_blocks.configuration import NOTHING, Block, Hash, Position, Request, content_of, hash_of
from cachespec.kv_blocks.transitions import blocks_from, holding_of
from cachespec.kv_events.configuration import Config, pool_config, told_hashes
from cachespec.kv_events.state import CLEARED, REMOVED, STORED, Event

Queue = tuple[Event, ...]
Telling = Callable[[Config, Pool, Any, Outcome, Pool], Queue]
"""The events of a call, by the pool before it, the operation, its outcome, and the pool after it."""


# The queue ----------------------------------------------------------------------------------------------------------


def followed_by(queue: Queue, events: Queue) -> Queue:
    """The queue with further events. Removals behind removals join them: their order says nothing."""
    for event in events:
        if event.kind == REMOVED and len(queue) > 0 and queue[-1].kind == REMOVED:
            joined = tuple(sorted((*queue[-1].hashes, *event.hashes)))
            queue = (*queue[:-1], Event(REMOVED, NOTHING, joined))
        else:
            queue = (*queue, event)
    return queue


def removed(hashes: tuple[Hash, ...]) -> Queue:
    """One event, if anything was removed."""
    return (Event(REMOVED, NOTHING, hashes),) if len(hashes) > 0 else ()


def stored(config: Config, request: Request, first: Position, hashes: tuple[Hash, ...]) -> Queue:
    """One event, if anything was stored: blocks of the request from this position on."""
    if len(hashes) == 0:
        return ()
    parent = hash_at(config, request, first - 1) if first > 0 else NOTHING
    return (Event(STORED, parent, hashes),)


def hash_at(config: Config, request: Request, position: Position) -> Hash:
    """The hash of the full block at this position of the request."""
    pool = pool_config(config)
    return hash_of(pool, content_of(pool, request, position))


def cleared(config: Config, before: Pool, op: Any, outcome: Outcome, after: Pool) -> Queue:
    """A reset is told as a whole."""
    return (Event(CLEARED, NOTHING, ()),) if outcome.code is Code.DONE else ()


# By hash, normatively -----------------------------------------------------------------------------------------------


def gone(config: Config, before: Pool, op: Any, outcome: Outcome, after: Pool) -> Queue:
    """KVE-4: a hash is removed when the last of its blocks cannot be found any more."""
    hashes: tuple[Hash, ...] = ()
    for told in told_hashes(config):
        if before.prefix_map.has(told) and not after.prefix_map.has(told):
            hashes = (*hashes, told)
    return removed(hashes)


def come(config: Config, before: Pool, op: Commit, outcome: Outcome, after: Pool) -> Queue:
    """KVE-4: a hash is stored when a first block is found by it.

    Blocks that follow one another are one event.
    """
    events: Queue = ()
    known: tuple[Hash, ...] = ()
    first = holding_of(before, op.request).cached_blocks
    hashes: tuple[Hash, ...] = ()
    for position in range(first, holding_of(after, op.request).cached_blocks):
        told = hash_at(config, op.request, position)
        if before.prefix_map.has(told) or not after.prefix_map.has(told) or told in known:
            events = (*events, *stored(config, op.request, first, hashes))
            first = position + 1
            hashes = ()
        else:
            hashes = (*hashes, told)
            known = (*known, told)
    return (*events, *stored(config, op.request, first, hashes))


# By block, in the releases ------------------------------------------------------------------------------------------


def of_blocks(config: Config, before: Pool, blocks: tuple[Block, ...]) -> Queue:
    """C-KV-28: each block that could be found is told, whether the hash has another one or not."""
    hashes: tuple[Hash, ...] = ()
    for block in blocks:
        if before.registered.has(block):
            hashes = (*hashes, hash_of(pool_config(config), before.registered.get(block, NOTHING)))
    return removed(tuple(sorted(hashes)))


def taken_and_registered(config: Config, before: Pool, op: AllocateSlots, outcome: Outcome, after: Pool) -> Queue:
    """What is reallocated, and then what is registered, all of it in one event."""
    owned = holding_of(before, op.request).blocks + len(op.hits)
    taken = of_blocks(config, before, blocks_from(after, op.request, owned))
    if outcome.code is not Code.DONE:
        return taken
    first = max(holding_of(before, op.request).cached_blocks, len(op.hits))
    hashes: tuple[Hash, ...] = ()
    for position in range(first, holding_of(after, op.request).cached_blocks):
        hashes = (*hashes, hash_at(config, op.request, position))
    return (*taken, *stored(config, op.request, first, hashes))


def evicted(config: Config, before: Pool, op: EvictBlock, outcome: Outcome, after: Pool) -> Queue:
    """The block alone."""
    return of_blocks(config, before, (op.block,))
