"""Slots for the next tokens of requests, a burst at a time: as many blocks more as each needs, from the free queue."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.answer import UNANSWERED, Code
from cacheimpl.kv_blocks.state import Config, Pool, nobody, null_block
from cacheimpl.kv_blocks.writing import COPIED, Writing


class Slots(NamedTuple):
    """What became of a burst, turn by turn."""

    done: Tensor
    """[turns] bool: who was given slots"""
    large: Tensor
    """[turns] bool: who would be longer than the longest request"""
    stale: Tensor
    """[turns] bool: whose count of computed tokens is not that of now"""
    refused: Tensor
    """[turns] bool: who asks for nothing, or for more than is left"""
    stops: Tensor
    """[turns] int64: how many turns, up to and with this one, were refused or need more blocks than the call is wide;
    what comes behind the first of them waits"""
    blocks: Tensor
    """[turns, width] int64: the new blocks of each, the null block behind them"""
    lengths: Tensor
    """[turns] int64: how many new blocks each was given"""

    @property
    def served(self) -> Tensor:
        """[] int64: the turns before the first one that was refused, or not answered."""
        return (self.stops == 0).sum()

    @property
    def codes(self) -> Tensor:
        """[turns] int64: DONE, TOO_LARGE, STALE or REFUSED; UNANSWERED where nothing was decided."""
        refused = torch.where(self.done, int(Code.DONE), int(Code.REFUSED))
        stale = torch.where(self.stale, int(Code.STALE), refused)
        code = torch.where(self.large, int(Code.TOO_LARGE), stale)
        first = torch.nn.functional.pad(self.stops, (1, -1)) == 0
        return torch.where((self.stops == 0) | (first & self.refused), code, UNANSWERED)


def allocate_slots(
    config: Config,
    pool: Pool,
    requests: Tensor,
    computed: Tensor,
    tokens: Tensor,
    *,
    width: int,
    write: Writing = COPIED,
) -> tuple[Pool, Slots]:
    """Slots for so many tokens more of each request ([turns] int64 each), one after the other until one is refused.

    Requests are distinct rows, or nobody's, who is passed over. `computed`: tokens that the request's table covers as
    computed. `width` (blocks) is the most that one of them may need: 1 for a step of one token each. A turn that needs
    more is not answered, and nobody after it is served.
    """
    row = torch.arange(width, device=requests.device)
    held, written, planned = (
        column.index_select(0, requests) for column in (pool.blocks, pool.computed, pool.scheduled)
    )
    end = computed + tokens
    columns = held[:, None] + row
    lacking = columns * config.block_size < end[:, None]
    large, stale = end > config.limit, (computed < written) | (computed > planned)
    possible = (requests < nobody(pool)) & ~(large | stale)
    needs = (lacking & possible[:, None]).sum(1)
    up_to = needs.cumsum(0)
    too_wide = (held + width) * config.block_size < end
    refused = (tokens <= 0) | (up_to > pool.free)
    stops = (possible & (refused | too_wide)).cumsum(0)
    done = possible & (stops == 0)
    given = needs * done
    total = given.sum()
    blocks = next_blocks(pool, (up_to - needs)[:, None] + row, lacking & done[:, None])
    taken, nothing = blocks.flatten(), torch.full_like(blocks, -1).flatten()
    cells = pool.tables.shape[1]
    behind = (requests * cells)[:, None] + columns.clamp(max=cells - 1)
    after = pool._replace(
        tables=write.put(pool.tables, behind.flatten(), taken.to(pool.tables.dtype)),
        blocks=write.add(pool.blocks, requests, given),
        scheduled=write.add(pool.scheduled, requests, (end - planned) * done),
        references=write.put(pool.references, taken, torch.ones_like(taken)),
        carried=write.put(pool.carried, taken, nothing),
        bytes=write.put(pool.bytes, taken, nothing),
        head=(pool.head + total) % null_block(pool),
        free=pool.free - total,
    )
    return after, Slots(done, large, stale, refused, stops, blocks, given)


def next_blocks(pool: Pool, places: Tensor, wanted: Tensor) -> Tensor:
    """The blocks at these places of the free queue (int64), the null block where none is wanted (bool, same shape)."""
    null = null_block(pool)
    cells = ((places + pool.head) % null).flatten()
    return torch.where(wanted, pool.order.index_select(0, cells).reshape(places.shape), null)
