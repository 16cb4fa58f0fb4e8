"""The managers that take more blocks than they need, so as to be asked less often.

- kv-2025-01 (K0): a call for a new request, and another for a running one;
- kv-2025-02 (K0b), released with 0.7.3: one call for both, and a count of registered blocks for each request.
"""

from __future__ import annotations

from collections.abc import Callable

from cachespec.kernel import FAILED, REFUSED
from cachespec.kv_blocks.configuration import (
    NOTHING,
    Config,
    Content,
    Request,
    blocks_for,
    content_of,
    full_blocks,
    limit_of,
    prompt_of,
)
from cachespec.kv_blocks.era_rules import (
    Result,
    failed,
    has_room,
    lengthened,
    new_blocks,
    register_blocks,
    registered_to,
    scheduled_to,
    starting_at,
    touched,
    with_hits,
)
from cachespec.kv_blocks.operations import AllocateSlots, AppendSlots
from cachespec.kv_blocks.state import Pool
from cachespec.kv_blocks.transitions import holding_of, register

Preallocation = Callable[[Config, Pool, int, int], int]
"""`(needed, owned)`: how many blocks are taken."""


def widest(config: Config) -> int:
    """The width of the block table."""
    return blocks_for(config, limit_of(config))


def preallocated(config: Config, pool: Pool, needed: int, owned: int) -> int:
    """So many blocks are taken: some in advance, but not beyond the width of the table (C-KV-1, C-KV-2)."""
    return min(needed + config.preallocated, pool.free.length, widest(config) - owned)


def overwritten(pool: Pool, request: Request) -> Pool:
    """C-KV-5: the table is dropped without releasing its references."""
    for position in range(holding_of(pool, request).blocks):
        pool = pool._replace(tables=pool.tables.remove((request, position)))
    return pool._replace(holdings=pool.holdings.remove(request))


def allocate_new(config: Config, pool: Pool, op: AllocateSlots, preallocation: Preallocation = preallocated) -> Result:
    """`allocate_slots` of K0, for a request that should have no table (C-KV-5)."""
    if op.tokens == 0:
        return pool, FAILED
    needed = blocks_for(config, op.tokens)
    if not has_room(pool, op.hits, needed):
        return pool, REFUSED
    pool = touched(pool, op.hits)
    more = preallocation(config, pool, needed, len(op.hits))
    if more <= 0:
        return failed(pool)
    pool = with_hits(config, overwritten(pool, op.request), op.request, op.hits)
    pool = lengthened(config, pool, op.request, more)
    return registered_new(config, pool, op)


def registered_new(config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """The new full blocks are registered. What was counted as computed without being so is not noticed (C-KV-4)."""
    hit = len(op.hits)
    if op.computed > 0:
        pool = starting_at(pool, op.request, hit * config.block_size + op.computed)
    pool = scheduled_to(pool, op.request, hit * config.block_size + op.computed + op.tokens)
    full = hit + op.tokens // config.block_size
    pool, registered = register_blocks(config, registered_to(pool, op.request, full), op.request, hit, full)
    return new_blocks(pool, op.request, hit) if registered else failed(pool)


def append_slots(config: Config, pool: Pool, op: AppendSlots, preallocation: Preallocation = preallocated) -> Result:
    """`append_slots` of K0. C-KV-2: a table that is as wide as it may be fails an assertion, or is too short."""
    holding = holding_of(pool, op.request)
    owned = holding.blocks
    needed = blocks_for(config, op.computed + op.tokens) - owned
    if needed > pool.free.length:
        return pool, REFUSED
    if needed > 0:
        more = preallocation(config, pool, needed, owned)
        if more <= 0:
            return failed(pool)
        pool = lengthened(config, pool, op.request, more)
    pool = scheduled_to(pool, op.request, op.computed + op.tokens)
    first, full = op.computed // config.block_size, (op.computed + op.tokens) // config.block_size
    if full > holding_of(pool, op.request).blocks or not has_parent(pool, op.request, first, full):
        return failed(pool)
    pool, registered = register_blocks(config, registered_to(pool, op.request, full), op.request, first, full)
    return new_blocks(pool, op.request, owned) if registered else failed(pool)


def has_parent(pool: Pool, request: Request, first: int, full: int) -> bool:
    """The block before the first new full one must have a hash (an assertion)."""
    if first in (0, full):
        return True
    return pool.registered.has(pool.tables.get((request, first - 1), NOTHING))


def allocate_or_append(config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """`allocate_slots` of K0b, for new and running requests."""
    if op.tokens == 0:
        return pool, FAILED
    owned = holding_of(pool, op.request).blocks + len(op.hits)
    end = op.computed + len(op.hits) * config.block_size + op.tokens
    needed = blocks_for(config, end) - owned
    if not has_room(pool, op.hits, needed):
        return pool, REFUSED
    pool = with_hits(config, touched(pool, op.hits), op.request, op.hits)
    if needed > 0:
        more = preallocated(config, pool, needed, owned)
        if more <= 0:
            return failed(pool)
        pool = lengthened(config, pool, op.request, more)
    full = min(end, config.lengths[op.request]) // config.block_size
    first = min(first_without_hash(pool, op.request, full), full)
    pool, registered = register_behind(config, pool, op.request, first, full)
    if not registered:
        return failed(pool)
    return new_blocks(scheduled_to(registered_to(pool, op.request, full), op.request, end), op.request, owned)


def first_without_hash(pool: Pool, request: Request, full: int) -> int:
    """Where registering starts: what is registered already is skipped."""
    position = holding_of(pool, request).cached_blocks
    while position < full and pool.registered.has(pool.tables.get((request, position), NOTHING)):
        position = position + 1
    return position


def register_behind(config: Config, pool: Pool, request: Request, first: int, last: int) -> tuple[Pool, bool]:
    """The blocks from `first` to before `last` are registered by their keys; False if an assertion fails."""
    for position in range(first, last):
        block = pool.tables.get((request, position), NOTHING)
        if content_of(config, request, position) < 0 or block < 0 or pool.registered.has(block):
            return pool, False
        pool = register(config, pool, block, keyed(config, pool, request, position))
    return pool, True


def keyed(config: Config, pool: Pool, request: Request, position: int) -> Content:
    """The content that the block's key names.

    The keys of a prompt are known from its look-up. The key of a generated block is made from that of the block before
    it in the table. If a repeated call has put a block of another content there (C-KV-5), the key belongs to no
    content.
    """
    content = content_of(config, request, position)
    if position == 0 or config.hashes or position < full_blocks(config, prompt_of(config, request)):
        return content
    before = pool.registered.get(pool.tables.get((request, position - 1), NOTHING), NOTHING)
    return content if before == content_of(config, request, position - 1) else NOTHING
