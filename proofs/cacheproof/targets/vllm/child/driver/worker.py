"""A made-up worker: it executes the release's plans, keeps what they compute, and reports reads of what none computed.

It has one KV slot for each token of each block, and one encoder output for each entry that a plan encodes. It knows
only what the release's `SchedulerOutput` says: the blocks of new requests, the blocks that others gain, the counts, the
items to encode and the outputs to drop. As in the specification a plan is executed as soon as it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

Key = tuple[int, ...]
"""An encoder output: its content, or its request and item where outputs are not shared."""


class Told(NamedTuple):
    """What a plan says about one request's blocks."""

    request: int
    blocks: tuple[int, ...]
    whole: bool
    """The blocks are the request's whole table; otherwise they are added to it."""


class Chunk(NamedTuple):
    """One request's part of a plan: its tokens from `start` up to `end`, and the items whose outputs it reads."""

    request: int
    start: int
    end: int
    encodes: tuple[int, ...]
    reads: tuple[int, ...]
    attends: tuple[int, ...] = ()
    """Items whose cross-attention KV the chunk reads: that of an output that it reads itself is written first."""


class Stage(NamedTuple):
    """What one plan tells the workers: blocks, chunks, outputs to drop, and requests that are finished."""

    told: tuple[Told, ...]
    chunks: tuple[Chunk, ...]
    dropped: tuple[Key, ...]
    finished: tuple[int, ...]
    loaded: tuple[Chunk, ...] = ()
    """What the step loads before it computes."""
    brought: tuple[Key, ...] = ()
    """Encoder outputs that the step loads from the encoder connector."""


class Worker:
    """The memory of the workers of one engine.

    `token(request, position)` names a token together with all tokens before it; `key(request, item)` names an encoder
    output. `missing_outputs` and `missing_slots` are about the newest plan: request and item, and request and the
    position of the first token whose KV is not there.
    """

    def __init__(self, block_size: int, token: Callable[[int, int], int], key: Callable[[int, int], Key]) -> None:
        self._size, self._token, self._key = block_size, token, key
        self._tables: dict[int, list[int]] = {}
        self._slots: dict[tuple[int, int], int] = {}
        """The token whose KV is in a block's slot."""
        self._outputs: set[Key] = set()
        self._crossed: set[tuple[int, int]] = set()
        """Requests and items whose cross-attention KV is in the request's blocks."""
        self.missing_outputs: list[tuple[int, int]] = []
        self.missing_slots: list[tuple[int, int]] = []

    @property
    def outputs(self) -> frozenset[Key]:
        """The encoder outputs in memory."""
        return frozenset(self._outputs)

    def lacks(self, keys: Iterable[Key]) -> bool:
        """Whether one of these, dropped one after the other, would not be there."""
        given = list(keys)
        return len(set(given)) < len(given) or not self._outputs.issuperset(given)

    def execute(self, stage: Stage) -> None:
        """One plan: the workers drop, load, encode, gather, write and read, each for all requests before the next."""
        chunks = stage.chunks
        for request in stage.finished:
            self._tables.pop(request, None)
        for news in stage.told:
            self._tables[news.request] = [*(() if news.whole else self._tables.get(news.request, ())), *news.blocks]
            self._crossed = {pair for pair in self._crossed if not news.whole or pair[0] != news.request}
        self._outputs.difference_update(stage.dropped)
        self._outputs.update(stage.brought)
        self._outputs.update(self._key(chunk.request, item) for chunk in chunks for item in chunk.encodes)
        self.missing_outputs = [
            (chunk.request, item)
            for chunk in chunks
            for item in chunk.reads
            if self._key(chunk.request, item) not in self._outputs
        ]
        self.missing_outputs += [pair for chunk in chunks for pair in self._attend(chunk)]
        for chunk in (*stage.loaded, *chunks):
            self._write(chunk)
        first = ((chunk.request, self._first_missing(chunk)) for chunk in chunks)
        self.missing_slots = [(request, position) for request, position in first if position is not None]

    def reject(self, request: int, tokens: int) -> None:
        """The KV of the request's last `tokens` tokens is that of rejected drafts."""
        end = len(self._tables.get(request, ())) * self._size
        while end > 0 and not self._has(request, end - 1):
            end -= 1
        for position in range(max(end - tokens, 0), end):
            if self._has(request, position):
                del self._slots[self._slot(request, position)]

    def load(self, request: int, blocks: Sequence[int], start: int, end: int) -> None:
        """A load has brought the KV of these tokens into the request's blocks, of which no plan has told yet.

        What the last of them had behind these tokens is of no use.
        """
        for position in range(start, end):
            self._slots[blocks[position // self._size], position % self._size] = self._token(request, position)
        for position in range(end, -(-end // self._size) * self._size if end > start else end):
            self._slots.pop((blocks[position // self._size], position % self._size), None)

    def lose(self, request: int, tokens: int) -> None:
        """What the workers have of the request from this token on is of no use: a load before it has failed."""
        table = self._tables.get(request, ())
        for position in range(tokens, len(table) * self._size):
            self._slots.pop(self._slot(request, position), None)

    def reset_outputs(self) -> None:
        """No encoder output is in memory."""
        self._outputs.clear()

    def _slot(self, request: int, position: int) -> tuple[int, int]:
        """The block and the offset of a token's slot; block -1 if no plan gave the request a block for it."""
        table, index = self._tables.get(request, ()), position // self._size
        return (table[index] if index < len(table) else -1, position % self._size)

    def _has(self, request: int, position: int) -> bool:
        return self._slots.get(self._slot(request, position)) == self._token(request, position)

    def _write(self, chunk: Chunk) -> None:
        for position in range(chunk.start, chunk.end):
            block, offset = self._slot(chunk.request, position)
            if block >= 0:
                self._slots[block, offset] = self._token(chunk.request, position)

    def _attend(self, chunk: Chunk) -> list[tuple[int, int]]:
        """Writes cross-attention KV from the outputs that the chunk reads; what else it reads of it and is missing."""
        there = {item for item in chunk.reads if self._key(chunk.request, item) in self._outputs}
        self._crossed.update((chunk.request, item) for item in chunk.attends if item in there)
        rest = [(chunk.request, item) for item in chunk.attends if item not in chunk.reads]
        return [pair for pair in rest if pair not in self._crossed]

    def _first_missing(self, chunk: Chunk) -> int | None:
        return next((position for position in range(chunk.end) if not self._has(chunk.request, position)), None)


def touched(items: Sequence[Sequence[int]], start: int, end: int) -> tuple[int, ...]:
    """The items, given as content, first token and length, of which the tokens from `start` up to `end` have one."""
    return tuple(index for index, (_, first, length) in enumerate(items) if first < end and start < first + length)


def flat(blocks: Any) -> tuple[int, ...]:
    """The blocks of the first group, as a list of lists, a list, or nothing."""
    if not blocks:
        return ()
    first = blocks[0]
    return tuple(int(block) for block in (blocks if isinstance(first, int) else first))
