"""`ring`: any payloads up to a size, any addresses, any bytes between the chunks, and handles of any form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch

from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.cells import Cell
from cacheproof.prove.implementation.correspondence import Correspondence, number, scalar
from cacheproof.prove.implementation.encodings import within
from cacheproof.prove.implementation.finite import FiniteMap, FiniteUnits, cell_of, value_of
from cacheproof.prove.implementation.tensors import CellTensor
from cachespec.kernel import Operation
from cachespec.ring import memory
from cachespec.ring import operations as calls
from cachespec.ring.chunks import Ring
from cachespec.ring.configuration import BASE, Config
from cachespec.ring.state import Segment

HEADER = 2


class Shape(NamedTuple):
    """How many there are of everything that has a row."""

    capacity: int
    ids: int
    payload: int
    """Units of the largest payload."""
    contents: int = 2
    readers: int = 1
    segments: int = 2

    def __str__(self) -> str:
        return (
            f"{self.capacity} units of data, headers of {HEADER}, payloads up to {self.payload}, {self.ids} ids, "
            f"{self.contents} contents, {self.readers} readers, {self.segments} segments"
        )


def parameters(config: Any) -> Iterator[CellTensor]:
    """Capacity, header, number of ids, and the payload of each content."""
    yield from map(scalar, (config.capacity, config.header, config.modulus))
    yield CellTensor((len(config.sizes),), torch.int64, tuple(map(cell_of, config.sizes)))


class Read:
    """The cells of a segment by field."""

    def __init__(self, config: Any, segment: Any) -> None:
        self.segment = segment
        self.capacity, self.header = config.capacity, config.header
        self.sizes = list(map(cell_of, config.sizes))
        self.segments, self.ids, self.readers = segment.out.shape
        self.number = segment.number.cells[0]
        self.addresses, self.totals = segment.addresses.cells, segment.totals.cells
        self.live = [cells.at_most(0, address) for address in self.addresses]

    def of_chunk(self, table: CellTensor, number: int, identity: int) -> Cell:
        """The table's value for this id in this segment."""
        return table.cells[number * self.ids + identity]

    def now(self, table: CellTensor, identity: int) -> Cell:
        """The table's value for this id in the segment that is written to."""
        return cells.select([self.of_chunk(table, number, identity) for number in range(self.segments)], self.number)

    def out(self, number: int, identity: int) -> list[Cell]:
        """For each reader, whether it has a handle to this chunk."""
        first = (number * self.ids + identity) * self.readers
        return list(self.segment.out.cells[first : first + self.readers])

    def unanswered(self, identity: int) -> Cell:
        """How many handles there are to the chunk of this id in the segment that is written to."""
        counts = [cells.count(self.out(number, identity)) for number in range(self.segments)]
        return cells.select(counts, self.number)

    def place(self, address: Cell) -> Cell:
        """An address of the first or of the second lap, less the laps."""
        return cells.choose(cells.less(address, self.capacity), address, cells.subtract(address, self.capacity))

    def by_age(self, column: Any) -> list[Cell]:
        """The column's values from the oldest chunk to the newest."""
        (first,) = self.segment.id_start.cells
        return [
            cells.select([column[(start + age) % self.ids] for start in range(self.ids)], first)
            for age in range(self.ids)
        ]

    def covered(self, unit: int) -> Cell:
        """Whether a live chunk has this unit."""
        return cells.some(
            cells.every((live, cells.at_most(self.place(address), unit), self.ends_behind(address, total, unit)))
            for live, address, total in zip(self.live, self.addresses, self.totals, strict=True)
        )

    def ends_behind(self, address: Cell, total: Cell, unit: int) -> Cell:
        """Whether a chunk ends behind this unit."""
        return cells.less(unit, cells.add(self.place(address), total))


def decode(config: Any, segment: Any) -> Segment:
    """Rows with an address are live chunks; there is a handle for each reader that has one."""
    read = Read(config, segment)
    live = dict(enumerate(read.live))
    counts = {identity: read.unanswered(identity) for identity in live}
    return Segment(
        ring=Ring(
            FiniteMap(live, values(read.addresses)),
            FiniteMap(live, values(read.totals)),
            *(value_of(getattr(segment, name).cells[0]) for name in ("id_start", "id_end", "start", "end")),
        ),
        memory=FiniteUnits(
            {
                unit: cells.some((read.covered(unit), cells.inverse(cells.equal(value, 0))))
                for unit, value in enumerate(segment.memory.cells)
            },
            values(segment.memory.cells),
        ),
        unanswered=FiniteMap(
            {identity: cells.every((live[identity], cells.less(0, count))) for identity, count in counts.items()},
            {identity: value_of(count) for identity, count in counts.items()},
        ),
        number=value_of(read.number),
        contents=FiniteMap(live, {identity: value_of(read.now(segment.contents, identity)) for identity in live}),
        handles=handles(read),
    )


def values(column: Iterable[Cell]) -> dict[int, Any]:
    """Cells as the specification sees them."""
    return {row: value_of(cell) for row, cell in enumerate(column)}


def handles(read: Read) -> Any:
    """For every handle that there can be, whether it is out."""
    members = {}
    for segment, identity in product(range(read.segments), range(read.ids)):
        content, place = (
            read.of_chunk(table, segment, identity) for table in (read.segment.contents, read.segment.places)
        )
        for reader, out in enumerate(read.out(segment, identity)):
            for its, at in product(range(len(read.sizes)), range(read.capacity - read.header)):
                same = cells.every((cells.equal(content, its), cells.equal(place, at)))
                members[reader, its, identity, at, segment] = cells.every((out, same))
    return FiniteMap(members, dict.fromkeys(members, 1))


def invariant(config: Any, segment: Any) -> Iterator[Cell]:
    """SHM-1 to SHM-5, and how the tensors say it."""
    read = Read(config, segment)
    yield from within([read.number], 0, read.segments - 1)
    yield from within(segment.memory.cells, 0, BASE - 1)
    yield from of_the_window(read)
    for identity in range(read.ids):
        yield from of_a_row(read, identity)
        yield from of_its_memory(read, identity)
        for which in range(read.segments):
            yield from of_its_handles(read, which, identity)


def of_the_window(read: Read) -> Iterator[Cell]:
    """Live ids follow one another, and so do their chunks, from the start to the end: one lap at most."""
    segment = read.segment
    (first,), (following,) = segment.id_start.cells, segment.id_end.cells
    (start,), (end,) = segment.start.cells, segment.end.cells
    yield from within((first, following), 0, read.ids - 1)
    live, addresses, totals = (read.by_age(column) for column in (read.live, read.addresses, read.totals))
    count = cells.count(live)
    yield cells.equal(following, cells.remainder(cells.add(first, count), read.ids))
    for younger, older in zip(live[1:], live, strict=False):
        yield cells.some((cells.inverse(younger), older))
    yield from within([start], 0, read.capacity - 1)
    behind = start
    for age, (its, address, total) in enumerate(zip(live, addresses, totals, strict=True)):
        place = read.place(address)
        reached = (
            place if age == 0 else cells.choose(cells.at_most(behind, place), place, cells.add(place, read.capacity))
        )
        here = cells.equal(reached, start) if age == 0 else cells.at_most(behind, reached)
        yield cells.some((cells.inverse(its), here))
        behind = cells.choose(its, cells.add(reached, total), behind)
    yield cells.equal(end, behind)
    yield cells.at_most(cells.subtract(end, start), read.capacity)
    yield cells.some((live[0], cells.equal(start, 0)))


def of_a_row(read: Read, identity: int) -> Iterator[Cell]:
    """A chunk has the size of its content, and does not reach across the end; other rows are empty."""
    live, address, total = read.live[identity], read.addresses[identity], read.totals[identity]
    content = read.now(read.segment.contents, identity)
    yield from within([address], -1, 2 * read.capacity - 1)
    size = cells.select(read.sizes, content)
    yield cells.equal(total, cells.choose(live, cells.add(size, read.header), 0))
    yield cells.some((cells.inverse(live), cells.at_most(cells.add(read.place(address), total), read.capacity)))
    yield cells.equal(read.now(read.segment.places, identity), cells.choose(live, read.place(address), -1))
    yield cells.equal(live, cells.at_most(0, content))


def of_its_memory(read: Read, identity: int) -> Iterator[Cell]:
    """SHM-2: a live chunk has its id, its size and its payload in memory."""
    units, live = read.segment.memory.cells, read.live[identity]
    mark = cells.add(read.now(read.segment.contents, identity), 1)
    place, total = read.place(read.addresses[identity]), read.totals[identity]
    for at in range(read.capacity - read.header):
        here = cells.every((live, cells.equal(place, at)))
        same = [cells.equal(units[at], identity), cells.equal(units[at + 1], total)]
        for offset, unit in enumerate(units[at + read.header :], read.header):
            same.append(cells.some((cells.at_most(total, offset), cells.equal(unit, mark))))
        yield cells.some((cells.inverse(here), cells.every(same)))


def of_its_handles(read: Read, number: int, identity: int) -> Iterator[Cell]:
    """Known facts concern live chunks, and chunks of former segments with a handle."""
    content, place = (read.of_chunk(table, number, identity) for table in (read.segment.contents, read.segment.places))
    yield from within([content], -1, len(read.sizes) - 1)
    yield from within([place], -1, read.capacity - read.header - 1)
    out, known = cells.some(read.out(number, identity)), cells.at_most(0, content)
    yield cells.equal(known, cells.at_most(0, place))
    yield cells.some((cells.inverse(out), known))
    yield cells.some((cells.inverse(known), cells.at_most(number, read.number)))
    yield cells.some((cells.inverse(known), out, cells.at_most(read.number, number)))


def operations(shape: Shape) -> Iterator[Operation]:
    """Each with every content and handle; places, and how much is wanted, are any integers."""
    yield from (calls.Allocate(content) for content in range(shape.contents))
    place: Any = number("place")
    rows = shape.readers, shape.contents, shape.ids, shape.segments
    for reader, content, identity, segment in product(*map(range, rows)):
        yield calls.Read(reader, content, identity, place, segment)
        yield calls.Revoke(reader, content, identity, place, segment)
    yield calls.Free(number("want"))  # type: ignore[arg-type]  # an unknown integer
    yield calls.Clear()
    yield calls.Restart()


def valid(payload: int, config: Any, segment: Any, operation: Any) -> Iterator[Cell]:
    """Payloads that the shape has room for; a place in the data; a segment more, if the writer dies."""
    yield from within(map(cell_of, config.sizes), 1, payload)
    if type(operation) in (calls.Read, calls.Revoke):
        yield from within([cell_of(operation.place)], 0, config.capacity - 1)
    if type(operation) is calls.Restart:
        yield cells.less(cell_of(segment.number), config.restarts)


def of(shape: Shape, kinds: Collection[type[Operation]], *, nightly: bool = False) -> Correspondence:
    """The correspondence at this shape, for these operations."""
    config = Config(
        capacity=shape.capacity,
        modulus=shape.ids,
        header=HEADER,
        sizes=(shape.payload,) * shape.contents,
        readers=shape.readers,
        clears=1,
        revocations=1,
        restarts=shape.segments - 1,
    )
    sizes: Any = tuple(number(f"size[{content}]") for content in range(shape.contents))
    return Correspondence(
        component="ring",
        shape=str(shape),
        config=config,
        unknown=lambda: config._replace(sizes=sizes),
        parameters=parameters,
        decode=decode,
        invariant=invariant,
        operations=lambda: (one for one in operations(shape) if type(one) in kinds),
        valid=partial(valid, shape.payload),
        operands=lambda operation: [getattr(operation, field.name) for field in fields(operation)],
        modules=(memory,),
        nightly=nightly,
    )


WRITER = (calls.Allocate, calls.Free, calls.Clear)
READERS = (calls.Read, calls.Revoke, calls.Restart)

CORRESPONDENCES = (
    of(Shape(9, 2, 2, segments=1), WRITER),
    of(Shape(6, 2, 2), READERS),
    of(Shape(9, 2, 2), (*WRITER, *READERS), nightly=True),
)
