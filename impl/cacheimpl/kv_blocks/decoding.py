"""One decode step of many requests: what was scheduled is executed, and each gets a slot for one token more.

It is `commit` and then `allocate_slots` of one token each, for requests of which at most the last block becomes full. A
table then lacks a block exactly where its last one is full: one comparison says both, and what is done about it is done
for those few only.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.answer import UNANSWERED, Code
from cacheimpl.kv_blocks.state import Config, Pool, nobody, nothing_of_nobody, null_block, wrapped
from cacheimpl.writing import COPYING, Writing


class Decoded(NamedTuple):
    """What became of a step."""

    executed: Tensor
    """[turns] bool: whose tokens are written: all before the first one that is not for this function"""
    done: Tensor
    """[turns] bool: who was given a slot: the same, before the first one for whom there is no block"""
    turns: Tensor
    """[most] int64: the turns that were given a new block; the number of turns behind the last of them"""
    blocks: Tensor
    """[most] int64: those blocks; the null block behind the last of them"""

    @property
    def served(self) -> Tensor:
        """[] int64: the turns before the first one that was refused or not answered."""
        return self.done.sum()

    @property
    def codes(self) -> Tensor:
        """[turns] int64: DONE, then REFUSED once where a block is lacking, then UNANSWERED."""
        refused = self.executed & torch.nn.functional.pad(self.done, (1, 0), value=True)[:-1]
        code = torch.where(refused, int(Code.REFUSED), UNANSWERED)
        return torch.where(self.done, int(Code.DONE), code)


def decode(
    config: Config, pool: Pool, requests: Tensor, *, most: int | None = None, write: Writing = COPYING
) -> tuple[Pool, Decoded]:
    """All that is scheduled of these requests is executed, in their order; then each gets a slot for one token more.

    Requests ([turns] int64) are distinct rows, of which none is scheduled beyond its length. For `commit` and
    `allocate_slots` are those of which more than the last block may become full, those that have no table (pad with
    nobody behind the others), and those that are as long as the longest request: the first of them ends the step. So
    does the one that would be the first after `most` (as many as there are turns, where it is not given) to need a
    block: the fewer, the faster. Where no block is free, the rest is executed, and not served.
    """
    turns = requests.shape[0]
    width = turns if most is None else most
    held, planned, first, written = (
        column.index_select(0, requests) for column in (pool.blocks, pool.scheduled, pool.registered, pool.computed)
    )
    unsettled = (held - first > 1) | (planned <= 0) | (planned >= config.limit)
    lacking = (planned == held * config.block_size).long()  # types are changed here once: mixed ones cost more
    up_to = lacking.masked_fill(unsettled, width + 1).cumsum(0)
    executed, done = up_to <= width, up_to <= pool.free.clamp(max=width)
    # From here on [most]: the turns whose last block is full, each of which needs one more.
    number = torch.arange(1, width + 1, device=requests.device)
    turn = torch.searchsorted(up_to, number).clamp(max=turns - 1)
    full = up_to.index_select(0, turn) == number
    given, size = full & (number <= pool.free), held.index_select(0, turn)
    more = given.long()
    filled = full & (first.index_select(0, turn) < size)
    who = requests.index_select(0, turn).masked_fill(~full, nobody(pool))
    null, spare = torch.full_like(turn, null_block(pool)), torch.full_like(turn, nothing_of_nobody(pool))
    behind = who * pool.tables.shape[1] + size
    blocks = torch.where(given, pool.order.index_select(0, wrapped(pool, pool.head - 1 + number)), null)
    last = torch.where(filled, behind - 1, spare)
    table = pool.tables.flatten()
    ended, contents = table.index_select(0, last).long(), config.contents.flatten().index_select(0, last)
    before = table.index_select(0, torch.where(filled & (size > 1), behind - 2, spare))
    chained = (pool.carried.index_select(0, before) >= 0) | (size == 1)
    found = torch.where(chained, ended, null)
    total = more.sum()
    after = pool._replace(
        tables=write.put(pool.tables, torch.where(given, behind, spare), blocks.to(pool.tables.dtype)),
        blocks=write.add(pool.blocks, who, more),
        registered=write.add(pool.registered, who, filled.long()),
        computed=write.put(pool.computed, requests, torch.where(executed, planned, written)),
        scheduled=write.put(pool.scheduled, requests, planned + done.long()),
        references=write.put(pool.references, blocks, 1),
        carried=write.put(write.put(pool.carried, found, contents), blocks, -1),
        stamp=write.put(pool.stamp, found, pool.clock + number),
        bytes=write.put(write.put(pool.bytes, ended, contents), blocks, -1),
        head=wrapped(pool, pool.head + total),
        free=pool.free - total,
        clock=pool.clock + width,
    )
    return after, Decoded(executed, done, turn.masked_fill(~given, turns), blocks)
