"""A request whose layers are in two groups: two tables that are given slots together, or not at all."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.answer import Code, either
from cacheimpl.kv_blocks.admission import adopt, are_cached, where_within
from cacheimpl.kv_blocks.prefix import Hits
from cacheimpl.kv_blocks.slots import asked, with_slots
from cacheimpl.kv_blocks.state import Config, Pool, null_block
from cacheimpl.writing import COPYING, Writing


def allocate_groups(
    config: Config,
    pool: Pool,
    tables: Tensor,
    external: Tensor,
    tokens: Tensor,
    hits: Hits,
    *,
    width: int,
    write: Writing = COPYING,
) -> tuple[Pool, Tensor, Tensor, Tensor]:
    """Slots for both tables ([2] int64) of a new request, behind the hits of both, which are all touched first.

    `external` and `tokens` ([] int64): tokens that are loaded, and to compute. Returns the code, the new blocks
    ([2, width], the null block behind them), and how many there are for each table ([2]).
    """
    held, hit_blocks = pool.blocks.index_select(0, tables), hits.lengths
    end = hit_blocks * config.block_size + external + tokens
    planned = pool.scheduled.index_select(0, tables)
    ask = asked(config, pool, tables, end, planned, held + hit_blocks, torch.ones_like(end).bool(), width)
    large = end[0] > config.limit
    present = (tables[0] == tables[1]) | (held.sum() > 0)
    stale = (hit_blocks[0] != hit_blocks[1]) | ~are_cached(config, pool, tables, hits).all()
    brought = where_within(hits, torch.ones_like(ask.possible), null_block(pool))
    idle = (brought < null_block(pool)) & (pool.references.index_select(0, brought.flatten()) == 0).reshape(
        brought.shape
    )
    room = (tokens > 0) & (ask.up_to[1] + idle.sum() <= pool.free)
    code = torch.where(stale, int(Code.STALE), either(room, Code.DONE, Code.REFUSED))
    code = torch.where(large, int(Code.TOO_LARGE), torch.where(present, int(Code.PRESENT), code))
    done = (code == int(Code.DONE)).expand_as(hit_blocks)
    adopting = adopt(config, pool, tables, hits, done, write)
    after, blocks, given = with_slots(adopting, ask, done, write)
    return after, code, blocks, given


def one_after_the_other(blocks: Tensor, lengths: Tensor, null: int) -> Tensor:
    """[2 * width] int64: the blocks of the first table, then those of the second, then the null block."""
    width = blocks.shape[1]
    row = torch.arange(width, device=blocks.device)
    places = torch.stack((row, lengths[0] + row))
    places = torch.where(row < lengths[:, None], places, 2 * width)
    flat = torch.full((2 * width + 1,), null, device=blocks.device)
    return flat.scatter(0, places.flatten(), blocks.flatten())[: 2 * width]
