"""The ring in its environment, on tensors: the memory, and the handles that are out, with the segments they lead to.

Where chunks are is said by `cacheimpl.ring`; what is around it belongs to the checkers, as in the specification. A
handle is known by its segment, its id and its reader, as no id is given twice while anybody has a handle to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cacheimpl.answer import Answer, Code, answer, either
from cacheimpl.layout import Field, Layout
from cacheimpl.ring import operations as tensors
from cacheimpl.ring import state as of_the_ring
from cacheimpl.table import choose, is_row, row
from cachespec.ring.configuration import BASE, Config

NOTHING = -1


class Tables(NamedTuple):
    """The configuration."""

    ring: of_the_ring.Config
    sizes: Tensor
    """[contents] int64: units of payload"""


class Segment(NamedTuple):
    """The ring, flat; the memory; and for each segment that there was, what the handles are for that are out."""

    addresses: Tensor
    totals: Tensor
    id_start: Tensor
    id_end: Tensor
    start: Tensor
    end: Tensor
    memory: Tensor
    """[units] int64 (derived, except in units that no reader reads)"""
    number: Tensor
    """[] int64: which segment this is"""
    contents: Tensor
    """[segments, ids] int64: of live chunks, and of chunks of former segments to which a handle is out; else -1"""
    places: Tensor
    """[segments, ids] int64: in the same way, where each was"""
    out: Tensor
    """[segments, ids, readers] bool: the handles that may be presented"""


Result = tuple[Segment, Answer]
RING = len(of_the_ring.Ring._fields)


def ring_of(segment: Segment) -> of_the_ring.Ring:
    """The writer's private side."""
    return of_the_ring.Ring(*segment[:RING])


def with_ring(segment: Segment, ring: of_the_ring.Ring) -> Segment:
    """The segment with another."""
    return Segment(*ring, *segment[RING:])


def initial(config: Config, device: str) -> Segment:
    """Nothing is in the ring."""
    segments, ids = config.restarts + 1, config.modulus
    nothing = torch.full((segments, ids), NOTHING, dtype=torch.int64, device=device)
    return Segment(
        *of_the_ring.empty(ids, device),
        memory=torch.zeros(config.capacity, dtype=torch.int64, device=device),
        number=torch.zeros((), dtype=torch.int64, device=device),
        contents=nothing,
        places=nothing,
        out=torch.zeros(segments, ids, config.readers, dtype=torch.bool, device=device),
    )


def tables_of(config: Config, device: str) -> Tables:
    """The configuration as tensors."""
    numbers = (torch.tensor(value, device=device) for value in (config.capacity, config.header, config.modulus))
    return Tables(of_the_ring.Config(*numbers), torch.tensor(config.sizes, device=device))


def layout(config: Config, tables: Tables) -> Layout[Segment]:
    """What is in the memory follows from which chunks are live, and so does how large they are."""
    segments, ids, contents = config.restarts + 1, config.modulus, len(config.sizes)

    def derive(segment: Segment) -> Segment:
        live, content = segment.addresses >= 0, row(segment.contents, segment.number)
        totals = torch.where(live, tables.ring.header + of(tables.sizes, content), 0)
        known = segment._replace(totals=totals)
        return known._replace(memory=written(config, known, content, live))

    def readable(segment: Segment) -> Segment:
        inside = covers(segment, segment.addresses >= 0, config.capacity).any(0)
        return segment._replace(memory=torch.where(inside, segment.memory, 0))

    return Layout(
        Segment,
        (
            *of_the_ring.fields(ids, config.capacity, ids),
            Field("memory", (config.capacity,), torch.int64, 0, BASE - 1, derived=True),
            Field("number", (), torch.int64, 0, config.restarts),
            Field("contents", (segments, ids), torch.int64, NOTHING, contents - 1),
            Field("places", (segments, ids), torch.int64, NOTHING, config.capacity - 1),
            Field("out", (segments, ids, config.readers), torch.bool, 0, 1, axes=("", "", "reader")),
        ),
        derive,
        readable,
    )


def of(table: Tensor, index: Tensor) -> Tensor:
    """The elements of these indices; those of a negative one are arbitrary."""
    return table.gather(0, index.clamp(min=0))


# Memory -------------------------------------------------------------------------------------------------------------


def covers(segment: Segment, chunks: Tensor, capacity: int) -> Tensor:
    """[ids, units] bool: which units each of these chunks ([ids] bool) has."""
    units = torch.arange(capacity, device=chunks.device)
    at = (segment.addresses % capacity)[:, None]
    return (units >= at) & (units < at + segment.totals[:, None]) & chunks[:, None]


def written(config: Config, segment: Segment, content: Tensor, chunks: Tensor) -> Tensor:
    """[units] int64: what these chunks ([ids] bool), of these contents ([ids]), hold; 0 elsewhere."""
    half, device = config.header // 2, chunks.device
    offset = torch.arange(config.capacity, device=device) - (segment.addresses % config.capacity)[:, None]
    power = BASE ** (offset % half).clamp(min=0)
    ids = torch.arange(config.modulus, device=device)[:, None]
    field = torch.where(offset < half, ids, segment.totals[:, None]) // power % BASE
    values = torch.where(offset < config.header, field, content[:, None] + 1)
    return torch.where(covers(segment, chunks, config.capacity), values, 0).sum(0)


def found(config: Config, segment: Segment, at: Tensor, field: int) -> Tensor:
    """[] int64: the number that is there: an id (field 0) or a size (field 1), whoever wrote it."""
    half = config.header // 2
    offset = torch.arange(config.capacity, device=at.device) - at - field * half
    inside = (offset >= 0) & (offset < half)
    return torch.where(inside, segment.memory * BASE ** offset.clamp(min=0, max=half), 0).sum()


# Calls --------------------------------------------------------------------------------------------------------------


def allocating(config: Config) -> Callable[..., Result]:
    """SHM-1, SHM-7: the chunk is reserved and written, and each reader has a handle; or nothing happens."""

    def allocate(tables: Tables, segment: Segment, content: Tensor) -> Result:
        ring, answered = tensors.allocate(tables.ring, ring_of(segment), row(tables.sizes, content))
        address, identity = answered.values.unbind(0)
        chunk = is_row(segment.addresses, identity) & (answered.code == int(Code.DONE))
        here = is_row(segment.contents, segment.number)[:, None] & chunk
        after = with_ring(segment, ring)._replace(
            contents=torch.where(here, content, segment.contents),
            places=torch.where(here, address % tables.ring.capacity, segment.places),
            out=segment.out | here[:, :, None],
        )
        own = covers(after, chunk, config.capacity).any(0)
        content_of_each = content.expand(segment.addresses.shape[0])
        memory = torch.where(own, written(config, after, content_of_each, chunk), segment.memory)
        return after._replace(memory=memory), answered

    return allocate


def without_handle(segment: Segment, identity: Tensor, reader: Tensor, number: Tensor) -> Segment:
    """It will not be presented again; of a chunk in a former segment nothing is known without one."""
    one = is_row(segment.contents, number)[:, None] & is_row(segment.addresses, identity)
    out = segment.out & ~(one[:, :, None] & is_row(segment.out[0, 0], reader))
    former = torch.arange(segment.contents.shape[0], device=out.device) < segment.number
    forgotten = former[:, None] & ~out.any(2)
    return segment._replace(
        out=out,
        contents=torch.where(forgotten, NOTHING, segment.contents),
        places=torch.where(forgotten, NOTHING, segment.places),
    )


def holds(
    tables: Tables, segment: Segment, reader: Tensor, content: Tensor, identity: Tensor, place: Tensor, number: Tensor
) -> Tensor:
    """[] bool: whether this handle may be presented."""
    given = row(row(row(segment.out, number), identity), reader)
    same = row(row(segment.contents, number), identity) == content
    return given & same & (row(row(segment.places, number), identity) == place)


def reading(config: Config) -> Callable[..., Result]:
    """SHM-9, SHM-10: what is found is believed only with the id and the segment of the handle; memory stays."""
    largest = max(config.sizes)

    def read(tables: Tables, segment: Segment, *handle: Tensor) -> Result:
        reader, _, identity, place, number = handle
        there = holds(tables, segment, *handle)
        good = (number == segment.number) & (found(config, segment, place, 0) == identity)
        size = found(config, segment, place, 1) - config.header
        units = (place + config.header + torch.arange(largest, device=place.device)).clamp(max=config.capacity - 1)
        after = choose(there, without_handle(segment, identity, reader, number), segment)
        code = torch.where(there, either(good, Code.HIT, Code.STALE), int(Code.ABSENT))
        values = segment.memory.gather(0, units)
        return after, Answer(code, values, torch.where(there & good, size.clamp(min=0, max=largest), 0))

    return read


def revoke(tables: Tables, segment: Segment, *handle: Tensor) -> Result:
    """SHM-8: a handle that will never be presented keeps no chunk."""
    reader, _, identity, _, number = handle
    there = holds(tables, segment, *handle)
    after = choose(there, without_handle(segment, identity, reader, number), segment)
    return after, answer(either(there, Code.DONE, Code.ABSENT))


def may_go(segment: Segment) -> Tensor:
    """[ids] bool: SHM-2: every handle to the chunk is answered, or revoked."""
    return ~row(segment.out, segment.number).any(1)


def forgotten(segment: Segment) -> Segment:
    """Forget the facts about removed chunks."""
    gone = is_row(segment.contents, segment.number)[:, None] & (segment.addresses < 0)
    return segment._replace(
        contents=torch.where(gone, NOTHING, segment.contents), places=torch.where(gone, NOTHING, segment.places)
    )


def free(tables: Tables, segment: Segment, want: Tensor) -> Result:
    """SHM-2, SHM-6: remove the chunks that no reader needs, from the oldest on."""
    ring, answered = tensors.free(tables.ring, ring_of(segment), may_go(segment), want)
    return forgotten(with_ring(segment, ring)), answered


def clear(tables: Tables, segment: Segment) -> Result:
    """SHM-2, SHM-5: as freeing everything."""
    ring, answered = tensors.clear(tables.ring, ring_of(segment), may_go(segment))
    return forgotten(with_ring(segment, ring)), answered


def restart(tables: Tables, segment: Segment) -> Result:
    """SHM-5: a segment with a number of its own, and empty memory; handles to the old one stay with who has them."""
    ring, answered = tensors.begin_again(tables.ring, ring_of(segment))
    unheld = ~segment.out.any(2)
    begun = with_ring(segment, ring)._replace(
        memory=torch.zeros_like(segment.memory),
        number=segment.number + 1,
        contents=torch.where(unheld, NOTHING, segment.contents),
        places=torch.where(unheld, NOTHING, segment.places),
    )
    return begun, answered


def bounded(config: Config) -> Callable[..., Tensor]:
    """Whether the scope's bound leaves room for the handles of one chunk more."""
    if config.outstanding == 0:
        return lambda tables, segment, *operands: segment.number >= 0
    return lambda tables, segment, *operands: segment.out.sum() + config.readers <= config.outstanding


def restartable(config: Config) -> Callable[..., Any]:
    """Whether the writer may still die."""
    return lambda tables, segment, *operands: segment.number < config.restarts
