"""Computed tokens that go back: a load from outside has failed, or a session goes on with other tokens."""

from __future__ import annotations

from cachespec.kernel import ABSENT, DONE, REFUSED, STALE, Outcome
from cachespec.kv_blocks.configuration import Block, Config, full_blocks
from cachespec.kv_blocks.operations import RollBack
from cachespec.kv_blocks.state import Pool
from cachespec.kv_blocks.transitions import blocks_from, forget, holding_of


def shared_among(pool: Pool, blocks: tuple[Block, ...]) -> int:
    """How many of these blocks are in more than one place."""
    count = 0
    for position in range(len(blocks)):
        count = count + (1 if pool.references.get(blocks[position], 0) > 1 else 0)
    return count


def unwritten(config: Config, pool: Pool, blocks: tuple[Block, ...]) -> Pool:
    """These blocks have no KV that counts, and cannot be found."""
    for position in range(len(blocks)):
        pool = forget(config, pool, blocks[position])
        pool = pool._replace(bytes=pool.bytes.remove(blocks[position]))
    return pool


def roll_back(config: Config, pool: Pool, op: RollBack) -> tuple[Pool, Outcome]:
    """KV-7: what is computed again cannot be found meanwhile. KV-4: no other request has the blocks."""
    holding = holding_of(pool, op.request)
    if holding.blocks == 0:
        return pool, ABSENT
    if op.computed < 0 or op.computed > holding.computed:
        return pool, STALE
    first = full_blocks(config, op.computed)
    again = blocks_from(pool, op.request, first)
    if shared_among(pool, again) > 0:
        return pool, REFUSED
    back = holding._replace(
        cached_blocks=min(holding.cached_blocks, first),
        cached_tokens=min(holding.cached_tokens, first * config.block_size),
        computed=op.computed,
        scheduled=op.computed,
    )
    pool = unwritten(config, pool, again)
    return pool._replace(holdings=pool.holdings.set(op.request, back)), DONE
