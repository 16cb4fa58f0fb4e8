"""The decode step of the KV blocks as one kernel: slots, registration, positions, lengths and the slot mapping."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from cacheimpl.kernels.launching import Kernel
from cacheimpl.kv_blocks.state import Config, Pool, nobody
from cacheimpl.kv_blocks.steps import Step

ALONE = 1024
"""The largest number of turns that one program handles in one launch. A larger step takes two launches: the first
counts the blocks that each program's turns need."""
TURNS_OF_A_PROGRAM = 256
LEAST_TURNS = 32
"""Of a program: a warp"""


def count_uses(
    requests: tl.tensor,
    scheduled: tl.tensor,
    computed: tl.tensor,
    blocks: tl.tensor,
    head: tl.tensor,
    free: tl.tensor,
    clock: tl.tensor,
    sums: tl.tensor,
    before: tl.tensor,
    remaining: tl.tensor,
    turns: tl.tensor,
    width: tl.tensor,
    limit: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
    TURNS: tl.constexpr,
) -> None:
    """The first of two launches: how many blocks the turns of each program need, and the pool's counts beforehand.

    A turn that ends the step counts as more than any step may need.
    """
    program = tl.program_id(0)
    turn = program * TURNS + tl.arange(0, TURNS)
    there = turn < turns
    who = tl.load(requests + turn, mask=there, other=0)
    planned = tl.load(scheduled + who, mask=there, other=0)
    written = tl.load(computed + who, mask=there, other=0)
    room = tl.load(blocks + who, mask=there, other=0) * BLOCK_SIZE
    unsettled = (room - written > BLOCK_SIZE) | (planned < 1) | (planned >= limit)
    uses = tl.where(unsettled, width + 1, (planned == room).to(tl.int32)).to(tl.int64)
    uses = tl.where(there, uses, 0)
    tl.store(sums + program, tl.reduce(uses, 0, tl.standard._sum_combine))
    if program == 0:
        tl.store(before, tl.load(head))
        tl.store(before + 1, tl.load(free))
        tl.store(before + 2, tl.load(clock))
        tl.store(remaining, tl.load(head) * 0)


def decode_turns(
    requests: tl.tensor,
    tables: tl.tensor,
    blocks: tl.tensor,
    registered: tl.tensor,
    severed: tl.tensor,
    computed: tl.tensor,
    scheduled: tl.tensor,
    references: tl.tensor,
    order: tl.tensor,
    head: tl.tensor,
    free: tl.tensor,
    carried: tl.tensor,
    stamp: tl.tensor,
    clock: tl.tensor,
    history: tl.tensor,
    contents: tl.tensor,
    sums: tl.tensor,
    before: tl.tensor,
    remaining: tl.tensor,
    served: tl.tensor,
    done_before: tl.tensor,
    positions: tl.tensor,
    lengths: tl.tensor,
    slots: tl.tensor,
    turns: tl.tensor,
    width: tl.tensor,
    limit: tl.tensor,
    columns: tl.tensor,
    nobody: tl.tensor,
    last_cell: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
    TURNS: tl.constexpr,
    PROGRAMS: tl.constexpr,
    HISTORY: tl.constexpr,
) -> None:
    """The whole step of some turns; with several programs after `count_uses`.

    `history` is the pool's `bytes`, `served` and `done_before` are `done` and `executed` of the step. Rows of a burst
    are distinct, and nobody's row is not written: so no two programs write the same cell. All read the pool's counts
    before the one that ends the step writes them.
    """
    program = tl.program_id(0)
    turn = program * TURNS + tl.arange(0, TURNS)
    there = turn < turns
    who = tl.load(requests + turn, mask=there, other=0)
    planned = tl.load(scheduled + who, mask=there, other=0)
    written = tl.load(computed + who, mask=there, other=0)
    owned = tl.load(blocks + who, mask=there, other=0)
    if PROGRAMS == 1:
        head_before = tl.load(head)
        free_before = tl.load(free)
        clock_before = tl.load(clock)
        first = head_before * 0
    else:
        head_before = tl.load(before)
        free_before = tl.load(before + 1)
        clock_before = tl.load(before + 2)
        other = tl.arange(0, PROGRAMS)
        of_others = tl.load(sums + other, mask=other < program, other=0)
        first = tl.reduce(of_others, 0, tl.standard._sum_combine)
    # What each turn is: the comparisons of `kv_blocks.decode`.
    room = owned * BLOCK_SIZE
    unwritten = room - written
    unsettled = (unwritten > BLOCK_SIZE) | (planned < 1) | (planned >= limit)
    uses = tl.where(unsettled, width + 1, (planned == room).to(tl.int32)).to(tl.int64)
    uses = tl.where(there, uses, 0)
    up_to = first + tl.associative_scan(uses, 0, tl.standard._sum_combine)
    executed = there & (up_to <= width)
    done = executed & (up_to <= free_before)
    full = executed & (planned == room)
    rank = up_to - 1
    given = full & (rank < free_before)
    filled = full & (unwritten >= 1)
    # The block that the next token goes to, and the one that became full.
    row = who * columns
    cell = tl.where(full, row + owned - 1, row + planned // BLOCK_SIZE)
    held = tl.load(tables + cell, mask=executed, other=0).to(tl.int64)
    content = tl.load(contents + cell, mask=filled, other=-1)
    cut = tl.load(severed + who, mask=filled, other=0)
    found = filled & (cut == 0)
    count = tl.load(registered + who, mask=filled, other=0)
    block = tl.load(order + ((head_before + rank) & last_cell), mask=given, other=0)
    tl.store(tables + row + owned, block.to(tl.int32), mask=given)
    tl.store(blocks + who, owned + 1, mask=given)
    tl.store(registered + who, count + 1, mask=filled)
    tl.store(computed + who, planned, mask=executed)
    tl.store(scheduled + who, planned + 1, mask=done)
    tl.store(references + block, given.to(tl.int64), mask=given)
    tl.store(carried + held, content, mask=found)
    tl.store(stamp + held, clock_before + 1 + rank, mask=found)
    nothing = given.to(tl.int64) * 0 - 1
    tl.store(carried + block, nothing, mask=given)
    if HISTORY:
        tl.store(history + held, content, mask=filled)
        tl.store(history + block, nothing, mask=given)
    # What an attention kernel reads.
    slot = tl.where(full, block, held) * BLOCK_SIZE + planned % BLOCK_SIZE
    tl.store(served + turn, done, mask=there)
    tl.store(done_before + turn, executed, mask=there)
    tl.store(positions + turn, tl.where(done, planned, 0), mask=there)
    tl.store(lengths + turn, tl.where(done, planned + 1, 0), mask=there)
    tl.store(slots + turn, tl.where(done, slot, -1), mask=there)
    left = tl.reduce((there & (who < nobody) & (done == 0)).to(tl.int64), 0, tl.standard._sum_combine)
    # The program in which the step ends writes the counts.
    own = tl.reduce(uses, 0, tl.standard._sum_combine)
    blocks_needed = first + tl.reduce(full.to(tl.int64), 0, tl.standard._sum_combine)
    taken = tl.minimum(blocks_needed, free_before)
    if PROGRAMS == 1:
        tl.debug_barrier()
        tl.store(remaining, left)
        tl.store(head, head_before + taken)
        tl.store(free, free_before - taken)
        tl.store(clock, clock_before + width + 1)
    else:
        tl.atomic_add(remaining, left)
        last = program == tl.num_programs(0) - 1
        ends = (first <= width) & ((first + own > width) | last)
        tl.store(head, head_before + taken, mask=ends)
        tl.store(free, free_before - taken, mask=ends)
        tl.store(clock, clock_before + width + 1, mask=ends)


COUNT, DECODE = Kernel(count_uses), Kernel(decode_turns)


class Launch(NamedTuple):
    """One launch of a step, with its arguments by name."""

    name: str
    kernel: Kernel
    programs: int
    warps: int
    given: dict[str, Any]


class FusedStep:
    """`kv_blocks.step` as one or two kernels. It changes the pool in place.

    A turn is one request of a step. `turns` is the number of turns in each call. `tile` is the number of turns of one
    program, a power of two (default: chosen by `turns`). With `history`, the kernels also write the pool's history,
    which no answer depends on. The constructor reads the configuration's block size and limit, both in tokens.

    The pool's tensors and the result's tensors stay at their addresses, so a CUDA graph can record a call. Each call
    overwrites the previous result.

    Programs run in any order. Each writes the cells of its own turns. The program in which the step ends writes the
    pool's counts; the others read the copy that the first launch made.
    """

    def __init__(
        self,
        config: Config,
        pool: Pool,
        turns: int,
        *,
        most: int | None = None,
        history: bool = False,
        tile: int | None = None,
    ) -> None:
        device = pool.tables.device
        self.config, self.pool, self.turns, self.history = config, pool, turns, history
        self.width = turns if most is None else most
        self._block_size, self._limit = int(config.block_size), int(config.limit)
        self._turns = tile_of(turns) if tile is None else tile
        self._programs = -(-turns // self._turns)

        def column(dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(turns, dtype=dtype, device=device)

        self._sums = torch.zeros(power_of_two(self._programs), dtype=torch.int64, device=device)
        self._before = torch.zeros(3, dtype=torch.int64, device=device)
        remaining = torch.zeros((), dtype=torch.int64, device=device)
        self.result = Step(remaining, column(torch.bool), column(torch.bool), column(), column(), column())

    def __call__(self, requests: Tensor) -> Step:
        """Give each of these requests ([turns] int64) its next slot, in their order."""
        for launch in self.launches(requests):
            launch.kernel.launch(launch.programs, launch.warps, **launch.given)
        return self.result

    def launches(self, requests: Tensor) -> list[Launch]:
        """The launches in their order: one kernel, or two if the turns need more than one program."""
        warps = max(1, min(8, self._turns // 64))
        decode = Launch("decode_turns", DECODE, self._programs, warps, self._of_decode(requests))
        if self._programs == 1:
            return [decode]
        return [Launch("count_uses", COUNT, self._programs, warps, self._of_count(requests)), decode]

    def _of_count(self, requests: Tensor) -> dict[str, Any]:
        pool = self.pool
        return {
            "requests": requests,
            "scheduled": pool.scheduled,
            "computed": pool.computed,
            "blocks": pool.blocks,
            "head": pool.head,
            "free": pool.free,
            "clock": pool.clock,
            "sums": self._sums,
            "before": self._before,
            "remaining": self.result.remaining,
            **self._sizes(),
            "BLOCK_SIZE": self._block_size,
            "TURNS": self._turns,
        }

    def _of_decode(self, requests: Tensor) -> dict[str, Any]:
        pool, result = self.pool, self.result
        named = pool._asdict()
        named.pop("origin")
        return {
            "requests": requests,
            **{name: named[name] for name in named if name != "bytes"},
            "history": pool.bytes,
            "contents": self.config.contents,
            "sums": self._sums,
            "before": self._before,
            "remaining": result.remaining,
            "served": result.done,
            "done_before": result.executed,
            "positions": result.positions,
            "lengths": result.lengths,
            "slots": result.slots,
            **self._sizes(),
            "columns": pool.tables.shape[1],
            "nobody": nobody(pool),
            "last_cell": pool.order.shape[0] - 2,
            "BLOCK_SIZE": self._block_size,
            "TURNS": self._turns,
            "PROGRAMS": power_of_two(self._programs),
            "HISTORY": self.history,
        }

    def _sizes(self) -> dict[str, int]:
        return {"turns": self.turns, "width": self.width, "limit": self._limit}


def tile_of(turns: int) -> int:
    """How many turns one program takes."""
    return max(LEAST_TURNS, power_of_two(turns)) if turns <= ALONE else TURNS_OF_A_PROGRAM


def power_of_two(count: int) -> int:
    """The least one that is not less: there are few compilations, however many turns there are."""
    return 1 << max(0, count - 1).bit_length()
