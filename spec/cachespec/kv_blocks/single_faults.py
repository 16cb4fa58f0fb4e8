"""Variants with one rule replaced, for what was repaired before the managers that are modelled were released."""

from __future__ import annotations

from collections.abc import Iterable

from cachespec.kernel import FAILED, REFUSED, Operation
from cachespec.kv_blocks.configuration import Config, Request, blocks_for, prompt_of
from cachespec.kv_blocks.environment import Lookup
from cachespec.kv_blocks.era_preallocating import overwritten, preallocated, registered_new
from cachespec.kv_blocks.era_rules import Result, failed, has_room, lengthened, touched, with_hits
from cachespec.kv_blocks.operations import AllocateSlots, GetComputedBlocks
from cachespec.kv_blocks.state import Pool
from cachespec.kv_blocks.transitions import append, take, touch


def without_limit(config: Config, pool: Pool, needed: int, owned: int) -> int:
    """C-KV-1: blocks are taken in advance beyond the width of the table."""
    return min(needed + config.preallocated, pool.free.length)


def touch_before_the_check(config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """C-KV-3: the hits are touched, and then there is no room."""
    if op.tokens == 0:
        return pool, FAILED
    pool = touched(pool, op.hits)
    needed = blocks_for(config, op.tokens)
    if needed > pool.free.length:
        return pool, REFUSED
    more = preallocated(config, pool, needed, len(op.hits))
    if more <= 0:
        return failed(pool)
    pool = with_hits(config, overwritten(pool, op.request), op.request, op.hits)
    return registered_new(config, lengthened(config, pool, op.request, more), op)


def take_before_touching(config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """C-KV-3, as its review feared (#10507): new blocks are taken while the hits are still free."""
    if op.tokens == 0:
        return pool, FAILED
    needed = blocks_for(config, op.tokens)
    if not has_room(pool, op.hits, needed):
        return pool, REFUSED
    taken: tuple[int, ...] = ()
    while len(taken) < needed:
        pool, block = take(config, pool)
        taken = (*taken, block)
    pool = with_hits(config, overwritten(pool, op.request), op.request, op.hits)
    for block in op.hits:
        pool = touch(pool, block)
    for block in taken:
        pool = append(pool, op.request, block)
    return registered_new(config, pool, op)


def is_full_hit(config: Config, request: Request, lookup: Lookup) -> bool:
    """All tokens of the request can be found."""
    prompt = prompt_of(config, request)
    return len(lookup(GetComputedBlocks(request, prompt)).values) * config.block_size == prompt


def one_token_of_a_full_hit(config: Config, operations: Iterable[Operation], lookup: Lookup) -> Iterable[Operation]:
    """C-KV-4: of a full hit the last block is given back, and one token of it computed again.

    The others count as computed, in a block where nobody has written them.
    """
    size = config.block_size
    for op in operations:
        if isinstance(op, AllocateSlots) and op.computed == 0 and is_full_hit(config, op.request, lookup):
            yield AllocateSlots(op.request, size - 1, 1, op.hits)
        else:
            yield op
