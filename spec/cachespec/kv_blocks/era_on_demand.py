"""The managers that take what they need: one call for all requests, and block 0 set aside as a placeholder.

- kv-2025-10 (K1), released with 0.11.0;
- kv-2026-05 (K1b), released with 0.20.2: blocks may be evicted by number, common prefixes are counted by tables, and
  the count of a request's registered blocks never goes back;
- kv-2026-11 (K2), released with 0.33.0: what cannot be found is taken first, and no common prefix is given.

Not modelled of K2: several hashes for one block and copies of a partial tail, blocks outside a window, reserves and
watermarks for admission, frees that wait for a connector. All of them leave full attention without a connector as here.
"""

from __future__ import annotations

from cachespec.kernel import ABSENT, FAILED, REFUSED, Containers, Outcome
from cachespec.kernel.outcome import Code
from cachespec.kv_blocks.configuration import NOTHING, Config, Request, blocks_for
from cachespec.kv_blocks.era_rules import (
    Result,
    common_by_count,
    dereferenced,
    each_once,
    failed,
    has_room,
    lengthened_from_list,
    new_blocks,
    queued_unhashed_first,
    register_blocks,
    registered_to,
    scheduled_to,
    slots_end,
    touched_in_list,
    with_hits,
)
from cachespec.kv_blocks.operations import AllocateSlots, CommonPrefix, FreeRequest, Withdraw
from cachespec.kv_blocks.state import Pool, initial
from cachespec.kv_blocks.transitions import holding_of, write


def initial_with_null(config: Config, containers: Containers) -> Pool:
    """The first block is set aside: it is never free, never held, and carries nothing."""
    pool = initial(config, containers)
    null = pool.free.oldest(NOTHING)
    return pool._replace(free=pool.free.remove(null), null=null)


def allocate(config: Config, pool: Pool, op: AllocateSlots, goes_back: int = 1) -> Result:
    """`allocate_slots` of K1: room first, then hits, then new blocks, then hashes.

    Where a call names fewer tokens than one before, the count of registered blocks `goes_back`, and blocks are
    registered anew, which an assertion finds (C-KV-20).
    """
    if op.tokens == 0:
        return pool, FAILED
    holding = holding_of(pool, op.request)
    owned = holding.blocks + len(op.hits)
    end, needed = end_of(config, op), lacking(config, pool, op)
    if not has_room(pool, op.hits, needed):
        return pool, REFUSED
    pool, whole = touched_in_list(pool, op.hits)
    if not whole or (holding.blocks > 0 and len(op.hits) > 0):
        return failed(pool)  # C-KV-20, C-KV-21
    if holding.blocks == 0 and len(op.hits) > 0:
        pool = registered_to(with_hits(config, pool, op.request, op.hits), op.request, len(op.hits))
    pool, whole = lengthened_from_list(config, pool, op.request, needed)
    if not whole:
        return failed(pool)
    pool, outcome = registered(config, pool, op.request, end, owned, goes_back)
    return scheduled_to(pool, op.request, end) if outcome.code is Code.DONE else pool, outcome


def allocate_after_the_assertion(config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """From K1b on: that a running request has no hits is asserted before anything is done.

    One without registered blocks passes for a new request until there is room.
    """
    holding = holding_of(pool, op.request)
    if holding.blocks == 0 or len(op.hits) == 0:
        return allocate(config, pool, op, goes_back=0)
    has_none = holding.cached_blocks == 0 and op.tokens > 0
    no_room = has_none and not has_room(pool, op.hits, lacking(config, pool, op))
    return (pool, REFUSED) if no_room else failed(pool)


def end_of(config: Config, op: AllocateSlots) -> int:
    """The last token that gets a slot."""
    return slots_end(config, op.computed + len(op.hits) * config.block_size + op.tokens)


def lacking(config: Config, pool: Pool, op: AllocateSlots) -> int:
    """How many blocks the request needs beside those that it has and its hits."""
    return blocks_for(config, end_of(config, op)) - holding_of(pool, op.request).blocks - len(op.hits)


def registered(config: Config, pool: Pool, request: Request, end: int, owned: int, goes_back: int = 0) -> Result:
    """C-KV-6: full blocks are registered now, drafts left out, although the step has not been executed."""
    first = holding_of(pool, request).cached_blocks
    full = min(end, config.lengths[request]) // config.block_size
    if full <= first:
        return new_blocks(registered_to(pool, request, full) if goes_back else pool, request, owned)
    pool, done = register_blocks(config, pool, request, first, full)
    return new_blocks(registered_to(pool, request, full), request, owned) if done else failed(pool)


def common_by_tables(config: Config, pool: Pool, op: CommonPrefix) -> Result:
    """K1b: as many references as there are tables; those of finished requests count on both sides."""
    return common_by_count(pool, op, pool.holdings.length)


def no_common_prefix(config: Config, pool: Pool, op: CommonPrefix) -> Result:
    """K2: cascade attention was removed."""
    return pool, Outcome(Code.DONE, (0,))


def null_aside(pool: Pool) -> Pool:
    """K2: the null block is never free, and references to it, should a caller have named it, are not counted."""
    return pool._replace(references=pool.references.remove(pool.null))


def allocate_with_null_aside(config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """K2: as before, but for the null block."""
    pool, outcome = allocate_after_the_assertion(config, pool, op)
    return null_aside(pool), outcome


def free_unhashed_first(config: Config, pool: Pool, op: FreeRequest) -> Result:
    """K2, and normatively: what cannot be found is taken first."""
    if not pool.holdings.has(op.request):
        return pool, ABSENT
    flying = min(holding_of(pool, op.request).scheduled, config.lengths[op.request])
    return release_unhashed_first(write(config, pool, op.request, flying), op.request)


def withdraw_unhashed_first(config: Config, pool: Pool, op: Withdraw) -> Result:
    """C-KV-6, in K2 too: what was registered for this step keeps its hash."""
    if not pool.holdings.has(op.request):
        return pool, ABSENT
    return release_unhashed_first(pool, op.request)


def release_unhashed_first(pool: Pool, request: Request) -> Result:
    """K2: a block is queued where its last reference goes, so once."""
    pool, unheld = dereferenced(pool, request)
    pool, outcome = queued_unhashed_first(pool, each_once(unheld))
    return null_aside(pool), outcome
