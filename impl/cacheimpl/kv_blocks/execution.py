"""What execution does to the blocks: tokens are written, and full blocks can be found from then on."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.answer import UNANSWERED, Code
from cacheimpl.kv_blocks.state import Config, Pool, nothing_of_nobody, null_block
from cacheimpl.writing import COPYING, Writing


class Filled(NamedTuple):
    """Places of a burst that are full once so many tokens are written; each field is [turns, width]."""

    full: Tensor
    """bool"""
    blocks: Tensor
    """int64: the block of each, the null block where it is not full"""
    contents: Tensor
    """int64: what it then holds"""


def filled(config: Config, pool: Pool, requests: Tensor, first: Tensor, ends: Tensor, width: int) -> Filled:
    """Blocks that become full where the tokens before `ends` ([turns] int64) are written; at most so many each.

    `first` ([turns] int64) is how many blocks of each table were hits or are registered: those are left out.
    """
    row = torch.arange(width, device=requests.device)
    full = ends[:, None] >= (first * config.block_size)[:, None] + (row + 1) * config.block_size
    cells = pool.tables.shape[1]
    places = (requests * cells + first)[:, None] + row
    where = torch.where(full, places, nothing_of_nobody(pool)).flatten()
    blocks, contents = (
        table.flatten().index_select(0, where).reshape(full.shape) for table in (pool.tables, config.contents)
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
    held, written, planned, first = (
        column.index_select(0, requests) for column in (pool.blocks, pool.computed, pool.scheduled, pool.registered)
    )
    known, current = held > 0, computed.clamp(written, planned) == computed
    too_wide = (first + (width + 1)) * config.block_size <= computed
    done = known & current & ~too_wide
    now = filled(config, pool, requests, first, torch.where(done, computed, 0), width)
    counts = now.full.sum(1)
    found = torch.where(follows(pool, requests, first, counts > 0)[:, None], now.blocks, null_block(pool)).flatten()
    registering = (found < null_block(pool)).long()
    contents = now.contents.flatten()
    after = pool._replace(
        registered=write.add(pool.registered, requests, counts),
        computed=write.put(pool.computed, requests, torch.where(done, computed, written)),
        carried=write.put(pool.carried, found, contents),
        stamp=write.put(pool.stamp, found, pool.clock + registering.cumsum(0)),
        clock=pool.clock + registering.sum(),
        bytes=write.note(pool.bytes, now.blocks.flatten(), contents),
    )
    code = torch.where(known, torch.where(current, int(Code.DONE), int(Code.STALE)), int(Code.ABSENT))
    return after, torch.where(known & current & too_wide, UNANSWERED, code)


def follows(pool: Pool, requests: Tensor, first: Tensor, asked: Tensor) -> Tensor:
    """[turns] bool: whether the block before this position of the table ([turns] int64) can be found, or there is none.

    If it can, so can all that are registered behind it in one go; if not, none of them. Arbitrary where it is not
    asked ([turns] bool).
    """
    cells = pool.tables.shape[1]
    place = torch.where(asked & (first > 0), requests * cells + first - 1, nothing_of_nobody(pool))
    before = pool.tables.flatten().index_select(0, place).long()
    return (first == 0) | (pool.carried.index_select(0, before) >= 0)
