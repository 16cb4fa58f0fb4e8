"""Computed tokens that go back: a load from outside has failed, or a session goes on with other tokens.

Releases have no such call. From 0.20.2 on their scheduler sets its count back itself, and evicts the blocks by number.
"""

from __future__ import annotations

from cachespec.kernel import ABSENT, DONE, REFUSED, STALE, Outcome
from cachespec.kv_blocks.configuration import NOTHING, Config, Position, Request, full_blocks
from cachespec.kv_blocks.operations import RollBack
from cachespec.kv_blocks.state import Pool
from cachespec.kv_blocks.transitions import forget, holding_of


def shared_behind(pool: Pool, request: Request, first: Position) -> int:
    """How many blocks from this position on are in more than one place."""
    count = 0
    for position in range(holding_of(pool, request).blocks):
        block = pool.tables.get((request, position), NOTHING)
        count = count + (1 if position >= first and pool.references.get(block, 0) > 1 else 0)
    return count


def unwrite(config: Config, pool: Pool, request: Request, position: Position) -> Pool:
    """The block at this position has no KV that counts, and cannot be found."""
    block = pool.tables.get((request, position), NOTHING)
    return forget(config, pool, block)._replace(bytes=pool.bytes.remove(block))


def unwritten_behind(config: Config, pool: Pool, request: Request, first: Position) -> Pool:
    """Every block from this position on is unwritten."""
    for position in range(holding_of(pool, request).blocks):
        if position >= first:
            pool = unwrite(config, pool, request, position)
    return pool


def roll_back(config: Config, pool: Pool, op: RollBack) -> tuple[Pool, Outcome]:
    """KV-7: what is computed again cannot be found meanwhile. KV-4: no other request has the blocks."""
    holding = holding_of(pool, op.request)
    if holding.blocks == 0:
        return pool, ABSENT
    if op.computed < 0 or op.computed > holding.computed:
        return pool, STALE
    first = full_blocks(config, op.computed)
    if shared_behind(pool, op.request, first) > 0:
        return pool, REFUSED
    back = holding._replace(
        cached_blocks=min(holding.cached_blocks, first),
        cached_tokens=min(holding.cached_tokens, first * config.block_size),
        computed=op.computed,
        scheduled=op.computed,
    )
    pool = unwritten_behind(config, pool, op.request, first)
    return pool._replace(holdings=pool.holdings.set(op.request, back)), DONE


def set_back(config: Config, pool: Pool, op: RollBack) -> tuple[Pool, Outcome]:
    """C-SCH-25: as the scheduler of 0.20.2 and 0.33.0 does it.

    Other holders of the blocks read on. And the blocks count as registered: they are not registered again when they
    have been computed (C-KV-33).
    """
    holding = holding_of(pool, op.request)
    if holding.blocks == 0:
        return pool, ABSENT
    if op.computed < 0 or op.computed > holding.computed:
        return pool, STALE
    first = full_blocks(config, op.computed)
    back = holding._replace(
        cached_tokens=min(holding.cached_tokens, first * config.block_size),
        computed=op.computed,
        scheduled=op.computed,
    )
    pool = unwritten_behind(config, pool, op.request, first)
    return pool._replace(holdings=pool.holdings.set(op.request, back)), DONE
