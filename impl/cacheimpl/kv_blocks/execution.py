"""What execution does to the blocks: tokens are written, and full blocks can be found from then on."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.answer import UNANSWERED, Code
from cacheimpl.kv_blocks.state import Config, Pool, null_block
from cacheimpl.writing import COPYING, Writing


class Filled(NamedTuple):
    """Places of a burst that are full once so many tokens are written; each field is [turns, width]."""

    full: Tensor
    """bool"""
    blocks: Tensor
    """int64: the block of each, the null block where it is not full"""
    contents: Tensor
    """int64: what it then holds"""


def filled(config: Config, pool: Pool, requests: Tensor, ends: Tensor, width: int) -> Filled:
    """Blocks that become full where the tokens before `ends` ([turns] int64) are written; at most so many each.

    Blocks that were hits or are registered are the first of each table, and are left out.
    """
    first = pool.registered.index_select(0, requests)
    columns = first[:, None] + torch.arange(width, device=requests.device)
    full = (columns + 1) * config.block_size <= ends[:, None]
    cells = pool.tables.shape[1]
    where = ((requests * cells)[:, None] + columns.clamp(max=cells - 1)).flatten()
    blocks, contents = (
        table.flatten().index_select(0, where).reshape(columns.shape) for table in (pool.tables, config.contents)
    )
    return Filled(full, torch.where(full, blocks.long(), null_block(pool)), contents)


def commit(
    config: Config, pool: Pool, requests: Tensor, computed: Tensor, *, width: int, write: Writing = COPYING
) -> tuple[Pool, Tensor]:
    """Steps were executed: the KV of each request's tokens before `computed` ([turns] int64) is written.

    What is full can be found from now on, in the order of the turns, behind the copies that there are. Requests are
    distinct rows, or nobody's. Returns the code of each turn: DONE, ABSENT or STALE, or UNANSWERED where more than
    `width` blocks become full.
    """
    written, planned = (column.index_select(0, requests) for column in (pool.computed, pool.scheduled))
    known = pool.blocks.index_select(0, requests) > 0
    current = (computed >= written) & (computed <= planned)
    first = pool.registered.index_select(0, requests)
    too_wide = (first + (width + 1)) * config.block_size <= computed
    done = known & current & ~too_wide
    now = filled(config, pool, requests, torch.where(done, computed, 0), width)
    counts = now.full.sum(1)
    found = torch.where(follows(pool, requests, first)[:, None], now.blocks, null_block(pool)).flatten()
    registering = (found < null_block(pool)).long()
    contents = now.contents.flatten()
    after = pool._replace(
        registered=write.add(pool.registered, requests, counts),
        computed=write.add(pool.computed, requests, (computed - written) * done),
        carried=write.put(pool.carried, found, contents),
        stamp=write.put(pool.stamp, found, pool.clock + registering.cumsum(0)),
        clock=pool.clock + registering.sum(),
        bytes=write.put(pool.bytes, now.blocks.flatten(), contents),
    )
    code = torch.where(known, torch.where(current, int(Code.DONE), int(Code.STALE)), int(Code.ABSENT))
    return after, torch.where(known & current & too_wide, UNANSWERED, code)


def follows(pool: Pool, requests: Tensor, first: Tensor) -> Tensor:
    """[turns] bool: whether the block before this position of the table ([turns] int64) can be found, or there is none.

    If it can, so can all that are registered behind it in one go; if not, none of them.
    """
    cells = pool.tables.shape[1]
    before = pool.tables.flatten().index_select(0, requests * cells + (first - 1).clamp(min=0)).long()
    return (first == 0) | (pool.carried.index_select(0, before) >= 0)
