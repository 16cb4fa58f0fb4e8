"""The state of the pool, and the view that properties and observations read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from cachespec.kernel import Containers, Grouping, Map, Observation, OwnNames, Queue
from cachespec.kernel.own_names import each, pairs, rows
from cachespec.kv_blocks.configuration import NOTHING, Block, Config, Content, Hash, Position, Request


class Holding(NamedTuple):
    """The progress of a request that has a table."""

    blocks: int
    """The length of its table."""
    cached_blocks: int
    """How many of its leading blocks are hits or were registered (`num_cached_block`)."""
    cached_tokens: int
    """History: how many of its leading tokens came with the hits, and are not computed by the request."""
    computed: int
    """How many of its leading tokens have their KV written."""
    scheduled: int
    """How many of its leading tokens have slots; steps in flight write the rest."""


NO_TABLE = Holding(0, 0, 0, 0, 0)


class Pool(NamedTuple):
    """The pool. As in releases, reference counts are kept beside the tables, so a wrong rule can make them disagree."""

    tables: Map[tuple[Request, Position], Block]
    """The block at each position of each request's table."""
    holdings: Map[Request, Holding]
    """Requests that have a table."""
    references: Map[Block, int]
    """The number of table entries that name a block; absent if none."""
    free: Queue[Block]
    """The free queue, the next block first; each weighs 1. Registered ones stay findable until they are reallocated."""
    registered: Map[Block, Content]
    """The registered blocks, each with its exact content; a released manager keeps `block_hash` here."""
    prefix_map: Map[Hash, tuple[Block, ...]]
    """The blocks registered under each hash (`cached_block_hash_to_block`), the first registered first.

    Copies are never merged, so a table only ever grows."""
    null: Block
    """The null block, in variants that reserve one."""
    bytes: Map[Block, Content]
    """History: the content whose KV a block really has; absent if it has none of a full block."""

    def free_count(self) -> int:
        """The number of free blocks, as the manager counts them."""
        return self.free.length

    def free_order(self) -> tuple[Block, ...]:
        """The blocks of the free queue, the next one first; for views."""
        return tuple(block for block, _ in self.free.items())

    def popped(self, count: int) -> tuple[Pool, tuple[Block, ...], bool]:
        """The first `count` blocks leave the free queue; False if it fails half way. For eras."""
        pool = self
        blocks: tuple[Block, ...] = ()
        while len(blocks) < min(count, self.free.length):
            block = pool.free.oldest(NOTHING)
            pool, blocks = pool._replace(free=pool.free.remove(block)), (*blocks, block)
        return pool, blocks, len(blocks) == count

    def removed(self, block: Block) -> tuple[Pool, bool]:
        """The block leaves the free queue; False if the removal fails. For eras."""
        return self._replace(free=self.free.remove(block)), True

    def appended(self, blocks: tuple[Block, ...]) -> tuple[Pool, bool]:
        """The blocks join the free queue at its end, in this order; False if it fails half way. For eras."""
        pool = self
        for block in blocks:
            pool = pool._replace(free=pool.free.push(block, 1))
        return pool, True

    def prepended(self, blocks: tuple[Block, ...]) -> Pool:
        """The blocks join the free queue at its front, in this order. For eras."""
        pool = self
        for turn in range(len(blocks)):
            pool = pool._replace(free=pool.free.push_front(blocks[len(blocks) - 1 - turn], 1))
        return pool

    def ended(self) -> Pool:
        """An assertion about the free queue has failed. For eras."""
        return self

    def has_ended(self) -> bool:
        """Whether the engine ended with such an assertion. For eras."""
        return False


class View(NamedTuple):
    """What properties read. Pairs without a meaningful order are sorted."""

    free: tuple[int, ...]
    """In the order in which blocks are allocated."""
    free_count: int
    """The number of free blocks, as the manager counts them."""
    references: tuple[tuple[int, int], ...]
    tables: tuple[tuple[int, tuple[int, ...]], ...]
    """Requests and their blocks."""
    holdings: tuple[tuple[int, Holding], ...]
    registered: tuple[tuple[int, int], ...]
    prefix_map: tuple[tuple[int, tuple[int, ...]], ...]
    null: int
    bytes: tuple[tuple[int, int], ...]


def initial(config: Config, containers: Containers) -> Pool:
    """Every block is free, the first one first."""
    free = containers.queue()
    for block in range(config.blocks):
        free = free.push(block, 1)
    return Pool(
        tables=containers.map(),
        holdings=containers.map(),
        references=containers.map(),
        free=free,
        registered=containers.map(),
        prefix_map=containers.map(),
        null=NOTHING,
        bytes=containers.map(),
    )


def table_of(pool: Pool, request: Request) -> Iterable[Block]:
    """The request's blocks in order; for views."""
    blocks = pool.holdings.get(request, NO_TABLE).blocks
    return (pool.tables.get((request, position), NOTHING) for position in range(blocks))


def view(config: Config, pool: Pool) -> View:
    """The state as properties see it."""
    return View(
        free=pool.free_order(),
        free_count=pool.free_count(),
        references=tuple(pool.references.items()),
        tables=tuple((request, tuple(table_of(pool, request))) for request, _ in pool.holdings.items()),
        holdings=tuple(pool.holdings.items()),
        registered=tuple(pool.registered.items()),
        prefix_map=tuple(pool.prefix_map.items()),
        null=pool.null,
        bytes=tuple(pool.bytes.items()),
    )


OBSERVABLES: Mapping[str, str] = MappingProxyType(
    {
        "free": "blocks of the free queue, the next one first",
        "references": "pairs of block and reference count, ascending",
        "tables": "for each request with a table, ascending: request, number of blocks, the blocks",
        "carried": "pairs of block and content by which the block can be found, ascending",
    }
)
"""What each observable holds."""


GROUPING: Mapping[str, Grouping] = MappingProxyType(
    {
        "free": Grouping(row=("block",)),
        "references": Grouping(row=("block", "")),
        "tables": Grouping(row=("request",), counted="block"),
        "carried": Grouping(row=("block", "content")),
    }
)
"""Which integers of an observable belong together."""


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """What an implementation shows: see `OBSERVABLES`."""
    return {
        "free": view.free,
        "references": tuple(part for pair in view.references for part in pair),
        "tables": tuple(part for request, blocks in view.tables for part in (request, len(blocks), *blocks)),
        "carried": tuple(part for pair in view.registered for part in pair),
    }


def taking(config: Config, pool: Pool, blocks: tuple[Block, ...]) -> Pool:
    """The same pool with these blocks at the front of the free queue: the order of KV-11, chosen otherwise.

    A pool in which one of them is not free, or is named twice, stays as it is: no allocator may take such a block.
    """
    free = pool.free_order()
    if len(set(blocks) & set(free)) < len(blocks):
        return pool
    moved = pool
    for block in free:
        moved, whole = moved.removed(block)
        if not whole:
            return pool
    moved, whole = moved.appended((*blocks, *(block for block in free if block not in blocks)))
    return moved if whole else pool


OWN_NAMES: OwnNames[Config, Pool] = OwnNames(
    sort="block",
    order="free",
    shown=MappingProxyType({"free": each, "references": pairs, "tables": rows, "carried": pairs}),
    taking=taking,
)
