"""Invariants of tensors that several components have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.cells import Cell


def dense_ranks(ranks: Sequence[Cell]) -> Iterator[Cell]:
    """Each is -1, or one of 0, 1, 2 and so on without a gap, and no two of these are equal."""
    queued = [cells.at_most(0, rank) for rank in ranks]
    length = cells.count(queued)
    for place, rank in enumerate(ranks):
        yield cells.every((cells.at_most(-1, rank), cells.less(rank, length)))
        yield from (
            cells.some((cells.inverse(queued[place]), cells.inverse(cells.equal(rank, other))))
            for other in ranks[:place]
        )


def within(numbers: Iterable[Cell], low: Cell, high: Cell) -> Iterator[Cell]:
    """Each is at least the one and at most the other."""
    for number in numbers:
        yield cells.every((cells.at_most(low, number), cells.at_most(number, high)))
