"""What execution does to the blocks: tokens are written, and full blocks can be found from then on."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.answer import UNANSWERED, Code
from cacheimpl.constants import constant
from cacheimpl.kv_blocks.spreading import Pieces, spread, whole_blocks
from cacheimpl.kv_blocks.state import Config, Pool, nothing_of_nobody, null_block, severed
from cacheimpl.table import row
from cacheimpl.writing import COPYING, Writing


class Filled(NamedTuple):
    """Blocks that are full once so many tokens are written; each field is [pieces]."""

    full: Tensor
    """bool: whether it is one"""
    blocks: Tensor
    """int64: the block, the null block where it is not full"""
    contents: Tensor
    """int64: what it then holds"""


def full_blocks(config: Config, tokens: Tensor, done: Tensor, width: int) -> Tensor:
    """[turns] int64: how many blocks of each table become full, at most `width`.

    `tokens` ([turns] int64): so many are written then behind the blocks that were hits or are registered. 0 for those
    that are not done ([turns] bool).
    """
    if width == 1:
        return (done & (tokens >= config.block_size)).long()
    return torch.where(done, whole_blocks(tokens, config.block_size, width), constant(0, tokens.device))


def filled(config: Config, pool: Pool, requests: Tensor, first: Tensor, pieces: Pieces) -> Filled:
    """The pieces of a burst: those that become full of the blocks behind the `first` ones ([turns] int64) of each."""
    places = pieces.cells(requests, first, pool.tables.shape[1])
    where = torch.where(pieces.there, places, constant(nothing_of_nobody(pool), places.device))
    blocks, contents = (table.flatten().index_select(0, where) for table in (pool.tables, config.contents))
    return Filled(pieces.there, blocks.long(), contents)


class Committed(NamedTuple):
    """What became of a burst; each field is [turns]."""

    held: Tensor
    """int64: how many blocks each has; 0 where there is no table"""
    current: Tensor
    """bool: whose count of computed tokens is one of now"""
    too_wide: Tensor
    """bool: of whom more blocks become full than may"""

    @property
    def codes(self) -> Tensor:
        """[turns] int64: DONE, ABSENT or STALE; UNANSWERED where nothing was done."""
        known = self.held > 0
        code = torch.where(known, torch.where(self.current, int(Code.DONE), int(Code.STALE)), int(Code.ABSENT))
        return torch.where(known & self.current & self.too_wide, UNANSWERED, code)


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
    unregistered = computed - first * config.block_size
    # Who has no table has computed nothing and will not: 0 is the one count that is current, and fills no block.
    current, too_wide = computed.clamp(written, planned) == computed, unregistered >= (width + 1) * config.block_size
    done = current & ~too_wide
    counts = full_blocks(config, unregistered, done, width)
    up_to = counts.cumsum(0)
    if most is not None:
        within = up_to <= constant(most, computed.device)
        done, too_wide, counts = (
            done & within,
            too_wide | ~within,
            torch.where(within, counts, constant(0, computed.device)),
        )
    pieces = spread(counts, width, most, up_to=up_to)
    now = filled(config, pool, requests, first, pieces)
    null = constant(null_block(pool), computed.device)
    registering = torch.where(pieces.of(pool.severed.index_select(0, requests)), null, now.blocks)
    after = pool._replace(
        registered=pieces.counted(requests, counts, write, pool.registered),
        computed=write.put(pool.computed, requests, torch.where(done, computed, written)),
        carried=write.put(pool.carried, registering, now.contents),
        stamp=write.put(pool.stamp, registering, pool.clock + 1 + pieces.rank),
        clock=pool.clock + pieces.total,
        bytes=write.put(pool.bytes, now.blocks, now.contents) if write.history else pool.bytes,
    )
    return after, Committed(held, current, too_wide)


def roll_back(config: Config, pool: Pool, request: Tensor, computed: Tensor) -> tuple[Pool, Tensor]:
    """The request's tokens from `computed` on are computed again; both operands are [] int64.

    Their blocks have no KV that counts, and cannot be found. Returns the code: DONE; REFUSED where one of them is in
    another table too; STALE where fewer tokens are computed; ABSENT without a table.
    """
    null = null_block(pool)
    held, written = row(pool.blocks, request), row(pool.computed, request)
    first = torch.div(computed.clamp(min=0), config.block_size, rounding_mode="floor")
    places = torch.arange(pool.tables.shape[1], device=request.device)
    its = (places >= first) & (places < held)
    blocks = torch.where(its, row(pool.tables, request).long(), null)
    shared = (its & (pool.references.index_select(0, blocks) > 1)).any()
    known, current = held > 0, (computed >= 0) & (computed <= written)
    done = known & current & ~shared
    again = torch.zeros_like(pool.carried, dtype=torch.bool).index_fill(0, torch.where(done, blocks, null), value=True)
    who = (torch.arange(pool.blocks.shape[0], device=request.device) == request) & done
    after = pool._replace(
        carried=torch.where(again, -1, pool.carried),
        bytes=torch.where(again, -1, pool.bytes),
        registered=torch.where(who, pool.registered.clamp(max=first), pool.registered),
        origin=torch.where(who, pool.origin.clamp(max=first * config.block_size), pool.origin),
        computed=torch.where(who, computed, pool.computed),
        scheduled=torch.where(who, computed, pool.scheduled),
    )
    refused = torch.where(current, torch.where(shared, int(Code.REFUSED), int(Code.DONE)), int(Code.STALE))
    return after._replace(severed=severed(after)), torch.where(known, refused, int(Code.ABSENT))
