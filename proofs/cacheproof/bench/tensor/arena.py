"""Encoder outputs in an arena, and in a dictionary."""

from __future__ import annotations

import time
from abc import abstractmethod

import torch
from torch import Tensor

from cacheimpl.arena import Chunk, EncoderArena
from cacheproof.bench.measure import InTurns, Work

STEPS = 8
"""Steps of a turn."""


class Outputs(InTurns):
    """`outputs` outputs of `rows` rows each; each step reads the second half of each, as a chunk of a prompt does."""

    def __init__(self, call: str, outputs: int, rows: int, hidden: int) -> None:
        torch.set_num_threads(1)
        self.call, self.count, self.rows = call, outputs, rows
        numbers = torch.arange(outputs * rows) % 251
        self.made = numbers[:, None].expand(-1, hidden).half().contiguous()
        self.names = [str(number) for number in range(outputs)]

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Run `STEPS` steps: store, read and give back all outputs."""
        seconds, seen = 0.0, 0
        for _ in range(STEPS):
            started = time.process_time()
            self.store()
            between = time.process_time()
            found = self.gather()
            ended = time.process_time()
            self.drain()
            seconds += between - started if self.call == "store" else ended - between
            seen += int(found[:, 0].long().sum())
        return Work(STEPS * self.count, [seen, *found.shape], seconds)

    @abstractmethod
    def store(self) -> None:
        """Keep the outputs of a step."""

    @abstractmethod
    def gather(self) -> Tensor:
        """Read the rows that the next step needs."""

    @abstractmethod
    def drain(self) -> None:
        """Give them back."""


class ArenaOutputs(Outputs):
    """One buffer, with a gap between the outputs of two steps."""

    def __init__(self, call: str, outputs: int, rows: int, hidden: int) -> None:
        super().__init__(call, outputs, rows, hidden)
        self.arena = EncoderArena(2 * outputs * rows, hidden, dtype=torch.half)
        half = rows // 2
        self.chunks = [Chunk(name, half, rows - half) for name in self.names]

    def store(self) -> None:
        """Copy the outputs into the buffer."""
        self.arena.store(self.made, self.names, [self.rows] * self.count)

    def gather(self) -> Tensor:
        """Read with one gather."""
        return self.arena.gather(self.chunks)

    def drain(self) -> None:
        """Give back all outputs."""
        self.arena.drain(self.names)


class DictionaryOutputs(Outputs):
    """A dictionary by name, whose values are views of the encoder's tensors."""

    def __init__(self, call: str, outputs: int, rows: int, hidden: int) -> None:
        super().__init__(call, outputs, rows, hidden)
        self.known: dict[str, Tensor] = {}

    def store(self) -> None:
        """Keep the outputs without a copy; the encoder's memory stays in use until the last output is given back."""
        self.known.update(zip(self.names, self.made.reshape(self.count, self.rows, -1), strict=True))

    def gather(self) -> Tensor:
        """Read slices, and concatenate them."""
        return torch.cat([self.known[name][self.rows // 2 :] for name in self.names])

    def drain(self) -> None:
        """Give back all outputs."""
        for name in self.names:
            del self.known[name]
