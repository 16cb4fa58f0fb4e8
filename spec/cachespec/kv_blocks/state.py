"""The state of the pool, and the view that properties and observations read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cachespec.kernel import Containers, Map, Observation, Queue
from cachespec.kv_blocks.configuration import NOTHING, Block, Config, Content, Hash, Position, Request


class Holding(NamedTuple):
    """How far a request has come that has a table."""

    blocks: int
    """The length of its table."""
    registered: int
    """So many of its blocks, from the first, were hits or have been registered."""
    origin: int
    """History: the token from which on it computes by itself; what is before came with the hits."""
    computed: int
    """Its tokens before this one have their KV written."""
    scheduled: int
    """It has slots for its tokens before this one, and steps in flight will write them."""


NO_TABLE = Holding(0, 0, 0, 0, 0)


class Pool(NamedTuple):
    """Reference counts beside the tables, as released, so that they can disagree where a rule is wrong."""

    tables: Map[tuple[Request, Position], Block]
    """The block at each position of each request's table."""
    holdings: Map[Request, Holding]
    """Requests that have a table."""
    references: Map[Block, int]
    """How many places in tables a block has; absent where none."""
    free: Queue[Block]
    """Blocks that may be taken, the next one first; each weighs 1. Some of them can be found until then."""
    carried: Map[Block, Content]
    """Registered blocks, each with the content under which it can be found."""
    copies: Map[Hash, tuple[Block, ...]]
    """For each hash the blocks that carry it, the first registered first. Copies are never merged, so that a table only
    ever grows."""
    null: Block
    """The block that is set aside as a placeholder, in some variants."""
    bytes: Map[Block, Content]
    """History: of which content a block really has the KV; absent where it is not that of any full block."""


class View(NamedTuple):
    """What properties read. Pairs are sorted where their order means nothing."""

    free: tuple[int, ...]
    """In the order in which blocks are taken."""
    references: tuple[tuple[int, int], ...]
    tables: tuple[tuple[int, tuple[int, ...]], ...]
    """Requests and their blocks."""
    holdings: tuple[tuple[int, Holding], ...]
    carried: tuple[tuple[int, int], ...]
    copies: tuple[tuple[int, tuple[int, ...]], ...]
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
        carried=containers.map(),
        copies=containers.map(),
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
        free=tuple(block for block, _ in pool.free.items()),
        references=tuple(pool.references.items()),
        tables=tuple((request, tuple(table_of(pool, request))) for request, _ in pool.holdings.items()),
        holdings=tuple(pool.holdings.items()),
        carried=tuple(pool.carried.items()),
        copies=tuple(pool.copies.items()),
        null=pool.null,
        bytes=tuple(pool.bytes.items()),
    )


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """What an implementation shows.

    `free`: the free queue, the next block first. `references`: block, count, block, count, ascending. `tables`: for
    each request with a table, ascending: the request, the length, the blocks. `carried`: block, content, ascending.
    """
    return {
        "free": view.free,
        "references": tuple(part for pair in view.references for part in pair),
        "tables": tuple(part for request, blocks in view.tables for part in (request, len(blocks), *blocks)),
        "carried": tuple(part for pair in view.carried for part in pair),
    }
