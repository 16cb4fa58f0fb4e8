"""A pool of blocks: its free queue, a circular buffer whose last cell is not in it, and copies by their stamps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.cells import Cell


class CircularQueue:
    """The cells of `order`, `head` and `free` of a pool."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.blocks = pool.references.shape[0] - 1

    def queued(self, place: int) -> Cell:
        """Whether the queue has this place, counted from its head."""
        return cells.less(place, self.pool.free.cells[0])

    def at(self, place: int) -> Cell:
        """The block at a place of the queue."""
        order = list(self.pool.order.cells[:-1])
        head = cells.remainder(self.pool.head.cells[0], len(order))
        return cells.select([order[(first + place) % len(order)] for first in range(len(order))], head)

    def rank(self, block: int) -> Cell:
        """The place of a block in the queue; -1 outside."""
        rank: Cell = -1
        for place in range(self.blocks):
            here = cells.every((self.queued(place), cells.equal(self.at(place), block)))
            rank = cells.choose(here, place, rank)
        return rank

    def holds_the_free(self, blocks: Iterable[int]) -> Iterator[Cell]:
        """Each of these blocks without a reference is in it once, and nothing else is."""
        references = [self.pool.references.cells[block] for block in blocks]
        for block, count in zip(blocks, references, strict=True):
            places = range(self.blocks)
            here = [cells.every((self.queued(place), cells.equal(self.at(place), block))) for place in places]
            yield cells.equal(cells.count(here), cells.choose(cells.equal(count, 0), 1, 0))
        yield cells.equal(self.pool.free.cells[0], cells.count(cells.equal(count, 0) for count in references))


def rank_of_copy(pool: Any, block: int, found: Mapping[int, Cell], kinds: Mapping[int, Cell]) -> Cell:
    """The number of blocks of the same kind that were registered earlier; -1 if the block is not findable."""
    stamps = pool.stamp.cells
    earlier = (
        cells.every((found[other], cells.equal(kinds[other], kinds[block]), cells.less(stamps[other], stamps[block])))
        for other in found
        if other != block
    )
    return cells.choose(found[block], cells.count(earlier), -1)


def copies_are_apart(pool: Any, blocks: Iterable[int], *, of_one_key: bool = False) -> Iterator[Cell]:
    """Two findable blocks, or two of one key, were registered at different times."""
    for one, other in combinations(blocks, 2):
        keys = [pool.carried.cells[block] for block in (one, other)]
        concerned = [cells.at_most(0, key) for key in keys] + ([cells.equal(*keys)] if of_one_key else [])
        differ = cells.inverse(cells.equal(pool.stamp.cells[one], pool.stamp.cells[other]))
        yield cells.some((cells.inverse(cells.every(concerned)), differ))
