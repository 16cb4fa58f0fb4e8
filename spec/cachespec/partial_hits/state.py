"""The state of the pool, of all tables and of the worker, and the view that properties and observations read."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from cachespec.kernel import Containers, Grouping, Map, Observation, Outcome, Queue
from cachespec.partial_hits.configuration import Block, Config, Group, Key, Request


class Progress(NamedTuple):
    """How far a request with tables has come."""

    found: int
    """History: tokens of its hit."""
    computed: int
    """Tokens whose KV is written."""
    scheduled: int
    """Tokens that have slots."""


NO_PROGRESS = Progress(0, 0, 0)


class Copy(NamedTuple):
    """One block is to be copied into another, before anything of its step is computed."""

    step: int
    """0: the oldest step that the worker has; one more for each step behind it."""
    group: Group
    source: Block
    target: Block
    key: Key
    """Normative: by which the target can be found when the copy has run; no content if it is a request's own."""


class Write(NamedTuple):
    """What a step computes of one request in one group."""

    step: int
    request: Request
    group: Group
    start: int
    """Tokens before those that the step computes."""
    end: int
    blocks: tuple[Block, ...]
    """The request's table in this group when the step was scheduled: what it reads and writes."""
    lives: int
    """0: the request was freed."""


class Pool(NamedTuple):
    """One pool of blocks for both groups, and the steps that the worker has not executed."""

    tables: Map[tuple[Request, Group], tuple[Block, ...]]
    """The block at each position; the null block where the group needs none."""
    progress: Map[Request, Progress]
    """Requests that have tables."""
    references: Map[Block, int]
    """Table entries that name a block, and copies of the step being planned that do; absent if none."""
    free: Queue[Block]
    """The free queue, the next block first; each weighs 1. Registered ones stay findable until they are reallocated."""
    registered: Map[Block, tuple[Key, ...]]
    """The keys of each block that can be found: of the whole block, and of prefixes that end within it."""
    prefix_map: Map[Key, tuple[Block, ...]]
    """The blocks registered under each key, the first registered first."""
    copies: tuple[Copy, ...]
    """Copies that the worker has not run."""
    writes: tuple[Write, ...]
    """What the worker has not computed."""
    dispatched: int
    """Steps that the worker has. Copies and writes with this number belong to the step being planned."""
    this_step: Map[Key, int]
    """For eras: states that the step being planned computes or copies."""
    null: Block
    """The null block: never free, never registered."""
    bytes: Map[Block, tuple[Key, ...]]
    """History: what a block really holds. Of full attention, the content at each slot; or the state of one prefix."""


Result = tuple[Pool, Outcome]


class View(NamedTuple):
    """What properties read. Pairs without a meaningful order are sorted."""

    free: tuple[int, ...]
    """In the order in which blocks are allocated."""
    references: tuple[tuple[int, int], ...]
    tables: tuple[tuple[tuple[int, int], tuple[int, ...]], ...]
    """Request and group, and the blocks of that table."""
    progress: tuple[tuple[int, Progress], ...]
    registered: tuple[tuple[int, tuple[Key, ...]], ...]
    prefix_map: tuple[tuple[Key, tuple[int, ...]], ...]
    copies: tuple[Copy, ...]
    writes: tuple[Write, ...]
    dispatched: int
    null: int
    bytes: tuple[tuple[int, tuple[Key, ...]], ...]


def initial(config: Config, containers: Containers) -> Pool:
    """The first block is the null block; all others are free, the first one first."""
    free = containers.queue()
    for block in range(1, config.blocks):
        free = free.push(block, 1)
    empty = containers.map()
    return Pool(
        tables=empty,
        progress=empty,
        references=empty,
        free=free,
        registered=empty,
        prefix_map=empty,
        copies=(),
        writes=(),
        dispatched=0,
        this_step=empty,
        null=0,
        bytes=empty,
    )


def view(config: Config, pool: Pool) -> View:
    """The state as properties see it."""
    return View(
        free=tuple(block for block, _ in pool.free.items()),
        references=tuple(pool.references.items()),
        tables=tuple(pool.tables.items()),
        progress=tuple(pool.progress.items()),
        registered=tuple(pool.registered.items()),
        prefix_map=tuple(pool.prefix_map.items()),
        copies=pool.copies,
        writes=pool.writes,
        dispatched=pool.dispatched,
        null=pool.null,
        bytes=tuple(pool.bytes.items()),
    )


OBSERVABLES: Mapping[str, str] = MappingProxyType(
    {
        "free": "blocks of the free queue, the next one first",
        "references": "pairs of block and reference count, ascending, the null block left out",
        "tables": "for each table, ascending: request, group, number of positions, the block at each",
        "carried": "block, group and content by which the block can be found, ascending",
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
    carried = sorted((block, *key) for block, keys in view.registered for key in keys)
    return {
        "free": view.free,
        "references": tuple(part for pair in view.references for part in pair),
        "tables": tuple(part for name, blocks in view.tables for part in (*name, len(blocks), *blocks)),
        "carried": tuple(part for row in carried for part in row),
    }
