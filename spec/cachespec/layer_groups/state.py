"""The state of the pool and of all tables, and the view that properties and observations read."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from cachespec.kernel import Containers, Grouping, Map, Observation, Outcome, Queue
from cachespec.layer_groups.configuration import NOTHING, Block, Config, Group, Key, Position, Request


class Row(NamedTuple):
    """One table: that of one request in one group."""

    length: int
    """Positions, those with the null block included."""
    cached: int
    """How many leading positions are hits or were passed by the registration (`num_cached_block`)."""


NO_ROW = Row(0, 0)


class Progress(NamedTuple):
    """How far a request with tables has come."""

    found: int
    """History: tokens of its hit."""
    loaded: int
    """History: tokens that were not computed by the request: its hit, and what was loaded from outside."""
    computed: int
    """Tokens whose KV is written."""
    ends: tuple[int, ...]
    """Where each step in flight ends, the oldest first."""


NO_PROGRESS = Progress(0, 0, 0, ())


def scheduled(progress: Progress) -> int:
    """Tokens that have slots."""
    return progress.ends[len(progress.ends) - 1] if len(progress.ends) > 0 else progress.computed


class Pool(NamedTuple):
    """One pool of blocks for all groups. Reference counts are kept beside the tables, as in releases."""

    tables: Map[tuple[Request, Group, Position], Block]
    """The block at each position of each table; the null block where the group needs none."""
    rows: Map[tuple[Request, Group], Row]
    """Tables that have a position."""
    progress: Map[Request, Progress]
    """Requests that have tables."""
    references: Map[Block, int]
    """The number of table entries that name a block; absent if none. Those of the null block are not counted."""
    free: Queue[Block]
    """The free queue, the next block first; each weighs 1. Registered ones stay findable until they are reallocated."""
    registered: Map[Block, Key]
    """The registered blocks, each with its key; a released manager keeps `block_hash` here."""
    prefix_map: Map[Key, tuple[Block, ...]]
    """The blocks registered under each key, the first registered first."""
    this_step: Map[Key, int]
    """States that the current step computes; no request of the same step can read them."""
    null: Block
    """The null block: never free, never registered."""
    bytes: Map[Block, Key]
    """History: what a full block really holds, or which state; absent if it has none of a whole block."""
    ended: int
    """1: an assertion of a release failed, and its engine is gone. For eras."""


Result = tuple[Pool, Outcome]


class View(NamedTuple):
    """What properties read. Pairs without a meaningful order are sorted."""

    free: tuple[int, ...]
    """In the order in which blocks are allocated."""
    references: tuple[tuple[int, int], ...]
    tables: tuple[tuple[tuple[int, int], tuple[int, ...]], ...]
    """Request and group, and the blocks of that table."""
    positions: tuple[tuple[int, int, int], ...]
    """Request, group and position of every entry, whatever tables there are."""
    rows: tuple[tuple[tuple[int, int], Row], ...]
    progress: tuple[tuple[int, Progress], ...]
    registered: tuple[tuple[int, Key], ...]
    prefix_map: tuple[tuple[Key, tuple[int, ...]], ...]
    this_step: tuple[Key, ...]
    null: int
    bytes: tuple[tuple[int, Key], ...]


def initial(config: Config, containers: Containers) -> Pool:
    """The first block is the null block; all others are free, the first one first."""
    free = containers.queue()
    for block in range(1, config.blocks):
        free = free.push(block, 1)
    empty = containers.map()
    return Pool(
        tables=empty,
        rows=empty,
        progress=empty,
        references=empty,
        free=free,
        registered=empty,
        prefix_map=empty,
        this_step=empty,
        null=0,
        bytes=empty,
        ended=0,
    )


def view(config: Config, pool: Pool) -> View:
    """The state as properties see it."""
    return View(
        free=tuple(block for block, _ in pool.free.items()),
        references=tuple(pool.references.items()),
        tables=tuple(
            ((request, group), tuple(pool.tables.get((request, group, at), NOTHING) for at in range(row.length)))
            for (request, group), row in pool.rows.items()
        ),
        positions=tuple(position for position, _ in pool.tables.items()),
        rows=tuple(pool.rows.items()),
        progress=tuple(pool.progress.items()),
        registered=tuple(pool.registered.items()),
        prefix_map=tuple(pool.prefix_map.items()),
        this_step=tuple(key for key, _ in pool.this_step.items()),
        null=pool.null,
        bytes=tuple(pool.bytes.items()),
    )


OBSERVABLES: Mapping[str, str] = MappingProxyType(
    {
        "free": "blocks of the free queue, the next one first",
        "references": "pairs of block and reference count, ascending, the null block left out",
        "tables": "for each table, ascending: request, group, number of positions, the block at each",
        "carried": "block, group and content by which the block can be found, ascending by block",
    }
)
"""What each observable holds."""

GROUPING: Mapping[str, Grouping] = MappingProxyType(
    {
        "free": Grouping(row=("block",)),
        "references": Grouping(row=("block", "")),
        "tables": Grouping(row=("request", "group"), counted="block"),
        "carried": Grouping(row=("block", "", "")),
    }
)
"""Which integers of an observable belong together."""


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """What an implementation shows: see `OBSERVABLES`."""
    return {
        "free": view.free,
        "references": tuple(part for pair in view.references for part in pair),
        "tables": tuple(part for name, blocks in view.tables for part in (*name, len(blocks), *blocks)),
        "carried": tuple(part for block, key in view.registered for part in (block, *key)),
    }
