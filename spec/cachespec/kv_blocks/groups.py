"""A request whose layers are in two groups: two tables, one pool, and KV that is loaded from outside.

Enough of it for the order of touching and taking, and for the estimate before: both groups have blocks of one size and
full attention, and the two tables are released one by one. Windows, state-space layers and groups of different block
sizes are not modelled.
"""

from __future__ import annotations

from cachespec.kernel import PRESENT, REFUSED, STALE, TOO_LARGE, Code, Outcome
from cachespec.kv_blocks.configuration import Block, Config, Request, blocks_for, limit_of
from cachespec.kv_blocks.era_rules import (
    Result,
    failed,
    has_room,
    lengthened_from_list,
    register_blocks,
    registered_to,
    scheduled_to,
    touched_in_list,
    with_hits,
)
from cachespec.kv_blocks.operations import AllocateGroups
from cachespec.kv_blocks.state import Pool
from cachespec.kv_blocks.transitions import adopt, are_cached, blocks_from, extend, free_among, holding_of


def end_of(config: Config, op: AllocateGroups) -> int:
    """The tokens for which there are to be slots."""
    return len(op.hits) * config.block_size + op.external + op.tokens


def estimate(config: Config, op: AllocateGroups) -> int:
    """So many new blocks both tables need."""
    return 2 * blocks_for(config, end_of(config, op)) - len(op.hits) - len(op.other_hits)


def lacks_room(pool: Pool, op: AllocateGroups, needed: int) -> bool:
    """Too few blocks are free apart from the hits of both groups."""
    return needed > pool.free.length - free_among(pool, op.hits) - free_among(pool, op.other_hits)


def is_counted_short(pool: Pool, op: AllocateGroups, needed: int) -> bool:
    """The same test in a release."""
    return not has_room(pool, (*op.hits, *op.other_hits), needed)


def answer(pool: Pool, op: AllocateGroups) -> Result:
    """The new blocks of one table, and of the other."""
    first = blocks_from(pool, op.request, len(op.hits))
    return pool, Outcome(Code.DONE, (*first, *blocks_from(pool, op.other, len(op.other_hits))))


def allocate_groups(config: Config, pool: Pool, op: AllocateGroups) -> Result:
    """KV-9: the hits of all groups are touched before a block is taken for any (C-KV-12)."""
    if end_of(config, op) > limit_of(config):
        return pool, TOO_LARGE
    if op.request == op.other or holding_of(pool, op.request).blocks + holding_of(pool, op.other).blocks > 0:
        return pool, PRESENT
    if len(op.hits) != len(op.other_hits):
        return pool, STALE
    if not are_cached(config, pool, op.request, op.hits) or not are_cached(config, pool, op.other, op.other_hits):
        return pool, STALE
    if op.tokens <= 0 or lacks_room(pool, op, estimate(config, op)):
        return pool, REFUSED
    pool = adopt(config, pool, op.request, op.hits)
    pool = adopt(config, pool, op.other, op.other_hits)
    for request in (op.request, op.other):
        pool = extend(config, pool, request, blocks_for(config, end_of(config, op)))
        pool = scheduled_to(pool, request, end_of(config, op))
    return answer(pool, op)


def adopted(config: Config, pool: Pool, request: Request, hits: tuple[Block, ...]) -> tuple[Pool, bool]:
    """Hits as a release takes them: without a second look. False if the free queue is broken (C-KV-21)."""
    pool, whole = touched_in_list(pool, hits)
    if not whole or len(hits) == 0:
        return pool, whole
    return registered_to(with_hits(config, pool, request, hits), request, len(hits)), True


def both_adopted(config: Config, pool: Pool, op: AllocateGroups) -> tuple[Pool, bool]:
    """The hits of one group, then those of the other."""
    pool, whole = adopted(config, pool, op.request, op.hits)
    return adopted(config, pool, op.other, op.other_hits) if whole else (pool, False)


def lengthened_to(config: Config, pool: Pool, request: Request, blocks: int) -> tuple[Pool, bool]:
    """The table has at least so many blocks; False if they cannot be popped."""
    return lengthened_from_list(config, pool, request, blocks - holding_of(pool, request).blocks)


def completed(config: Config, pool: Pool, op: AllocateGroups) -> Result:
    """Both tables get the rest of their blocks, and full ones are registered."""
    end = end_of(config, op)
    full = end // config.block_size
    for request, hits in ((op.request, op.hits), (op.other, op.other_hits)):
        pool, whole = lengthened_to(config, pool, request, blocks_for(config, end))
        if not whole:
            return failed(pool)
        pool = scheduled_to(pool, request, end)
        pool, done = register_blocks(config, registered_to(pool, request, full), request, len(hits), full)
        if not done:
            return failed(pool)
    return answer(pool, op)


def allocate_in_two_phases(config: Config, pool: Pool, op: AllocateGroups) -> Result:
    """0.11.0: the hits of all groups first; then each group gets the rest of its blocks."""
    if is_counted_short(pool, op, estimate(config, op)):
        return pool, REFUSED
    pool, whole = both_adopted(config, pool, op)
    return completed(config, pool, op) if whole else failed(pool)


def loaded_to(config: Config, op: AllocateGroups) -> int:
    """So many blocks a table has when there is room for what is loaded; none are asked for where nothing is."""
    return blocks_for(config, len(op.hits) * config.block_size + op.external) if op.external > 0 else 0


def allocate_group_by_group(config: Config, pool: Pool, op: AllocateGroups) -> Result:
    """0.20.2, C-KV-12: blocks for what is loaded into one group are taken before the hits of the next are touched."""
    if is_counted_short(pool, op, estimate(config, op)):
        return pool, REFUSED
    for request, hits in ((op.request, op.hits), (op.other, op.other_hits)):
        pool, whole = adopted(config, pool, request, hits)
        if whole:
            pool, whole = lengthened_to(config, pool, request, loaded_to(config, op))
        if not whole:
            return failed(pool)
    return completed(config, pool, op)


def allocate_in_three_phases(config: Config, pool: Pool, op: AllocateGroups) -> Result:
    """0.33.0: the hits of all groups, then blocks for what is loaded into each, then the rest."""
    if is_counted_short(pool, op, estimate(config, op)):
        return pool, REFUSED
    pool, whole = both_adopted(config, pool, op)
    for request in (op.request, op.other):
        if whole:
            pool, whole = lengthened_to(config, pool, request, loaded_to(config, op))
    return completed(config, pool, op) if whole else failed(pool)


def allocate_on_a_short_estimate(config: Config, pool: Pool, op: AllocateGroups) -> Result:
    """C-KV-14: what is loaded from outside needs blocks, and is not in the estimate."""
    if is_counted_short(pool, op, estimate(config, op) - 2 * (op.external // config.block_size)):
        return pool, REFUSED
    pool, whole = both_adopted(config, pool, op)
    return completed(config, pool, op) if whole else failed(pool)
