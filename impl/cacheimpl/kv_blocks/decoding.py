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
from cacheimpl.constants import constant, counting
from cacheimpl.kv_blocks.state import Config, Pool, nothing_of_nobody, null_block, wrapped
from cacheimpl.writing import COPYING, Writing


class Decoded(NamedTuple):
    """What became of a step."""

    executed: Tensor
    """[turns] bool: whose tokens are written: all before the first one that is not for this function"""
    done: Tensor
    """[turns] bool: was given a slot: executed, and before the first turn that lacks a block"""
    turn: Tensor
    """[most] int64: the turns that were given a new block, where `given`; anything behind the last of them"""
    given: Tensor
    """[most] bool: whether there is one"""
    blocks: Tensor
    """[most] int64: those blocks; the null block behind the last of them"""

    @property
    def turns(self) -> Tensor:
        """[most] int64: the turns that were given a new block; the number of turns behind the last of them."""
        return self.turn.masked_fill(~self.given, self.done.shape[0])

    @property
    def complete(self) -> Tensor:
        """[] bool: whether all turns were served; served turns come first, so the last turn decides."""
        return self.done[-1]

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
    device = requests.device
    unit, most_of_all, beyond = constant(1, device), constant(width, device), constant(width + 1, device)
    null, spare = constant(null_block(pool), device), constant(nothing_of_nobody(pool), device)
    planned, written = pool.scheduled.index_select(0, requests), pool.computed.index_select(0, requests)
    room = pool.blocks.index_select(0, requests) * config.block_size
    unwritten = room - written  # where it is more than a block, more than the last block is not registered
    unsettled = (unwritten > config.block_size) | (planned < unit) | (planned >= config.limit)
    lacking = (planned == room).long()  # types are changed here once: mixed ones cost more
    up_to = torch.where(unsettled, beyond, lacking).cumsum(0)
    executed, done = up_to < beyond, up_to <= torch.minimum(pool.free, most_of_all)
    # From here on [most]: the turns whose last block is full, each of which needs one more. Where there is none, the
    # last turn stands for it, and nothing is added to it.
    rank = counting(width, device)
    turn = torch.searchsorted(up_to[:-1], rank, right=True)
    full = up_to.index_select(0, turn) - unit == rank
    given, who = full & (rank < pool.free), requests.index_select(0, turn)
    filled = full & (unwritten.index_select(0, turn) >= unit)
    more, behind = given.long(), who * pool.tables.shape[1] + pool.blocks.index_select(0, who)
    blocks = torch.where(given, pool.order.index_select(0, wrapped(pool, pool.head + rank)), null)
    last = torch.where(filled, behind - unit, spare)
    ended = pool.tables.flatten().index_select(0, last).long()
    contents = config.contents.flatten().index_select(0, last)
    registering = torch.where(pool.severed.index_select(0, who), null, ended)
    total = more.sum()
    after = pool._replace(
        tables=write.put(pool.tables, torch.where(given, behind, spare), blocks.to(pool.tables.dtype)),
        blocks=write.add(pool.blocks, who, more),
        registered=write.add(pool.registered, who, filled.long()),
        computed=write.put(pool.computed, requests, torch.where(executed, planned, written)),
        scheduled=write.add(pool.scheduled, requests, done.long()),
        references=write.put(pool.references, blocks, more),
        carried=write.put(write.put(pool.carried, registering, contents), blocks, -1),
        stamp=write.put(pool.stamp, registering, pool.clock + unit + rank),
        head=pool.head + total,
        free=pool.free - total,
        clock=pool.clock + beyond,
        bytes=write.put(write.put(pool.bytes, ended, contents), blocks, -1) if write.history else pool.bytes,
    )
    return after, Decoded(executed, done, turn, given, blocks)
