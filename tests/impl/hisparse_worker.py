"""Workers with memory, for tests of HiSparse: what a page holds is seen when it is read, found or copied.

A row is what layers keep of one token. It stands for the tokens up to that one, so a wrong row is noticed. Transfers of
pages are made late, in order, and each worker reports them for itself.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = int


def row_of(tokens: Sequence[int], position: int) -> Row:
    """The row of the token at this position."""
    return hash(tuple(tokens[: position + 1]))


@dataclass
class Part:
    """One request in a step."""

    name: str
    tokens: list[int]
    """Its tokens, up to the last one that the step computes."""
    start: int
    host_blocks: list[int]
    reads_host: bool
    """Whether it has its hot regions."""


@dataclass
class Step:
    """What the scheduler tells the workers."""

    parts: list[Part]
    transfers: list[Any]
    mirrors: list[Any]
    updates: Mapping[str, Any]
    again: set[str] = field(default_factory=set)
    """Requests that begin anew in this step."""


@dataclass
class Delayed:
    """A transfer that a worker has begun."""

    transfer: Any
    due: int


class Worker:
    """One worker: blocks on the device and in the host's memory, as rows by number."""

    def __init__(self, page_size: int, groups: int, draw: random.Random, latest: int) -> None:
        self.page_size, self.groups, self.draw, self.latest = page_size, groups, draw, latest
        self.device: dict[tuple[int, int], Row] = {}
        """By number of the block and row in it."""
        self.host: dict[tuple[int, int], Row] = {}
        self.pages: dict[str, list[list[int]]] = {}
        """By request the block of each page, for each group of pages."""
        self.delayed: list[Delayed] = []
        self.problems: list[str] = []
        self.time = 0

    def run(self, step: Step) -> list[int]:
        """Execute a step. Returns the transfers that it has begun."""
        for name in step.again:
            self.pages[name] = [[] for _ in range(self.groups)]
        for name, update in step.updates.items():
            rows = self.pages.setdefault(name, [[] for _ in range(self.groups)])
            for row, blocks in zip(rows, update.block_ids, strict=True):
                for page, block in zip(update.pages, blocks, strict=True):
                    row.extend([0] * (page + 1 - len(row)))
                    row[page] = block
        for transfer in step.transfers:
            if not transfer.after_forward:
                self._copy(transfer)
        for part in step.parts:
            self._forward(part)
        for mirror in step.mirrors:
            for number in range(mirror.num_rows):
                source = divmod(mirror.source_starts[0] + number, self.page_size)
                self.host[divmod(mirror.destination_start + number, self.page_size)] = self.device.get(source, 0)
        for transfer in step.transfers:
            self.delayed.append(Delayed(transfer, self.time + self.draw.randint(0, self.latest)))
        return [transfer.transfer_id for transfer in step.transfers]

    def complete(self, *, all_of_them: bool = False) -> list[int]:
        """Make transfers that are due. Returns their numbers."""
        self.time += 1
        done = [its for its in self.delayed if all_of_them or its.due <= self.time]
        self.delayed = [its for its in self.delayed if its not in done]
        for its in done:
            if its.transfer.after_forward:
                self._copy(its.transfer)
        return [its.transfer.transfer_id for its in done]

    def load(self, tokens: Sequence[int], blocks: Sequence[int], begin: int, end: int) -> None:
        """Rows come from outside."""
        for position in range(begin, end):
            page, row = divmod(position, self.page_size)
            self.host[blocks[page], row] = row_of(tokens, position)

    def _copy(self, transfer: Any) -> None:
        for number in range(self.page_size):
            if transfer.restore:
                for block in transfer.resident_block_ids:
                    self.device[block, number] = self.host.get((transfer.host_block_id, number), 0)
            else:
                rows = {self.device.get((block, number), 0) for block in transfer.resident_block_ids}
                if len(rows) != 1:
                    self.problems.append(f"transfer {transfer.transfer_id} copies pages that differ")
                self.host[transfer.host_block_id, number] = rows.pop()

    def _forward(self, part: Part) -> None:
        """Rows are written, then all rows up to them are read."""
        for group in range(self.groups):
            table = self.pages.get(part.name, [[]] * self.groups)[group]
            for position in range(part.start, len(part.tokens)):
                page, row = divmod(position, self.page_size)
                if page >= len(table) or not table[page]:
                    self.problems.append(f"{part.name} has no block for token {position}")
                    continue
                self.device[table[page], row] = row_of(part.tokens, position)
            for position in range(len(part.tokens)):
                page, row = divmod(position, self.page_size)
                on_device = page < len(table) and table[page]
                if not on_device and not part.reads_host:
                    self.problems.append(f"{part.name} reads page {page} without a hot region")
                read = (
                    self.device.get((table[page], row)) if on_device else self.host.get((part.host_blocks[page], row))
                )
                if read != row_of(part.tokens, position):
                    place = f"block {table[page]}" if on_device else f"host block {part.host_blocks[page]}"
                    self.problems.append(f"{part.name} reads a wrong row of token {position} from {place}")


def reported(begun: Sequence[Sequence[int]], completed: Sequence[Sequence[int]]) -> tuple[Counter[int], Counter[int]]:
    """What all workers report together: how many have begun, and have completed, each transfer."""
    return Counter(n for its in begun for n in its), Counter(n for its in completed for n in its)
