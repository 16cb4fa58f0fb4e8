"""A decode step, recorded once: what was scheduled is executed, and each request gets a slot for one token more."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.captured.capture import Capture
from cacheimpl.kv_blocks import BurstError, Serving, nobody, slot_mapping

NO_SLOT = -1
"""The slot of a turn that was not served: attention kernels write nothing there."""


class Step(NamedTuple):
    """What became of a step; tensors at fixed addresses that the next step writes over. Fields are [turns] int64."""

    remaining: Tensor
    """[] int64: how many requests were not served: 0 as a rule, and the only thing to be read back"""
    done: Tensor
    """bool: was given a slot; all turns before the first one that was not"""
    executed: Tensor
    """bool: whose tokens are written"""
    positions: Tensor
    """the position of the token in its request; 0 if the turn was not served"""
    lengths: Tensor
    """tokens with a slot, this one included: the length of the sequence for an attention kernel; 0 as before"""
    slots: Tensor
    """the slot of the token: block times block size plus the offset in the block; NO_SLOT if not served"""


class CapturedDecode:
    """Decode steps of so many turns of one engine.

    `requests` ([turns] int64) is the operand, at an address that stays: write rows into it, nobody's behind the others,
    or call `load`. `step` does what `Serving.decode` of those does. `tables` of the engine's pool are the block tables
    ([requests + 1, positions + 1] int32), a row for each request. Operands are not looked at: they must be what
    `decode` asks for.

    An engine calls others of its methods between steps, and may have several of these, one for each number of turns.
    Raises `BurstError` where the engine looks at its operands, which cannot be recorded (make it `checked=False`), or
    where `turns` is not positive.
    """

    def __init__(self, engine: Serving, turns: int, *, most: int | None = None) -> None:
        if engine.checked:
            raise BurstError("an engine that looks at its operands cannot be recorded: make it with checked=False")
        if turns <= 0 or (most is not None and most <= 0):
            raise BurstError(f"a step has turns, and may need blocks: not {turns} turns and {most} blocks")
        self.engine, self.turns, self.most = engine, turns, most
        self.nobody = nobody(engine.pool)
        self.requests = torch.full((turns,), self.nobody, dtype=torch.int64, device=engine.pool.tables.device)
        self._capture = Capture(self._once, engine.pool)

    @property
    def is_graph(self) -> bool:
        """Whether a graph is replayed: on a device of CUDA."""
        return self._capture.is_graph

    @property
    def tables(self) -> Tensor:
        """[requests + 1, positions + 1] int32: the block tables, at an address that stays."""
        return self.engine.pool.tables

    @property
    def results(self) -> Step:
        """Of the last step."""
        return self._capture.results

    def load(self, requests: Tensor) -> None:
        """These rows ([at most turns] int64, on the device) are the next ones to be served, in this order."""
        count = requests.shape[0]
        if requests.dim() != 1 or count > self.turns or requests.dtype != torch.int64:
            raise BurstError(f"{self.turns} rows at most, int64, not {tuple(requests.shape)} {requests.dtype}")
        if requests.device != self.requests.device:
            raise BurstError(f"rows are on {self.requests.device}, not on {requests.device}")
        with torch.inference_mode():  # both in and outside of it the buffer may be written
            self.requests[:count].copy_(requests)
            self.requests[count:].fill_(self.nobody)

    def step(self) -> Step:
        """One step of the loaded requests. Waits for nothing: `int(step.remaining)` does."""
        return self._capture()

    def _once(self) -> Step:
        """What is recorded."""
        requests, engine = self.requests, self.engine
        decoded = engine.decode(requests, most=self.most)
        done, pool = decoded.done, engine.pool
        lengths = pool.scheduled.index_select(0, requests) * done
        positions = (lengths - 1).clamp(min=0)
        slots = slot_mapping(engine.config, pool, requests, positions)
        return Step(
            remaining=(requests < self.nobody).sum() - done.sum(),
            done=done,
            executed=decoded.executed,
            positions=positions,
            lengths=lengths,
            slots=slots.masked_fill(~done, NO_SLOT),
        )
