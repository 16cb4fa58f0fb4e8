"""Slots for the next tokens of requests, a burst at a time: as many blocks more as each needs, from the free queue."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.answer import UNANSWERED, Code
from cacheimpl.constants import constant
from cacheimpl.kv_blocks.spreading import spread, whole_blocks
from cacheimpl.kv_blocks.state import Config, Pool, nobody, nothing_of_nobody, null_block, wrapped
from cacheimpl.writing import COPYING, Writing


class Ask(NamedTuple):
    """The demand of a burst. Fields without a shape are [turns]."""

    requests: Tensor
    """int64: distinct rows, or nobody's"""
    end: Tensor
    """int64, tokens: there are to be slots for those before this one"""
    planned: Tensor
    """int64, tokens: there are slots for those before this one"""
    owned: Tensor
    """int64: how many blocks the table has, hits included"""
    possible: Tensor
    """bool: may be served, if blocks are free"""
    needs: Tensor
    """int64: how many new blocks; 0 for those that are turned down"""
    up_to: Tensor
    """int64: how many new blocks for this turn and those before it"""
    too_wide: Tensor
    """bool: needs more blocks than `width`"""
    width: int
    """The most that one of them may need"""


class Slots(NamedTuple):
    """What became of a burst, turn by turn."""

    done: Tensor
    """[turns] bool: was given slots"""
    large: Tensor
    """[turns] bool: would exceed the longest request"""
    present: Tensor
    """[turns] bool: has hits and a table already"""
    stale: Tensor
    """[turns] bool: whose hits or count of computed tokens are not those of now"""
    refused: Tensor
    """[turns] bool: asks for no tokens, or for more blocks than are free"""
    reached: Tensor
    """[turns] bool: comes before the first turn that was refused or unanswered; later turns wait"""
    blocks: Tensor
    """[turns, width] int64: the new blocks of each, the null block behind them; where `most` was given, [most] int64:
    those of all turns, one after the other, the null block behind the last"""
    lengths: Tensor
    """[turns] int64: how many new blocks each was given"""

    @property
    def served(self) -> Tensor:
        """[] int64: the turns before the first one that was refused, or not answered."""
        return self.reached.sum()

    @property
    def codes(self) -> Tensor:
        """[turns] int64: DONE, TOO_LARGE, PRESENT, STALE or REFUSED; UNANSWERED where nothing was decided."""
        code = torch.where(self.done, int(Code.DONE), int(Code.REFUSED))
        for wrong, refusal in ((self.stale, Code.STALE), (self.present, Code.PRESENT), (self.large, Code.TOO_LARGE)):
            code = torch.where(wrong, int(refusal), code)
        first = torch.nn.functional.pad(self.reached, (1, 0), value=True)[:-1]
        return torch.where(self.reached | (first & self.refused), code, UNANSWERED)


def allocate_slots(
    config: Config,
    pool: Pool,
    requests: Tensor,
    computed: Tensor,
    tokens: Tensor,
    *,
    width: int,
    most: int | None = None,
    write: Writing = COPYING,
) -> tuple[Pool, Slots]:
    """Slots for so many tokens more of each request ([turns] int64 each), one after the other until one is refused.

    Requests are distinct rows, or nobody's, who is passed over. `computed`: tokens that the request's table covers as
    computed. `width` (blocks) is the most that one of them may need: 1 for a step of one token each. A turn that needs
    more is not answered, and nobody after it is served. So is one that would need, with those before it, more than
    `most`, where that is given: the fewer, the faster.
    """
    held, written, planned = (
        column.index_select(0, requests) for column in (pool.blocks, pool.computed, pool.scheduled)
    )
    end = computed + tokens
    large, stale = end > config.limit, computed.clamp(written, planned) != computed
    ask = asked(config, pool, requests, end, planned, held, ~(large | stale), width)
    refused = (tokens < constant(1, tokens.device)) | (ask.up_to > pool.free)
    unanswered = ask.too_wide if most is None else ask.too_wide | (ask.up_to > constant(most, tokens.device))
    reached = (ask.possible & (refused | unanswered)).cumsum(0) < constant(1, tokens.device)
    done = ask.possible & reached
    after, blocks, given = with_slots(pool, ask, done, write, most)
    return after, Slots(done, large, torch.zeros_like(large), stale, refused, reached, blocks, given)


def asked(
    config: Config,
    pool: Pool,
    requests: Tensor,
    end: Tensor,
    planned: Tensor,
    owned: Tensor,
    allowed: Tensor,
    width: int,
) -> Ask:
    """The new blocks of a burst, each [turns]: `owned` is how many blocks a table has, hits included."""
    device = requests.device
    uncovered = end - owned * config.block_size
    possible = (requests < constant(nobody(pool), device)) & allowed
    if width == 1:
        needs = (possible & (uncovered >= constant(1, device))).long()
    else:
        missing = whole_blocks(uncovered + (config.block_size - 1), config.block_size, width)
        needs = torch.where(possible, missing, constant(0, device))
    too_wide = uncovered > width * config.block_size
    return Ask(requests, end, planned, owned, possible, needs, needs.cumsum(0), too_wide, width)


def with_slots(
    pool: Pool, ask: Ask, done: Tensor, write: Writing, most: int | None = None
) -> tuple[Pool, Tensor, Tensor]:
    """Those that are done ([turns] bool) are given the next free blocks; also the blocks, and how many each was given.

    Whoever needs a block and comes before one that is done has to be done. Where `most` is given, they need no more in
    all, and the blocks are [most].
    """
    device = done.device
    null, spare = constant(null_block(pool), device), constant(nothing_of_nobody(pool), device)
    given = torch.where(done, ask.needs, constant(0, device))
    pieces = spread(given, ask.width, most, up_to=ask.up_to)
    there, total = pieces.there, pieces.total
    taken = torch.where(there, pool.order.index_select(0, wrapped(pool, pieces.rank + pool.head)), null)
    nothing = torch.full_like(taken, -1)
    behind = pieces.cells(ask.requests, ask.owned, pool.tables.shape[1])
    after = pool._replace(
        tables=write.put(pool.tables, torch.where(there, behind, spare), taken.to(pool.tables.dtype)),
        blocks=pieces.counted(ask.requests, given, write, pool.blocks),
        scheduled=write.put(pool.scheduled, ask.requests, torch.where(done, ask.end, ask.planned)),
        references=write.put(pool.references, taken, there.long()),
        carried=write.put(pool.carried, taken, nothing),
        bytes=write.put(pool.bytes, taken, nothing) if write.history else pool.bytes,
        head=wrapped(pool, pool.head + total),
        free=pool.free - total,
    )
    return after, taken.reshape(-1, ask.width) if most is None else taken, given
