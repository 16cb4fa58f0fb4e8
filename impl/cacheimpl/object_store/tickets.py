"""Handles that are out: for each the cell in which readers acknowledge it, and the chunk that it keeps.

A cell is a place in every reader's row. It holds the number of the last handle that the reader acknowledged there. A
handle has its cell for itself while it is out; its number is never used again, so what a late reader writes afterwards
means nothing (SHM-3, SHM-11).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from heapq import heappop, heappush

import torch

NO_HANDLE = -1
"""The number in a cell that is free; no reader ever writes it."""

ONE_BY_ONE = 4
"""So many handles are looked at sooner than it is known whether any reader has written."""
FEW = 64
"""So many handles are looked at one by one: an operation on a tensor costs microseconds however little it does."""


class Tickets:
    """The writer's list."""

    def __init__(self, rows: Sequence[memoryview]) -> None:
        """`rows`: for each reader [cells] int64, the memory that it writes."""
        self._rows = rows
        self._numbers = array("q", [NO_HANDLE]) * len(rows[0])
        # One number is read and written in the arrays, many are compared as tensors on the same memory.
        self._acknowledged = [torch.frombuffer(row, dtype=torch.int64) for row in rows]
        self._all_numbers = torch.frombuffer(self._numbers, dtype=torch.int64)
        self._free: list[int] = []
        self._used = 0
        self._next = 1
        self._seen: list[bytes] = []
        """The rows as they were when they were looked at last."""
        self._chunks: dict[int, tuple[int, int]] = {}
        self.counts: dict[int, int] = {}
        """Live chunks, and how many handles to each are out: the writer enters a chunk with 0."""

    @property
    def full(self) -> bool:
        """Whether every cell belongs to a handle that is out."""
        return not self._free and self._used == len(self._numbers)

    def __len__(self) -> int:
        return len(self._chunks)

    def issue(self, identity: int) -> tuple[int, int]:
        """Cell and number of a new handle to a chunk; there must be a cell. The lowest free one is taken."""
        if self._free:
            cell = heappop(self._free)
        else:
            cell, self._used = self._used, self._used + 1
        number, self._next = self._next, self._next + 1
        self._numbers[cell] = number
        self._chunks[number] = (cell, identity)
        self.counts[identity] += 1
        return cell, number

    def chunk(self, number: int) -> int | None:
        """The chunk of the handle of this number, if it is out."""
        return self._chunks[number][1] if number in self._chunks else None

    def settle(self, number: int) -> bool:
        """A handle that all acknowledged, or that is revoked, is not out, and not counted (SHM-3, SHM-11).

        Whether it was out: to settle what is settled does nothing.
        """
        if number not in self._chunks:
            return False
        cell, identity = self._chunks.pop(number)
        self._numbers[cell] = NO_HANDLE
        heappush(self._free, cell)
        self.counts[identity] -= 1
        return True

    def settle_acknowledged(self) -> None:
        """Every handle that all readers have acknowledged, each in its own cell."""
        if len(self._chunks) > ONE_BY_ONE and not self._readers_wrote():
            return
        if len(self._chunks) > FEW:
            done = self._acknowledged_of_many()
        else:
            done = []
            for number, (cell, _) in self._chunks.items():
                for row in self._rows:
                    if row[cell] != number:
                        break
                else:
                    done.append(number)
        for number in done:
            self.settle(number)

    def _readers_wrote(self) -> bool:
        """Whether any row is another than when this was asked last: a new handle is in none of them."""
        before, self._seen = self._seen, [row[: self._used].tobytes() for row in self._rows]
        return self._seen != before

    def _acknowledged_of_many(self) -> list[int]:
        """The numbers of these handles, all rows compared at once."""
        numbers = self._all_numbers[: self._used]
        complete = torch.stack([row[: self._used] == numbers for row in self._acknowledged]).all(0)
        return list(numbers[complete].tolist())

    def _acknowledged_by(self, number: int, cell: int) -> int:
        """How many readers have acknowledged this handle."""
        return sum(row[cell] == number for row in self._rows)

    def acknowledgements(self, identity: int) -> int:
        """How many acknowledgements there are of the handles that are out for this chunk."""
        held = (self._acknowledged_by(number, cell) for number, (cell, at) in self._chunks.items() if at == identity)
        return sum(held)
