"""Requests that decode together on a CPU: a step takes the next free blocks, and the pool is written later.

Each request comes to the end of its last block once in `block_size` steps. A calendar of that many entries says which
requests need a block in which step, so a step is a look into it, whatever the number of requests. What steps change in
the pool is written when the pool is read: one cell after the other if that is little, otherwise by tensor operations.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from cacheimpl.kv_blocks.decoding import Decoded
from cacheimpl.kv_blocks.state import Config, Pool, null_block
from cacheimpl.writing import SERVING

AT_ONCE = 512
"""The largest number of requests for which a new calendar and one step take less time than a step on tensors (measured
on a CPU). With more requests, the first step after a change runs on tensors; the calendar begins with the second."""
ROW_BY_ROW, BLOCK_BY_BLOCK = 128, 384
"""The largest numbers of requests, and of new blocks, with which Python writes the pool faster than tensors do."""
MOST_STEPS = 256
"""The largest number of steps before the pool is written"""
AHEAD = 256
"""The least number of blocks that one read of the free queue takes"""


INTEGER = "q"
"""The form of numbers that Python and tensors share: 64 bits with a sign."""


class Advanced(NamedTuple):
    """What became of a step."""

    turns: Sequence[int]
    """Who was given a new block: positions in `Running.requests`, ascending"""
    blocks: Sequence[int]
    """Those blocks"""
    served: int
    """How many requests were given a slot: all before the first that was not"""


class Engine(Protocol):
    """What `Running` needs of a `Serving`."""

    config: Config
    pending: Running | None
    changes: int

    @property
    def pool(self) -> Pool:
        """The pool, after everything that is pending was written."""

    def decode(self, requests: Tensor, *, most: int | None = None) -> Decoded:
        """A step on tensors."""


new_tuple = tuple.__new__
"""Makes a named tuple in half of the time: a step of few requests takes less than a microsecond."""


class Running:
    """Requests of one engine that decode together, step after step; `Serving.running` makes it.

    `step` does what `Serving.decode` of these requests does. `engine.pool` is up to date whenever it is read, and other
    calls of the engine may come between steps; read it anew after a step instead of keeping it. On a CUDA device every
    step is one on tensors: use `CapturedDecode` there.
    """

    def __init__(self, engine: Engine, requests: Sequence[int], most: int | None = None) -> None:
        self.requests = tuple(requests)
        self._count = len(self.requests)
        self._engine, self._most, self._pool = engine, most, engine.pool
        self._width = len(self.requests) if most is None else most
        device = self._pool.tables.device
        self._rows = torch.tensor(self.requests, dtype=torch.int64, device=device)
        self._on_cpu = device.type == "cpu"
        self._size, self._limit = int(engine.config.block_size), int(engine.config.limit)
        self._calendar: list[list[int]] = []
        self._queue: list[int] = []
        self._now = self._until = self._next = self._free = 0
        self._written = self._foreseen = 0
        self._seen: tuple[int, ...] = ()
        self._steady = False

    def step(self) -> Advanced:
        """The scheduled tokens were executed; each request gets a slot for one token more."""
        now = self._now
        if now < self._until:
            turns = self._calendar[now % self._size]
            begin = self._next
            end = begin + len(turns)
            if end <= len(self._queue):
                self._now = now + 1
                self._next = end
                return new_tuple(Advanced, (turns, self._queue[begin:end], self._count))
        return self._other_step()

    def _other_step(self) -> Advanced:
        """More of the free queue is read, or a calendar begins, or the step is one on tensors."""
        if self._now < self._until and self._read_ahead():
            return self.step()
        pool = self._engine.pool
        if pool is not self._pool:
            self._pool, self._steady = pool, False
            self.__dict__.pop("_cells", None)
        if self._now < self._foreseen and self._seen == self._counts() and self._read_ahead():
            return self._begin()
        if self._on_cpu and (self._steady or len(self.requests) <= AT_ONCE) and self._plan(pool):
            return self._begin()
        step = self._engine.decode(self._rows, most=self._most)
        self._steady = True
        given = int(step.given.sum())
        return Advanced(step.turn[:given].tolist(), step.blocks[:given].tolist(), int(step.served))

    def _begin(self) -> Advanced:
        """The first step that the pool does not have."""
        self._until, self._engine.pending = min(self._foreseen, self._now + MOST_STEPS), self
        return self.step()

    def _counts(self) -> tuple[int, ...]:
        """They are others after any call that changed the pool."""
        cells = self._cells
        return self._engine.changes, cells.head[0], cells.free[0], cells.clock[0]

    def _plan(self, pool: Pool) -> bool:
        """Write the calendar; False if it does not foresee the next step.

        It needs requests of which one token is in flight, and below the limit, as a step leaves them.
        """
        waits, longest = self._waits() if len(self.requests) <= ROW_BY_ROW else self._many_waits(pool)
        if not waits or longest >= self._limit:
            return False
        self._calendar = [[] for _ in range(self._size)]
        self.__dict__.pop("_two_rounds", None)
        for turn, wait in enumerate(waits):
            self._calendar[wait].append(turn)
        crowded = (wait for wait, turns in enumerate(self._calendar) if len(turns) > self._width)
        self._foreseen = min(self._limit - longest, next(crowded, self._limit))
        self._now, self._next, self._queue, self._free = 0, 0, [], self._cells.free[0]
        self._written = 0
        return self._foreseen > 0 and self._read_ahead()

    def _waits(self) -> tuple[list[int], int]:
        """In how many steps each request comes to the end of its last block, and the longest request.

        Nothing if a request is not as a step leaves it.
        """
        cells, size, waits, longest = self._cells, self._size, [], 0
        blocks, computed, scheduled = cells.blocks, cells.computed, cells.scheduled
        for row in self.requests:
            planned = scheduled[row]
            wait = blocks[row] * size - planned
            if not 0 <= wait < size or computed[row] != planned - 1:
                return [], 0
            waits.append(wait)
            longest = max(longest, planned)
        return waits, longest

    @torch.inference_mode()
    def _many_waits(self, pool: Pool) -> tuple[list[int], int]:
        """The same by tensor operations."""
        planned, computed, blocks = (
            column.index_select(0, self._rows) for column in (pool.scheduled, pool.computed, pool.blocks)
        )
        waits = blocks * self._size - planned
        foreseen = (waits.clamp(0, self._size - 1) == waits) & (planned - computed == 1)
        return (waits.tolist(), int(planned.amax())) if bool(foreseen.all()) else ([], 0)

    def _read_ahead(self) -> bool:
        """Read the blocks of the next step, and some more; False if so many are not free."""
        needed = self._next + len(self._calendar[self._now % self._size])
        if needed > self._free:
            return False
        order, head = self._cells.order, self._cells.head[0]
        cells = len(order) - 1
        while (known := len(self._queue)) < needed:
            begin = (head + known) & (cells - 1)
            count = min(self._free, max(needed, known + AHEAD)) - known
            self._queue += order[begin : min(begin + count, cells)].tolist()
        return True

    # Writing --------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Write all steps that the pool does not have. The calendar stays valid until another call changes the pool."""
        first, steps, taken = self._written, self._now, self._next
        self._until = 0
        if steps == first:
            return
        if taken <= BLOCK_BY_BLOCK:
            self._write_blocks(first)
        else:
            self._write_many_blocks(first)
        if len(self.requests) <= ROW_BY_ROW:
            self._write_rows(steps - first)
        else:
            self._write_many_rows(steps - first)
        cells = self._cells
        cells.head[0] += taken
        cells.free[0] -= taken
        cells.clock[0] += (steps - first) * (self._width + 1)
        del self._queue[:taken]
        self._written, self._next, self._free = steps, 0, cells.free[0]
        self._seen = self._counts()

    def _write_blocks(self, first: int) -> None:
        """The new blocks since this step, one after the other."""
        _, _, clock, _, contents, tables, lengths, registered, severed, _, _, references, carried, stamp = self._cells
        requests, columns, queue, taken = self.requests, self._pool.tables.shape[1], self._queue, 0
        now = clock[0] + 1
        for step in range(first, self._now):
            for rank, turn in enumerate(self._calendar[step % self._size]):
                row, block = requests[turn], queue[taken]
                taken += 1
                owned = lengths[row]
                cell = row * columns + owned
                if not severed[row]:
                    ended = tables[cell - 1]
                    carried[ended] = contents[cell - 1]
                    stamp[ended] = now + rank
                tables[cell] = block
                lengths[row] = owned + 1
                registered[row] += 1
                references[block] = 1
                carried[block] = -1
            now += self._width + 1

    @torch.inference_mode()
    def _write_many_blocks(self, first: int) -> None:
        """The same by tensor operations, as many steps at once as give no request two blocks."""
        pool, contents, taken = self._pool, self._engine.config.contents.view(-1), 0
        offsets, rows, ranks = self._two_rounds
        put, add = SERVING.put, SERVING.add
        for begin in range(first, self._now, self._size):
            place, steps = begin % self._size, min(self._size, self._now - begin)
            left, right = offsets[place], offsets[place + steps]
            if left == right:
                continue
            who, one = rows[left:right], torch.ones(right - left, dtype=torch.int64)
            stamps = ranks[left:right] + (pool.clock + (begin - first - place) * (self._width + 1))
            blocks = column_of(array(INTEGER, self._queue[taken : taken + right - left]))
            taken += right - left
            behind = who * pool.tables.shape[1] + pool.blocks.index_select(0, who)
            ended = pool.tables.view(-1).index_select(0, behind - 1).long()
            registering = torch.where(pool.severed.index_select(0, who), null_block(pool), ended)
            put(pool.carried, registering, contents.index_select(0, behind - 1))
            put(pool.stamp, registering, stamps)
            put(pool.tables, behind, blocks.to(pool.tables.dtype))
            put(pool.references, blocks, one)
            put(pool.carried, blocks, -1)
            add(pool.blocks, who, one)
            add(pool.registered, who, one)

    def _write_rows(self, steps: int) -> None:
        """The tokens of so many steps, one request after the other."""
        computed, scheduled = self._cells.computed, self._cells.scheduled
        for row in self.requests:
            planned = scheduled[row] + steps
            scheduled[row] = planned
            computed[row] = planned - 1

    @torch.inference_mode()
    def _write_many_rows(self, steps: int) -> None:
        """The same by tensor operations."""
        pool, rows = self._pool, self._rows
        planned = pool.scheduled.index_select(0, rows) + steps
        SERVING.put(pool.scheduled, rows, planned)
        SERVING.put(pool.computed, rows, planned - 1)

    @cached_property
    def _two_rounds(self) -> tuple[list[int], Tensor, Tensor]:
        """The calendar twice, one step behind the other: any `block_size` steps are a part of it.

        Where each step begins; the rows that are given a block; and by how much their stamps are behind the clock.
        """
        turns, ranks, offsets = array(INTEGER), array(INTEGER), [0]
        for number, step in enumerate((*self._calendar, *self._calendar)):
            turns.fromlist(step)
            ranks.extend(range(number * (self._width + 1) + 1, number * (self._width + 1) + 1 + len(step)))
            offsets.append(len(turns))
        return offsets, self._rows.index_select(0, column_of(turns)), column_of(ranks)

    @cached_property
    def _cells(self) -> Cells:
        """The memory of the pool's tensors, which stay where they are."""
        named = {"contents": self._engine.config.contents, **self._pool._asdict()}
        return Cells(*(memoryview(named[name].view(-1).numpy()) for name in Cells._fields))


def column_of(numbers: array[int]) -> Tensor:
    """[count] int64: the same memory; there is at least one number."""
    return torch.frombuffer(numbers, dtype=torch.int64)


class Cells(NamedTuple):
    """Columns of the pool and of the configuration, each as a sequence of numbers."""

    head: Any
    free: Any
    clock: Any
    order: Any
    contents: Any
    tables: Any
    blocks: Any
    registered: Any
    severed: Any
    computed: Any
    scheduled: Any
    references: Any
    carried: Any
    stamp: Any
