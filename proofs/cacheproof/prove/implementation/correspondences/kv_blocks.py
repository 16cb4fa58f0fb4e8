"""`kv_blocks`: any contents, lengths and hashes; tables, queue and stamps of any form that the invariant allows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields
from itertools import combinations, product
from typing import Any, NamedTuple

import torch

from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.actions import Burst
from cacheproof.prove.implementation.block_pool import CircularQueue, copies_are_apart, rank_of_copy
from cacheproof.prove.implementation.bursts import bursts
from cacheproof.prove.implementation.cells import Cell
from cacheproof.prove.implementation.correspondence import Correspondence, number, scalar
from cacheproof.prove.implementation.encodings import within
from cacheproof.prove.implementation.finite import FiniteMap, FiniteQueue, FiniteSequence, cell_of, value_of
from cacheproof.prove.implementation.finite_copies import FiniteCopies
from cacheproof.prove.implementation.tensors import CellTensor
from cachespec.kernel import Operation
from cachespec.kv_blocks import operations as calls
from cachespec.kv_blocks import rolling_back, transitions
from cachespec.kv_blocks.configuration import NOTHING, Config
from cachespec.kv_blocks.state import Holding, Pool

BLOCK_SIZE = 2
LATEST = 2**40
"""No stamp is later: a key of 63 bits has room for it, beside the number of a block."""


class Shape(NamedTuple):
    """How many there are of everything that has a row."""

    requests: int
    positions: int
    blocks: int
    contents: int

    def __str__(self) -> str:
        return (
            f"{self.requests} requests of {self.positions} blocks of {BLOCK_SIZE} tokens, {self.blocks} blocks, "
            f"{self.contents} contents, stamps below 2**40"
        )


def unknown(shape: Shape) -> Config:
    """Any chains of contents, lengths, hashes, and any limit."""
    chains = tuple(
        FiniteSequence(number(f"content[{request}, {place}]") for place in range(shape.positions))
        for request in range(shape.requests)
    )
    return Config(
        block_size=BLOCK_SIZE,
        blocks=shape.blocks,
        chains=chains,
        lengths=FiniteSequence(number(f"length[{request}]") for request in range(shape.requests)),
        hashes=FiniteSequence(number(f"hash[{content}]") for content in range(shape.contents)),
        limit=number("limit"),  # type: ignore[arg-type]  # an unknown integer
        rollbacks=1,
        disciplined=0,
    )


def cells_of(values: Iterable[Any]) -> list[Cell]:
    """Integers of the specification as cells."""
    return [cell_of(value) for value in values]


def parameters(config: Any) -> Iterator[CellTensor]:
    """Block size, limit, contents with a row and a column of none, lengths with nobody's, hashes with that of none."""
    none, requests, positions = len(config.hashes), len(config.chains), len(config.chains[0])
    yield scalar(config.block_size)
    yield scalar(config.limit)
    rows = [*([*cells_of(chain), none] for chain in config.chains), [none] * (positions + 1)]
    yield CellTensor((requests + 1, positions + 1), torch.int64, tuple(cell for row in rows for cell in row))
    yield CellTensor((requests + 1,), torch.int64, (*cells_of(config.lengths), 0))
    yield CellTensor((none + 1,), torch.int64, (*cells_of(config.hashes), none))


class Read(CircularQueue):
    """The cells of a pool by field."""

    def __init__(self, pool: Any) -> None:
        super().__init__(pool)
        self.requests, self.positions = pool.tables.shape[0] - 1, pool.tables.shape[1] - 1

    def table(self, request: int) -> tuple[Cell, ...]:
        """One row, with the cell behind its end."""
        width = self.positions + 1
        return tuple(self.pool.tables.cells[request * width : (request + 1) * width])

    def of_request(self, request: int) -> dict[str, Cell]:
        """The columns of one request by name."""
        return {name: getattr(self.pool, name).cells[request] for name in COLUMNS}

    def holds(self, request: int, position: int) -> Cell:
        """Whether the table has this position."""
        return cells.less(position, self.pool.blocks.cells[request])

    def entries(self, block: int) -> list[Cell]:
        """For each position of each table, whether this block is at it."""
        return [
            cells.every((self.holds(request, position), cells.equal(self.table(request)[position], block)))
            for request in range(self.requests)
            for position in range(self.positions)
        ]


COLUMNS = ("blocks", "registered", "origin", "computed", "scheduled")


def decode(config: Any, pool: Any) -> Pool:
    """The queue from its head on; copies in the order of their stamps."""
    read = Read(pool)
    blocks, requests = range(read.blocks), range(read.requests)
    carried = {block: pool.carried.cells[block] for block in blocks}
    found = {block: cells.at_most(0, carried[block]) for block in blocks}
    hashes = {block: cells.select(cells_of(config.hashes), carried[block]) for block in blocks}
    ranks = {block: rank_of_copy(pool, block, found, hashes) for block in blocks}
    copies: Any = FiniteCopies(ranks, {block: value_of(hashes[block]) for block in blocks})
    written = {block: pool.bytes.cells[block] for block in blocks}
    holdings = {one: Holding(*(value_of(cell) for cell in read.of_request(one).values())) for one in requests}
    places = [(request, position) for request in requests for position in range(read.positions)]
    return Pool(
        tables=FiniteMap(
            {place: read.holds(*place) for place in places},
            {place: value_of(read.table(place[0])[place[1]]) for place in places},
        ),
        holdings=FiniteMap({one: cells.less(0, pool.blocks.cells[one]) for one in requests}, holdings),
        references=FiniteMap(
            {block: cells.truth(pool.references.cells[block]) for block in blocks},
            {block: value_of(pool.references.cells[block]) for block in blocks},
        ),
        free=FiniteQueue({block: read.rank(block) for block in blocks}, dict.fromkeys(blocks, 1)),
        registered=FiniteMap(found, {block: value_of(carried[block]) for block in blocks}),
        prefix_map=copies,
        null=NOTHING,
        bytes=FiniteMap(
            {block: cells.at_most(0, written[block]) for block in blocks},
            {block: value_of(written[block]) for block in blocks},
        ),
    )


def invariant(config: Any, pool: Any) -> Iterator[Cell]:
    """KV-1 to KV-7 in terms of the tensors, without the spare row and the row of the null block."""
    read = Read(pool)
    contents = len(config.hashes)
    for request in range(read.requests):
        yield from of_a_table(config, read, request)
    yield from (cells.equal(cell, read.blocks) for cell in read.table(read.requests))
    yield from (cells.equal(cell, 0) for cell in read.of_request(read.requests).values())
    yield cells.inverse(pool.severed.cells[read.requests])
    yield from of_the_queue(read)
    for block in range(read.blocks):
        yield cells.equal(pool.references.cells[block], cells.count(read.entries(block)))
        found, written = pool.carried.cells[block], pool.bytes.cells[block]
        yield from within((found, written), -1, contents - 1)
        yield cells.some((cells.less(found, 0), cells.equal(found, written)))
    yield cells.at_most(0, pool.references.cells[read.blocks])
    yield from within((pool.carried.cells[read.blocks], pool.bytes.cells[read.blocks]), -1, contents)
    yield from within(pool.stamp.cells[:-1], 0, pool.clock.cells[0])
    yield from copies_are_apart(pool, range(read.blocks))


def of_a_table(config: Any, read: Read, request: int) -> Iterator[Cell]:
    """The request's blocks, its progress, and its findable blocks."""
    pool, table, column = read.pool, read.table(request), read.of_request(request)
    registered, computed = column["registered"], column["computed"]
    yield from within([column["blocks"]], 0, read.positions)
    yield cells.every((cells.at_most(0, column["origin"]), cells.at_most(0, computed)))
    yield cells.at_most(computed, column["scheduled"])
    yield cells.at_most(column["scheduled"], cells.multiply(column["blocks"], BLOCK_SIZE))
    yield cells.at_most(column["scheduled"], cell_of(config.limit))
    yield cells.equal(registered, cells.quotient(computed, BLOCK_SIZE))
    yield cells.at_most(column["origin"], cells.multiply(registered, BLOCK_SIZE))
    severed: Cell = False
    for position, block in enumerate(table[:-1]):
        held = read.holds(request, position)
        yield cells.choose(
            held,
            cells.every((cells.at_most(0, block), cells.less(block, read.blocks))),
            cells.equal(block, read.blocks),
        )
        content = cell_of(config.chains[request][position])
        found, written, count = (
            cells.select(list(column.cells[:-1]), block) for column in (pool.carried, pool.bytes, pool.references)
        )
        settled = cells.less(position, registered)
        yield cells.some((cells.inverse(settled), cells.equal(written, content)))
        behind = cells.every((cells.equal(count, 1), cells.less(found, 0)))
        yield cells.some((cells.inverse(held), settled, behind))
        severed = cells.choose(cells.equal(registered, position + 1), cells.less(found, 0), severed)
    yield cells.equal(table[-1], read.blocks)
    yield cells.equal(pool.severed.cells[request], severed)


def of_the_queue(read: Read) -> Iterator[Cell]:
    """Each block without a reference is in it once; its unused cells hold blocks, or the null block.

    Its head is wrapped where blocks come back, and not in a decode step: so with the free blocks it stays in range.
    """
    pool = read.pool
    (head,), (free,) = pool.head.cells, pool.free.cells
    yield cells.at_most(0, head)
    yield cells.at_most(cells.add(head, free), len(pool.order.cells) - 2 + read.blocks)
    yield from within(pool.order.cells, 0, read.blocks)
    yield from read.holds_the_free(range(read.blocks))


def operations(shape: Shape) -> Iterator[Operation]:
    """Each with every request and block; tokens are any integers, and so are the hits."""
    tokens, computed = number("tokens"), number("computed")
    for request in range(shape.requests):
        yield calls.GetComputedBlocks(request, tokens)  # type: ignore[arg-type]  # unknown integers, here and below
        for count in range(shape.positions + 1):
            hits = tuple(number(f"hit[{turn}]") for turn in range(count))
            yield calls.AllocateSlots(request, computed, tokens, hits)  # type: ignore[arg-type]
        yield calls.Commit(request, computed)  # type: ignore[arg-type]
        yield calls.RollBack(request, computed)  # type: ignore[arg-type]
        yield calls.FreeRequest(request)
        yield calls.Withdraw(request)
        others = range(shape.requests)
        for size in range(shape.requests + 1):
            yield from (calls.CommonPrefix(request, running) for running in combinations(others, size))
    yield from (calls.EvictBlock(block) for block in range(shape.blocks))
    yield calls.ResetPrefixCache()


def in_two_groups(request: int, other: int, positions: int) -> Iterator[Operation]:
    """Both tables with every number of hits; tokens to load and to compute are any integers."""
    external, tokens = number("external"), number("tokens")
    for counts in product(range(positions + 1), repeat=2):
        hits = (tuple(number(f"hit[{group}, {turn}]") for turn in range(count)) for group, count in enumerate(counts))
        yield calls.AllocateGroups(request, other, external, tokens, *hits)  # type: ignore[arg-type]  # unknown integers


def operands(shape: Shape, operation: Any) -> list[Any]:
    """As `tensor_models` has them, with hits that may be any number."""
    match operation:
        case calls.AllocateSlots():
            padded = [*operation.hits, *[shape.blocks] * (shape.positions - len(operation.hits))]
            return [operation.request, operation.computed, operation.tokens, len(operation.hits), *padded]
        case calls.AllocateGroups():
            both = operation.hits, operation.other_hits
            rows = (hit for hits in both for hit in (*hits, *[shape.blocks] * (shape.positions - len(hits))))
            return [*(operation.request, operation.other, operation.external, operation.tokens), *map(len, both), *rows]
        case calls.CommonPrefix():
            return [operation.request, *(int(one in operation.running) for one in range(shape.requests))]
    return [getattr(operation, field.name) for field in fields(operation)]


def valid(config: Any, pool: Any, operation: Any) -> Iterator[Cell]:
    """A content names all before it; the limit has the tables' positions; hits are blocks."""
    limit, contents = cell_of(config.limit), cells_of(one for chain in config.chains for one in chain)
    positions, count = len(config.chains[0]), len(config.hashes)
    yield from within([limit], (positions - 1) * BLOCK_SIZE + 1, positions * BLOCK_SIZE)
    yield from within(cells_of(config.lengths), 0, limit)
    yield from within(contents, 0, count - 1)
    yield cells.some(cells.equal(content, count - 1) for content in contents)
    parents = [cell_of(parent) for chain in config.chains for parent in (NOTHING, *list(chain)[:-1])]
    for one, other in combinations(range(len(contents)), 2):
        differ = cells.inverse(cells.equal(contents[one], contents[other]))
        yield cells.some((differ, cells.equal(parents[one], parents[other])))
    hashes = cells_of(config.hashes)
    for content, value in enumerate(hashes):
        yield from within([value], 0, content)
        yield cells.equal(cells.select(hashes, value), value)
    together: tuple[Any, ...] = operation.calls(pool) if type(operation) is Burst else (operation,)
    for call in together:
        if type(call) in (calls.AllocateSlots, calls.AllocateGroups):
            yield from within(cells_of(call.hits), 0, config.blocks - 1)
        if type(call) is calls.AllocateGroups:
            yield from within(cells_of(call.other_hits), 0, config.blocks - 1)
            yield cells.at_most(0, cell_of(call.external))
    if type(operation) is calls.GetComputedBlocks:
        yield cells.at_most(cell_of(operation.tokens), limit)


def of(
    shape: Shape,
    kinds: Collection[type[Operation]],
    *,
    orders: Iterable[tuple[int, ...]] = (),
    tables: Iterable[tuple[int, int]] = (),
    nightly: bool = False,
) -> Correspondence:
    """At this shape, these operations; the bursts of requests in these orders; and requests with these two tables."""
    together: tuple[Operation | Burst, ...] = (
        *(one for order in orders for one in bursts(order, shape.positions, shape.blocks)),
        *(one for first, other in tables for one in in_two_groups(first, other, shape.positions)),
    )
    chains = (tuple(range(shape.contents))[: shape.positions],) * shape.requests
    chains = ((*chains[0][:-1], shape.contents - 1), *chains[1:])
    return Correspondence(
        component="kv_blocks",
        shape=str(shape),
        config=Config(
            block_size=BLOCK_SIZE,
            blocks=shape.blocks,
            chains=chains,
            lengths=(shape.positions * BLOCK_SIZE,) * shape.requests,
            hashes=tuple(range(shape.contents)),
            limit=shape.positions * BLOCK_SIZE,
            rollbacks=1,
            disciplined=0,
        ),
        unknown=lambda: unknown(shape),
        parameters=parameters,
        decode=decode,
        invariant=invariant,
        operations=lambda: (*(one for one in operations(shape) if type(one) in kinds), *together),
        valid=valid,
        operands=lambda operation: operands(shape, operation),
        assumed=lambda pool: [cells.less(pool.clock.cells[0], LATEST)],
        modules=(transitions, rolling_back),
        nightly=nightly,
    )


SHORT = (calls.GetComputedBlocks, calls.Commit, calls.Withdraw, calls.ResetPrefixCache, calls.CommonPrefix)
LONG = (calls.AllocateSlots, calls.RollBack, calls.FreeRequest, calls.EvictBlock)
"""Calls of which the specification has many paths."""

CORRESPONDENCES = (
    of(Shape(2, 2, 2, 2), SHORT),
    of(Shape(1, 2, 2, 2), LONG),
    of(Shape(2, 2, 2, 2), LONG, nightly=True),
    of(Shape(2, 2, 3, 3), (*SHORT, calls.FreeRequest), nightly=True),
    of(Shape(2, 2, 2, 2), (), orders=((0, 1),), nightly=True),
    of(Shape(2, 2, 2, 2), (), tables=((0, 1), (0, 0))),
    of(Shape(2, 2, 3, 2), (), tables=((0, 1), (1, 0), (0, 0)), nightly=True),
)
