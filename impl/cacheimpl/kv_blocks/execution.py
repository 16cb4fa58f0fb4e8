"""What execution does to the blocks: tokens are written, and full blocks can be found from then on."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.answer import UNANSWERED, Code
from cacheimpl.kv_blocks.spreading import Pieces, spread, whole_blocks
from cacheimpl.kv_blocks.state import Config, Pool, nothing_of_nobody, null_block
from cacheimpl.writing import COPYING, Writing


class Filled(NamedTuple):
    """Blocks that are full once so many tokens are written; each field is [pieces]."""

    full: Tensor
    """bool: whether it is one"""
    blocks: Tensor
    """int64: the block, the null block where it is not full"""
    contents: Tensor
    """int64: what it then holds"""


def full_blocks(config: Config, first: Tensor, ends: Tensor, width: int) -> Tensor:
    """[turns] int64: how many blocks of each table become full where the tokens before `ends` ([turns]) are written.

    At most `width`. `first` ([turns] int64) is how many of each table were hits or are registered: they do not count.
    """
    return whole_blocks(ends - first * config.block_size, config.block_size, width)


def filled(config: Config, pool: Pool, requests: Tensor, first: Tensor, pieces: Pieces) -> Filled:
    """The pieces of a burst: those that become full of the blocks behind the `first` ones ([turns] int64) of each."""
    places = pieces.counted_from(requests * pool.tables.shape[1] + first)
    where = torch.where(pieces.there, places, nothing_of_nobody(pool))
    blocks, contents = (table.flatten().index_select(0, where) for table in (pool.tables, config.contents))
    return Filled(pieces.there, torch.where(pieces.there, blocks.long(), null_block(pool)), contents)


class Committed(NamedTuple):
    """What became of a burst; each field is [turns] bool."""

    known: Tensor
    """Who has a table"""
    current: Tensor
    """Whose count of computed tokens is one of now"""
    too_wide: Tensor
    """Of whom more blocks become full than may"""

    @property
    def codes(self) -> Tensor:
        """[turns] int64: DONE, ABSENT or STALE; UNANSWERED where nothing was done."""
        code = torch.where(self.known, torch.where(self.current, int(Code.DONE), int(Code.STALE)), int(Code.ABSENT))
        return torch.where(self.known & self.current & self.too_wide, UNANSWERED, code)


def commit(
    config: Config,
    pool: Pool,
    requests: Tensor,
    computed: Tensor,
    *,
    width: int,
    most: int | None = None,
    write: Writing = COPYING,
) -> tuple[Pool, Committed]:
    """Steps were executed: the KV of each request's tokens before `computed` ([turns] int64) is written.

    What is full can be found from now on, in the order of the turns, behind the copies that there are. Requests are
    distinct rows, or nobody's. A turn is not answered where more than `width` blocks become full, or, where `most` is
    given, more than that with those of all turns before.
    """
    held, written, planned, first = (
        column.index_select(0, requests) for column in (pool.blocks, pool.computed, pool.scheduled, pool.registered)
    )
    known, current = held > 0, computed.clamp(written, planned) == computed
    too_wide = (first + (width + 1)) * config.block_size <= computed
    done = known & current & ~too_wide
    counts = full_blocks(config, first, torch.where(done, computed, 0), width)
    if most is not None:
        too_wide = too_wide | (counts.cumsum(0) > most)
        done = done & ~too_wide
        counts = counts * done
    pieces = spread(counts, width, most)
    now = filled(config, pool, requests, first, pieces)
    found = torch.where(pool.severed.index_select(0, pieces.of(requests)), null_block(pool), now.blocks)
    registering = (found < null_block(pool)).long()
    after = pool._replace(
        registered=write.add(pool.registered, requests, counts),
        computed=write.put(pool.computed, requests, torch.where(done, computed, written)),
        carried=write.put(pool.carried, found, now.contents),
        stamp=write.put(pool.stamp, found, pool.clock + registering.cumsum(0)),
        clock=pool.clock + registering.sum(),
        bytes=write.put(pool.bytes, now.blocks, now.contents) if write.history else pool.bytes,
    )
    return after, Committed(known, current, too_wide)
