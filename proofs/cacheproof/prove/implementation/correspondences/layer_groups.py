"""`layer_groups`: any contents, lengths and prompts; kinds of layers and sizes of blocks are those of the shape."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields
from itertools import combinations, product
from typing import Any, NamedTuple

from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.block_pool import CircularQueue, copies_are_apart, rank_of_copy
from cacheproof.prove.implementation.cells import Cell
from cacheproof.prove.implementation.correspondence import Correspondence, number
from cacheproof.prove.implementation.encodings import within
from cacheproof.prove.implementation.finite import FiniteMap, FiniteQueue, FiniteSequence, cell_of, value_of
from cacheproof.prove.implementation.finite_copies import FiniteCopies
from cacheproof.prove.implementation.finite_lists import FiniteList
from cacheproof.prove.implementation.tensors import CellTensor
from cacheproof.prove.implementation.tensors import of as known
from cacheproof.tensor_models.layer_groups import tables_of
from cachespec.kernel import Operation
from cachespec.layer_groups import configuration, prefixes, state, tables, transitions
from cachespec.layer_groups import operations as calls
from cachespec.layer_groups.configuration import (
    CHUNK,
    CROSS,
    FULL,
    NOTHING,
    STATE,
    WINDOW,
    Config,
    alignment,
    blocks_for,
    caches,
    size_of,
    span_of,
)
from cachespec.layer_groups.state import Pool, Progress, Row

LATEST = 2**40
"""No stamp is later: a key of 63 bits has room for it, beside the number of a block."""
NULL = 0
"""The null block: no operation makes another one of it."""
NAMES = {FULL: "full attention", WINDOW: "window {}", CHUNK: "chunk {}", STATE: "states", CROSS: "cross attention {}"}


class Shape(NamedTuple):
    """How many there are of everything that has a row, and the groups. `tokens`: the length of the longest request."""

    requests: int
    tokens: int
    blocks: int
    contents: int
    kinds: tuple[int, ...]
    spans: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: int = 1

    @property
    def hash_size(self) -> int:
        """Tokens of a hash block: all sizes are multiples of it."""
        return min(self.sizes)

    def __str__(self) -> str:
        groups = ", ".join(
            f"{NAMES[kind].format(span)} in blocks of {size}"
            for kind, span, size in zip(self.kinds, self.spans, self.sizes, strict=True)
        )
        return (
            f"{self.requests} requests of {self.tokens} tokens with {self.steps} in flight, {self.blocks - 1} blocks, "
            f"{self.contents} contents, groups: {groups}; stamps below 2**40"
        )

    def config(self, chains: Any, lengths: Any, prompts: Any) -> Config:
        """The configuration with these numbers."""
        return Config(
            blocks=self.blocks,
            kinds=self.kinds,
            chains=chains,
            lengths=lengths,
            spans=self.spans,
            sizes=self.sizes,
            hash_size=self.hash_size,
            prompts=prompts,
            ahead=self.steps - 1,
            resets=1,
        )

    def example(self) -> Config:
        """One configuration of this shape."""
        hashes = self.tokens // self.hash_size
        first = (*range(hashes - 1), self.contents - 1)
        longest = (self.tokens,) * self.requests
        return self.config((first,) * self.requests, longest, longest)

    def unknown(self) -> Config:
        """Any contents, lengths and prompts."""
        hashes = range(self.tokens // self.hash_size)
        chains = (FiniteSequence(number(f"content[{one}, {at}]") for at in hashes) for one in range(self.requests))
        lengths, prompts = (
            FiniteSequence(number(f"{name}[{one}]") for one in range(self.requests)) for name in ("length", "prompt")
        )
        return self.config(tuple(chains), lengths, prompts)


def cells_of(values: Iterable[Any]) -> list[Cell]:
    """Integers of the specification as cells."""
    return [cell_of(value) for value in values]


def parameters(shape: Shape, config: Any) -> Iterator[CellTensor]:
    """Those of the groups are known; keys, lengths and prompts are those of the configuration."""
    example = tables_of(shape.example(), "cpu")
    for name, tensor in zip(example._fields, example, strict=True):
        if name == "keys":
            yield CellTensor(tuple(tensor.shape), tensor.dtype, tuple(keys(shape, config, tensor.shape[2])))
        elif name in ("lengths", "prompts"):
            yield CellTensor(tuple(tensor.shape), tensor.dtype, tuple(cells_of(getattr(config, name))))
        else:
            yield known(tensor)


def keys(shape: Shape, config: Any, positions: int) -> Iterator[Cell]:
    """By request, group and position: the number of the group and the content; the number behind all where none is."""
    for request, (group, size), position in product(range(shape.requests), enumerate(shape.sizes), range(positions)):
        last, chain = (position + 1) * size // shape.hash_size - 1, list(config.chains[request])
        none = len(shape.sizes) * shape.contents
        yield cells.add(group * shape.contents, cell_of(chain[last])) if last < len(chain) else none


class Read(CircularQueue):
    """The cells of a pool by field."""

    def __init__(self, config: Any, pool: Any) -> None:
        super().__init__(pool)
        self.config = config
        self.requests, self.groups, self.positions = pool.tables.shape
        self.contents = (pool.this_step.shape[0] - 1) // self.groups

    def place(self, request: int, group: int, position: int) -> Cell:
        """The block at a place of a table."""
        return self.pool.tables.cells[(request * self.groups + group) * self.positions + position]

    def of_group(self, name: str, request: int, group: int) -> Cell:
        """A cell of a column with one element for each request and group."""
        return getattr(self.pool, name).cells[request * self.groups + group]

    def ends(self, request: int) -> tuple[Cell, ...]:
        """Where the steps in flight end."""
        steps = self.pool.ends.shape[1]
        return tuple(self.pool.ends.cells[request * steps : (request + 1) * steps])

    def runs(self, request: int) -> Cell:
        """Whether the request has tables."""
        return cells.less(0, self.pool.scheduled.cells[request])

    def key(self, number: Cell) -> tuple[Any, Any]:
        """Group and content of the number of a key."""
        group: Cell = 0
        for one in range(1, self.groups):
            group = cells.choose(cells.at_most(one * self.contents, number), one, group)
        return value_of(group), value_of(cells.subtract(number, cells.multiply(self.contents, group)))


def decode(config: Any, pool: Any) -> Pool:
    """The queue from its head on; copies in the order of their stamps."""
    read = Read(config, pool)
    blocks, requests, groups = range(read.blocks), range(read.requests), range(read.groups)
    rows = list(product(requests, groups))
    places = [(*row, position) for row in rows for position in range(read.positions)]
    carried, written = ({block: column.cells[block] for block in blocks} for column in (pool.carried, pool.bytes))
    found = {block: cells.at_most(0, carried[block]) for block in blocks}
    by_key = {block: read.key(carried[block]) for block in blocks}
    copies: Any = FiniteCopies({one: rank_of_copy(pool, one, found, carried) for one in blocks}, by_key)
    return Pool(
        tables=FiniteMap(
            {
                at: cells.every((read.runs(at[0]), cells.less(at[2], read.of_group("lengths", *at[:2]))))
                for at in places
            },
            {at: value_of(read.place(*at)) for at in places},
        ),
        rows=FiniteMap(
            {row: cells.every((read.runs(row[0]), cells.truth(read.of_group("lengths", *row)))) for row in rows},
            {row: Row(*(value_of(read.of_group(name, *row)) for name in ("lengths", "registered"))) for row in rows},
        ),
        progress=FiniteMap(
            {request: read.runs(request) for request in requests},
            {request: progress_of(read, request) for request in requests},
        ),
        references=FiniteMap(
            {block: cells.truth(pool.references.cells[block]) for block in blocks},
            {block: value_of(pool.references.cells[block]) for block in blocks},
        ),
        free=FiniteQueue({block: read.rank(block) for block in blocks}, dict.fromkeys(blocks, 1)),
        registered=FiniteMap(found, by_key),
        prefix_map=copies,
        this_step=FiniteMap(
            {divmod(key, read.contents): pool.this_step.cells[key] for key in range(read.groups * read.contents)},
            {divmod(key, read.contents): 1 for key in range(read.groups * read.contents)},
        ),
        null=value_of(pool.null.cells[0]),
        bytes=FiniteMap(
            {block: cells.at_most(0, written[block]) for block in blocks},
            {block: read.key(written[block]) for block in blocks},
        ),
        ended=0,
    )


def progress_of(read: Read, request: int) -> Progress:
    """How far a request is."""
    pool = read.pool
    found, loaded, computed = (value_of(column.cells[request]) for column in (pool.found, pool.loaded, pool.computed))
    ends: Any = FiniteList(map(value_of, read.ends(request)), pool.flying.cells[request])
    return Progress(found, loaded, computed, ends)


def invariant(config: Any, pool: Any) -> Iterator[Cell]:
    """LG-1 to LG-4 in terms of the tensors, without the spare rows."""
    read = Read(config, pool)
    real = [block for block in range(read.blocks) if block != NULL]
    highest = read.groups * read.contents - 1
    yield cells.equal(pool.null.cells[0], NULL)
    for request in range(read.requests):
        yield from of_the_progress(read, request)
        yield from of_the_tables(read, request)
    (head,) = pool.head.cells
    yield from within([head], 0, len(pool.order.cells) - 2)
    yield from within(pool.order.cells, 0, read.blocks)
    yield from read.holds_the_free(real)
    for block in real:
        entries = (cells.equal(cell, block) for cell in pool.tables.cells)
        yield cells.equal(pool.references.cells[block], cells.count(entries))
        yield from within((pool.carried.cells[block], pool.bytes.cells[block]), -1, highest)
    yield cells.equal(pool.references.cells[NULL], 0)
    yield from (cells.equal(column.cells[NULL], -1) for column in (pool.carried, pool.bytes))
    yield from within((pool.carried.cells[-1], pool.bytes.cells[-1]), -1, highest + 1)
    yield from within(pool.stamp.cells, 0, pool.clock.cells[0])
    yield from copies_are_apart(pool, real, of_one_key=True)
    for key in range(highest + 1):
        yield cells.some((cells.inverse(pool.this_step.cells[key]), *computing(read, *divmod(key, read.contents))))


def of_the_progress(read: Read, request: int) -> Iterator[Cell]:
    """What is found, loaded, computed and in flight, in this order."""
    pool, ends = read.pool, read.ends(request)
    flying, computed, scheduled = (column.cells[request] for column in (pool.flying, pool.computed, pool.scheduled))
    yield from within([flying], 0, len(ends))
    last = computed
    for step, end in enumerate(ends):
        flies = cells.less(step, flying)
        yield cells.choose(flies, cells.less(last, end), cells.equal(end, 0))
        last = cells.choose(flies, end, last)
    yield cells.equal(scheduled, last)
    yield cells.at_most(scheduled, cell_of(read.config.lengths[request]))
    found, loaded = pool.found.cells[request], pool.loaded.cells[request]
    yield cells.every((cells.at_most(0, found), cells.at_most(found, loaded), cells.at_most(loaded, computed)))


def of_the_tables(read: Read, request: int) -> Iterator[Cell]:
    """A table has slots for what is scheduled; no block is in two places of a request."""
    config, pool = read.config, read.pool
    for group in range(read.groups):
        length, registered = (read.of_group(name, request, group) for name in ("lengths", "registered"))
        size, span = size_of(config, group), span_of(config, group)
        scheduled = pool.scheduled.cells[request]
        slots = (
            blocks_for(config, group, span)
            if config.kinds[group] == CROSS
            else (cells.quotient(cells.add(scheduled, size - 1), size))
        )
        yield cells.equal(length, cells.choose(read.runs(request), slots, 0))
        yield cells.equal(registered, registered_of(read, request, group))
        for position in range(read.positions):
            block = read.place(request, group, position)
            yield from within([block], 0, read.blocks - 1)
            yield cells.some((cells.less(position, length), cells.equal(block, NULL)))
            carried, references = (cells.select(list(one.cells[:-1]), block) for one in (pool.carried, pool.references))
            settled = cells.some((cells.less(position, registered), cells.equal(block, NULL)))
            yield cells.some((settled, cells.every((cells.less(carried, 0), cells.equal(references, 1)))))
    places = [read.place(request, *at) for at in product(range(read.groups), range(read.positions))]
    for one, other in combinations(places, 2):
        yield cells.some((cells.equal(one, NULL), cells.inverse(cells.equal(one, other))))


def registered_of(read: Read, request: int, group: int) -> Cell:
    """How many positions are hits, or were passed by the registration: up to what is computed, since a step was."""
    config, pool = read.config, read.pool
    if not caches(config):
        return 0
    found, loaded, computed = (column.cells[request] for column in (pool.found, pool.loaded, pool.computed))
    size = size_of(config, group)
    hits = cells.larger(first_needed(config, group, loaded), cells.quotient(found, size))
    return cells.choose(cells.less(loaded, computed), cells.quotient(computed, size), hits)


def first_needed(config: Any, group: int, tokens: Cell) -> Cell:
    """The first position that the token behind these reads."""
    kind, span = config.kinds[group], span_of(config, group)
    skipped: Cell = 0
    if kind == WINDOW:
        skipped = cells.subtract(tokens, span - 1)
    elif kind == CHUNK:
        skipped = cells.multiply(span, cells.quotient(tokens, span))
    elif kind == STATE:
        skipped = cells.subtract(tokens, 1)
    return cells.quotient(cells.larger(0, skipped), size_of(config, group))


def computing(read: Read, group: int, content: int) -> Iterator[Cell]:
    """For each place of the tables, whether the state behind its block is this content, in a group of states."""
    config = read.config
    if config.kinds[group] != STATE or not caches(config):
        return
    size = size_of(config, group)
    for request, chain in enumerate(config.chains):
        for position, its in enumerate(list(chain)):
            long_enough = cells.at_most((position + 1) * size, cell_of(config.lengths[request]))
            yield cells.every((cells.equal(cell_of(its), content), long_enough))


def operations(shape: Shape) -> Iterator[Operation]:
    """Each with every request; tokens are any integers."""
    for request in range(shape.requests):
        yield calls.GetComputedBlocks(request)
        yield calls.AllocateSlots(request, number("external"), number("tokens"))  # type: ignore[arg-type]  # unknown integers
        yield calls.Commit(request)
        yield calls.FreeRequest(request)
    yield calls.ResetPrefixCache()
    yield calls.NewStep()


def operands(operation: Any) -> list[Any]:
    """As `tensor_models` has them."""
    return [getattr(operation, field.name) for field in fields(operation)]


def valid(shape: Shape, config: Any, pool: Any, operation: Any) -> Iterator[Cell]:
    """A content names all before it; a request has the longest table; steps in flight are as many as there may be."""
    lengths, contents = cells_of(config.lengths), cells_of(one for chain in config.chains for one in chain)
    yield from within(lengths, 0, shape.tokens)
    yield cells.some(cells.less(shape.tokens - shape.hash_size, length) for length in lengths)
    for prompt, length in zip(cells_of(config.prompts), lengths, strict=True):
        yield from within([prompt], 0, length)
    yield from within(contents, 0, shape.contents - 1)
    yield cells.some(cells.equal(content, shape.contents - 1) for content in contents)
    parents = [cell_of(parent) for chain in config.chains for parent in (NOTHING, *list(chain)[:-1])]
    for one, other in combinations(range(len(contents)), 2):
        differ = cells.inverse(cells.equal(contents[one], contents[other]))
        yield cells.some((differ, cells.equal(parents[one], parents[other])))
    if type(operation) is calls.AllocateSlots:
        external = cell_of(operation.external)
        yield cells.at_most(0, external) if caches(config) else cells.equal(external, 0)
        flying = pool.progress.get(operation.request, state.NO_PROGRESS).ends
        yield cells.less(flying.count, shape.steps)


def of(shape: Shape, kinds: Collection[type[Operation]], *, nightly: bool = False) -> Correspondence:
    """At this shape, these operations."""
    assert shape.tokens % alignment(shape.example()) == 0
    return Correspondence(
        component="layer_groups",
        shape=str(shape),
        config=shape.example(),
        unknown=shape.unknown,
        parameters=lambda config: parameters(shape, config),
        decode=decode,
        invariant=invariant,
        operations=lambda: (one for one in operations(shape) if type(one) in kinds),
        valid=lambda config, pool, operation: valid(shape, config, pool, operation),
        operands=operands,
        assumed=lambda pool: [cells.less(pool.clock.cells[0], LATEST)],
        constants={"null": NULL},
        modules=(configuration, prefixes, state, tables, transitions),
        nightly=nightly,
    )


SHORT = (calls.GetComputedBlocks, calls.ResetPrefixCache, calls.NewStep)
LONG = (calls.AllocateSlots, calls.Commit, calls.FreeRequest)
"""Calls of which the specification has many paths."""

CORRESPONDENCES = (
    of(Shape(1, 2, 3, 2, (CHUNK,), (1,), (1,)), (*SHORT, *LONG)),
    of(Shape(1, 2, 4, 2, (FULL, STATE), (0, 0), (1, 1)), SHORT),
    of(Shape(2, 2, 3, 2, (FULL,), (0,), (1,)), (*SHORT, *LONG), nightly=True),
    of(Shape(1, 4, 3, 2, (WINDOW,), (2,), (2,)), (*SHORT, *LONG), nightly=True),
    of(Shape(1, 3, 3, 3, (WINDOW,), (2,), (1,), steps=2), (*SHORT, *LONG), nightly=True),
    of(Shape(1, 2, 3, 2, (FULL, CROSS), (0, 1), (1, 1)), (*SHORT, *LONG), nightly=True),
    of(Shape(1, 2, 3, 2, (FULL, STATE), (0, 0), (2, 2)), LONG, nightly=True),
    of(Shape(1, 2, 4, 2, (FULL, STATE), (0, 0), (1, 1)), (calls.Commit, calls.FreeRequest), nightly=True),
)
