"""A decode step, recorded once: what was scheduled is executed, and each request gets a slot for one token more."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from cacheimpl.captured.capture import Capture
from cacheimpl.kv_blocks import BurstError, Serving, Step, nobody


class CapturedDecode:
    """Decode steps of so many turns of one engine.

    `requests` ([turns] int64) is the operand, at an address that stays: write rows into it, nobody's behind the others,
    or call `load`. `step` does what `Serving.decode` of those does. `tables` of the engine's pool are the block tables
    ([requests + 1, positions + 1] int32), a row for each request. Operands are not looked at: they must be what
    `decode` asks for.

    An engine calls others of its methods between steps, and may have several of these, one for each number of turns.
    `step` is recorded in place of the engine's own step: a `cacheimpl.kernels.FusedStep` of the same pool, turns and
    `most` takes one or two launches.

    Raises `BurstError` where the engine looks at its operands, which cannot be recorded (make it `checked=False`), or
    where `turns` is not positive.
    """

    def __init__(
        self,
        engine: Serving,
        turns: int,
        *,
        most: int | None = None,
        step: Callable[[Tensor], Step] | None = None,
    ) -> None:
        if engine.checked:
            raise BurstError("an engine that looks at its operands cannot be recorded: make it with checked=False")
        if turns <= 0 or (most is not None and most <= 0):
            raise BurstError(f"a step has turns, and may need blocks: not {turns} turns and {most} blocks")
        self.engine, self.turns, self.most = engine, turns, most
        self.nobody = nobody(engine.pool)
        self.requests = torch.full((turns,), self.nobody, dtype=torch.int64, device=engine.pool.tables.device)
        self._step = step
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
        if self._step is not None:
            return self._step(self.requests)
        return self.engine.step(self.requests, most=self.most)
