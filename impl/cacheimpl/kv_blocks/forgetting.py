"""Unregistering blocks without reallocating them: eviction by number, and reset."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.answer import Code, either
from cacheimpl.kv_blocks.state import Config, Pool, null_block, severed


def evict_blocks(config: Config, pool: Pool, blocks: Tensor) -> tuple[Pool, Tensor]:
    """These blocks ([turns] int64) cannot be found any more, one after the other, nor what stands behind them (KV-6).

    With a block goes what stands behind its content in any table; who holds it keeps it. Looks at every table, once for
    all turns. Returns the code of each: DONE, or ABSENT where it cannot be found, or not any more when its turn comes.
    Pad with the null block, which is ABSENT.
    """
    null, none, turns = null_block(pool), config.hashes.shape[0] - 1, blocks.shape[0]
    turn = torch.arange(turns, device=blocks.device)
    content = pool.carried.index_select(0, blocks)
    there = (content >= 0) & (blocks < null)
    when = torch.where(there, turn, turns)
    first = torch.full_like(pool.carried, turns).scatter_reduce(0, blocks, when, "amin")
    behind = torch.where(there, content, none)
    by_content = blocks.new_full((none + 1,), turns).scatter_reduce(0, behind, when, "amin")
    # A content includes all contents before it. So if the first turn that would take a block with it comes too late
    # itself, the cause is an earlier turn, and the content behind that turn includes the block.
    its = torch.arange(pool.tables.shape[1], device=blocks.device) < pool.blocks[:, None]
    asked = by_content.index_select(0, config.contents.flatten()).reshape(config.contents.shape)
    before = torch.nn.functional.pad(torch.where(its, asked, turns).cummin(1).values[:, :-1], (1, 0), value=turns)
    places = torch.where(its, pool.tables.long(), null).flatten()
    taken_along = torch.full_like(pool.carried, turns).scatter_reduce(0, places, before.flatten(), "amin")
    done = there & (first.index_select(0, blocks) == turn) & (taken_along.index_select(0, blocks) >= turn)
    hidden = torch.minimum(first, taken_along) < turns
    after = pool._replace(carried=torch.where(hidden, -1, pool.carried))
    return after._replace(severed=severed(after)), either(done, Code.DONE, Code.ABSENT)


def evict_block(config: Config, pool: Pool, block: Tensor) -> tuple[Pool, Tensor]:
    """The same of one block ([] int64)."""
    after, codes = evict_blocks(config, pool, block.reshape(1))
    return after, codes[0]


def reset_prefix_cache(config: Config, pool: Pool) -> tuple[Pool, Tensor]:
    """Nothing can be found any more. Returns DONE, or REFUSED where a request holds a block."""
    idle = pool.free == null_block(pool)
    return pool._replace(carried=torch.where(idle, -1, pool.carried)), either(idle, Code.DONE, Code.REFUSED)
