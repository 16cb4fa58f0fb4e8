"""Steps in which every running request computes one token: foreseen on a CPU, and written into the state later.

While nobody waits, comes, ends or is preempted, a step says only which requests are given a block. The blocks of all
requests fill in turn, so a calendar of `block_size` entries lists them, and a step costs a look into it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from cacheimpl.kv_blocks import null_block
from cacheimpl.scheduler.lines import rows_in_order
from cacheimpl.scheduler.state import Config, Plan, State
from cacheimpl.writing import SERVING

LEAST_STEPS = 4
"""A calendar is not written for fewer steps."""
BLOCK_BY_BLOCK = 256
"""Up to so many new blocks are written faster in Python than by tensor operations (measured)."""
AHEAD = 256
"""Blocks that are read from the free queue at once, at least"""


class Cells(NamedTuple):
    """Columns of the pool and of the configuration, each as a sequence of numbers."""

    contents: Any
    tables: Any
    blocks: Any
    registered: Any
    severed: Any
    references: Any
    order: Any
    carried: Any
    stamp: Any


class Steady:
    """A calendar of steps from a state between two steps; `begun` makes it where the steps can be foreseen."""

    def __init__(self, config: Config, state: State, rows: Tensor, waits: list[int], until: int) -> None:
        self.until, self.now, self.in_flight = until, 0, False
        """The foreseen steps; those that are over; whether one more is in flight"""
        self._config, self._state, self._rows = config, state, rows
        self.names, self.count = rows.tolist(), len(waits)
        self._size = int(config.block_size)
        self._calendar: list[list[int]] = [[] for _ in range(self._size)]
        for turn, wait in enumerate(waits):
            self._calendar[wait].append(turn)
        self._free, self._head, self._next = int(state.kv.free), int(state.kv.head), 0
        self._queue: list[int] = []
        named = {"contents": config.kv.contents, **state.kv._asdict()}
        self._cells = Cells(*(memoryview(named[name].view(-1).numpy()) for name in Cells._fields))
        self._template: Plan | None = None

    @property
    def free(self) -> int:
        """The blocks in the free queue."""
        return self._free - self._next

    @property
    def needed(self) -> int:
        """How many blocks the next step takes."""
        return len(self._calendar[self.now % self._size])

    def schedule(self) -> bool:
        """The next step is in flight; False if it is not foreseen."""
        if self.now < self.until:
            end = self._next + len(self._calendar[self.now % self._size])
            if end <= len(self._queue) or self._read_ahead(end):
                self._next, self.in_flight = end, True
                return True
        return False

    def update(self) -> None:
        """The step in flight was executed."""
        self.now, self.in_flight = self.now + 1, False

    def plan(self, step: int) -> Plan:
        """What a step says to the workers."""
        if self._template is None:
            here = (self._state.running >= 0)[None]
            self._template = self._config.blank._replace(
                turns=self._state.running[None],
                starts=self._state.computed[None] * here,
                tokens=here.long(),
                samples=here,
            )
        return self._template._replace(starts=self._template.starts + step * self._template.tokens)

    def _read_ahead(self, needed: int) -> bool:
        if needed > self._free:
            return False
        cells = len(self._cells.order) - 1
        while (known := len(self._queue)) < needed:
            begin = (self._head + known) & (cells - 1)
            count = min(self._free, max(needed, known + AHEAD)) - known
            self._queue += self._cells.order[begin : min(begin + count, cells)].tolist()
        return True

    # Writing --------------------------------------------------------------------------------------------------------

    def written(self) -> State:
        """The state after the steps that are over, without the one in flight. The calendar ends with it."""
        state, kv, steps = self._state, self._state.kv, self.now
        if steps == 0:
            return state
        taken, clock = 0, int(kv.clock)
        for first in range(0, steps, self._size):
            last = min(first + self._size, steps)
            # What becomes full in a step is registered at its end, and is followed by a new block in the next step.
            between = [self._calendar[step % self._size] for step in range(first + 1, last)]
            clock = self._register([turn for turns in between for turn in turns], clock)
            given = [*self._calendar[first % self._size], *(turn for turns in between for turn in turns)]
            self._give(given, self._queue[taken : taken + len(given)])
            taken += len(given)
            clock = self._register(self._calendar[last % self._size], clock)
        planned = kv.scheduled.index_select(0, self._rows) + steps
        SERVING.put(kv.scheduled, self._rows, planned)
        SERVING.put(kv.computed, self._rows, planned)
        more = (state.running >= 0) * steps
        cells = kv.order.shape[0] - 1
        return state._replace(
            kv=kv._replace(
                head=torch.full_like(kv.head, (self._head + taken) & (cells - 1)),
                free=kv.free - taken,
                clock=torch.full_like(kv.clock, clock),
            ),
            computed=state.computed + more,
            produced=state.produced + more,
        )

    def _register(self, turns: list[int], clock: int) -> int:
        """The last blocks of these requests are full; returns the clock after that."""
        if not turns:
            return clock
        if len(turns) > BLOCK_BY_BLOCK:
            self._register_many(turns, clock)
            return clock + len(turns)
        contents, tables, blocks, registered, severed, _, _, carried, stamp = self._cells
        columns, rows = self._state.kv.tables.shape[1], self.names
        for turn in turns:
            row = rows[turn]
            clock += 1
            registered[row] += 1
            if not severed[row]:
                cell = row * columns + blocks[row] - 1
                block = tables[cell]
                carried[block] = contents[cell]
                stamp[block] = clock
        return clock

    def _register_many(self, turns: list[int], clock: int) -> None:
        """The same by tensor operations."""
        kv, put = self._state.kv, SERVING.put
        who = self._rows.index_select(0, torch.tensor(turns))
        cell = who * kv.tables.shape[1] + kv.blocks.index_select(0, who) - 1
        block = kv.tables.view(-1).index_select(0, cell).long()
        registering = torch.where(kv.severed.index_select(0, who), null_block(kv), block)
        put(kv.carried, registering, self._config.kv.contents.view(-1).index_select(0, cell))
        put(kv.stamp, registering, torch.arange(clock + 1, clock + 1 + len(turns)))
        SERVING.add(kv.registered, who, torch.ones_like(who))

    def _give(self, turns: list[int], given: list[int]) -> None:
        """These requests have one block more each."""
        if len(turns) > BLOCK_BY_BLOCK:
            self._give_many(turns, given)
            return
        _, tables, blocks, _, _, references, _, carried, _ = self._cells
        columns, rows = self._state.kv.tables.shape[1], self.names
        for turn, block in zip(turns, given, strict=True):
            row = rows[turn]
            owned = blocks[row]
            tables[row * columns + owned] = block
            blocks[row] = owned + 1
            references[block] = 1
            carried[block] = -1

    def _give_many(self, turns: list[int], given: list[int]) -> None:
        """The same by tensor operations."""
        kv, put = self._state.kv, SERVING.put
        who, blocks = self._rows.index_select(0, torch.tensor(turns)), torch.tensor(given)
        one = torch.ones_like(who)
        behind = who * kv.tables.shape[1] + kv.blocks.index_select(0, who)
        put(kv.tables, behind, blocks.to(kv.tables.dtype))
        put(kv.references, blocks, one)
        put(kv.carried, blocks, -1)
        SERVING.add(kv.blocks, who, one)


def begun(config: Config, state: State, running: int) -> Steady | None:
    """A calendar from this state on, of so many running requests; None if the next steps cannot be foreseen.

    Between two steps, when nobody waits and no item is held or needed: every request computes one token, has the blocks
    for what is computed, and those that are full are registered; none of them ends in the next few steps.
    """
    size, kv = config.block_size, state.kv
    if running == 0 or running > int(config.token_budget):
        return None
    rows = rows_in_order(state.running, config.rows)[:running]
    known, computed = (column.index_select(0, rows) for column in (config.prompts + state.produced, state.computed))
    blocks, registered, planned, executed = (
        column.index_select(0, rows) for column in (kv.blocks, kv.registered, kv.scheduled, kv.computed)
    )
    waits = blocks * size - computed
    fits = (known - computed == 1) & (planned == computed) & (executed == computed)
    fits &= (waits >= 0) & (waits < size) & (registered == computed.div(size, rounding_mode="floor"))
    until = int((config.finals.index_select(0, rows) - known).amin()) - 1
    if until < LEAST_STEPS or not bool(fits.all()):
        return None
    return Steady(config, state, rows, waits.tolist(), until)
