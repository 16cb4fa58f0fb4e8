"""What each step does, normatively."""

from __future__ import annotations

from cachespec.kernel import ABSENT, DONE, HIT, REFUSED, STALE, Code, Outcome, Transitions
from cachespec.publication.configuration import FIELDS, Config, ring_config, size_of
from cachespec.publication.operations import (
    Acknowledge,
    Allocate,
    Appear,
    Clear,
    Copy,
    Free,
    Open,
    Publish,
    ReaderDies,
    Restart,
    WriteCounts,
    WriteData,
    WriteHeader,
)
from cachespec.publication.state import (
    COUNTS,
    DATA,
    HEADER,
    IDLE,
    IDLE_READER,
    NONE,
    NOT_WRITING,
    RESERVED,
    Exchange,
    Handle,
    Reading,
    Store,
    Writing,
    count_of,
    data_of,
)
from cachespec.ring import clear_chunks, free_chunks, reserve
from cachespec.ring.chunks import place
from cachespec.ring.configuration import Id, Place, Reader
from cachespec.ring.memory import mark

Result = tuple[Exchange, Outcome]


# The writer ---------------------------------------------------------------------------------------------------------


def allocate(config: Config, exchange: Exchange, op: Allocate) -> Result:
    """SHM-1, SHM-7: one chunk at a time, and room for it, or nothing happens."""
    if exchange.writing.stage != IDLE:
        return exchange, REFUSED
    ring, outcome = reserve(ring_config(config), exchange.ring, config.readers + config.sizes[op.content])
    if outcome.code is not Code.DONE:
        return exchange, outcome
    address, identity = outcome.values
    handle = (op.content, identity, place(ring_config(config), address), exchange.number)
    return exchange._replace(
        ring=ring,
        writing=Writing(RESERVED, handle),
        contents=exchange.contents.set(identity, op.content),
    ), outcome


def stored(exchange: Exchange, stage: int, stores: tuple[Store, ...]) -> Exchange:
    """The stores are made, and wait to become visible."""
    return exchange._replace(
        pending=(*exchange.pending, *stores),
        writing=exchange.writing._replace(stage=stage),
    )


def write_header(config: Config, exchange: Exchange, op: WriteHeader) -> Result:
    """The id, and the size as a whole."""
    if exchange.writing.stage != RESERVED:
        return exchange, ABSENT
    _, identity, at, _ = exchange.writing.handle
    return stored(exchange, HEADER, ((at, identity), (at + 1, exchange.ring.sizes.get(identity, 0)))), DONE


def write_counts(config: Config, exchange: Exchange, op: WriteCounts) -> Result:
    """SHM-3: no reader has answered."""
    if exchange.writing.stage != HEADER:
        return exchange, ABSENT
    at = exchange.writing.handle[2]
    return stored(exchange, COUNTS, tuple((count_of(reader, at), 0) for reader in range(config.readers))), DONE


def write_data(config: Config, exchange: Exchange, op: WriteData) -> Result:
    """Every unit."""
    if exchange.writing.stage != COUNTS:
        return exchange, ABSENT
    content, _, at, _ = exchange.writing.handle
    first = data_of(config, at)
    stores = tuple((first + unit, mark(content)) for unit in range(size_of(config, content)))
    return stored(exchange, DATA, stores), DONE


def publish(config: Config, exchange: Exchange, op: Publish) -> Result:
    """SHM-10: the publication barrier: a handle is given when all that was stored before it is visible.

    Until then it is refused. SHM-3 needs it too: a 0 that comes late would undo an answer.
    """
    if exchange.writing.stage != DATA:
        return exchange, ABSENT
    if exchange.pending:
        return exchange, REFUSED
    return handed_out(exchange), DONE


def handed_out(exchange: Exchange) -> Exchange:
    """Each reader has a handle to the chunk that was written."""
    handle = exchange.writing.handle
    readers = tuple(reading._replace(handles=(*reading.handles, handle)) for reading in exchange.readers)
    return exchange._replace(readers=readers, writing=NOT_WRITING)


def appear(config: Config, exchange: Exchange, op: Appear) -> Result:
    """The environment's choice."""
    if not may_appear(exchange, op.which):
        return exchange, ABSENT
    unit, value = exchange.pending[op.which]
    rest = (*exchange.pending[: op.which], *exchange.pending[op.which + 1 :])
    return exchange._replace(memory=exchange.memory.set(unit, value), pending=rest), DONE


def may_appear(exchange: Exchange, which: int) -> bool:
    """There is such a store, and no earlier one to its unit waits."""
    if which >= len(exchange.pending):
        return False
    return all(unit != exchange.pending[which][0] for unit, _ in exchange.pending[:which])


def as_the_writer_sees(exchange: Exchange, unit: Place) -> int:
    """Its own last store to the unit, or what is visible."""
    value = exchange.memory.get(unit, 0)
    for stored_unit, stored_value in exchange.pending:
        if stored_unit == unit:
            value = stored_value
    return value


def may_go(config: Config, exchange: Exchange, identity: Id) -> bool:
    """SHM-2, SHM-3: each reader has answered, by its own count, or has died."""
    missing = 0
    for reader in range(config.readers):
        if not has_answered(config, exchange, identity, reader):
            missing += 1
    return missing == 0


def has_answered(config: Config, exchange: Exchange, identity: Id, reader: Reader) -> bool:
    """Of one reader."""
    at = place(ring_config(config), exchange.ring.starts.get(identity, 0))
    return exchange.given_up.has((identity, reader)) or as_the_writer_sees(exchange, count_of(reader, at)) == 1


def free(config: Config, exchange: Exchange, op: Free) -> Result:
    """SHM-2: chunks that every reader has answered are freed. The writer does one thing at a time."""
    if exchange.writing.stage != IDLE:
        return exchange, REFUSED
    ring, outcome = free_chunks(
        ring_config(config), exchange.ring, lambda identity: may_go(config, exchange, identity), config.capacity
    )
    return forgotten(config, exchange._replace(ring=ring), outcome.values), outcome


def clear(config: Config, exchange: Exchange, op: Clear) -> Result:
    """SHM-2, SHM-10: whoever is reading reads on (C-SHM-12)."""
    if exchange.writing.stage != IDLE:
        return exchange, REFUSED
    ring, outcome = clear_chunks(
        ring_config(config), exchange.ring, lambda identity: may_go(config, exchange, identity)
    )
    return forgotten(config, exchange._replace(ring=ring), outcome.values), DONE


def forgotten(config: Config, exchange: Exchange, gone: tuple[Id, ...]) -> Exchange:
    """Nothing is known any more of the chunks that are gone."""
    contents, given_up = exchange.contents, exchange.given_up
    for identity in gone:
        contents = contents.remove(identity)
        for reader in range(config.readers):
            given_up = given_up.remove((identity, reader))
    return exchange._replace(contents=contents, given_up=given_up)


# The readers --------------------------------------------------------------------------------------------------------


def with_reader(exchange: Exchange, reader: Reader, reading: Reading) -> Exchange:
    """One reader is another step further."""
    return exchange._replace(readers=(*exchange.readers[:reader], reading, *exchange.readers[reader + 1 :]))


def open_chunk(config: Config, exchange: Exchange, op: Open) -> Result:
    """SHM-5, SHM-10: a handle of another segment, or of another id, is refused before any data is read."""
    reading = exchange.readers[op.reader]
    if reading.opened != NONE or not reading.handles:
        return exchange, ABSENT
    handle, rest = reading.handles[0], reading.handles[1:]
    _, identity, at, number = handle
    if number != exchange.number or exchange.memory.get(at, 0) != identity:
        return with_reader(exchange, op.reader, reading._replace(handles=rest)), STALE
    size = max(0, min(exchange.memory.get(at + 1, 0), config.capacity - at) - FIELDS - config.readers)
    opened = Reading(handles=rest, opened=handle, size=size, units=())
    return with_reader(exchange, op.reader, opened), HIT


def copy(config: Config, exchange: Exchange, op: Copy) -> Result:
    """SHM-9: it only looks."""
    reading = exchange.readers[op.reader]
    if reading.opened == NONE or len(reading.units) >= reading.size:
        return exchange, ABSENT
    unit = data_of(config, reading.opened[2]) + len(reading.units)
    further = reading._replace(units=(*reading.units, exchange.memory.get(unit, 0)))
    return with_reader(exchange, op.reader, further), DONE


def acknowledge(config: Config, exchange: Exchange, op: Acknowledge) -> Result:
    """SHM-9: it stores in its own count and nowhere else, so no answer of another reader is lost."""
    reading = exchange.readers[op.reader]
    if reading.opened == NONE or len(reading.units) < reading.size:
        return exchange, ABSENT
    _, _, at, number = reading.opened
    done = IDLE_READER._replace(handles=reading.handles)
    answered = with_reader(exchange, op.reader, done)
    if number == exchange.number:
        answered = answered._replace(memory=answered.memory.set(count_of(op.reader, at), 1))
    return answered, Outcome(Code.HIT, reading.units)


# Death --------------------------------------------------------------------------------------------------------------


def reader_dies(config: Config, exchange: Exchange, op: ReaderDies) -> Result:
    """SHM-8: what it had handles to is given up for it (C-SHM-4: nothing told the writer)."""
    reading = exchange.readers[op.reader]
    given_up = exchange.given_up
    for content, identity, _, number in (*reading.handles, reading.opened):
        if content >= 0 and number == exchange.number:
            given_up = given_up.set((identity, op.reader), 1)
    return with_reader(exchange._replace(given_up=given_up), op.reader, IDLE_READER), DONE


def restart(config: Config, exchange: Exchange, op: Restart) -> Result:
    """SHM-5, SHM-10: nobody writes to the old segment any more, so whoever is reading there reads what was in it.

    Stores that were not visible may never be: `Appear` has shown those that are.
    """
    ring, outcome = free_chunks(ring_config(config), exchange.ring, lambda identity: True, config.capacity)
    memory = exchange.memory
    for unit in range(config.capacity):
        memory = memory.remove(unit)
    begun = exchange._replace(
        ring=ring._replace(id_start=0, id_end=0),
        memory=memory,
        pending=(),
        writing=NOT_WRITING,
        readers=tuple(read_to_the_end(config, exchange, reading) for reading in exchange.readers),
        number=exchange.number + 1,
    )
    return forgotten(config, begun, outcome.values), DONE


def read_to_the_end(config: Config, exchange: Exchange, reading: Reading) -> Reading:
    """What the reader will have copied from memory that does not change any more."""
    if reading.opened[3] != exchange.number:
        return reading
    first = data_of(config, reading.opened[2])
    rest = range(first + len(reading.units), first + reading.size)
    return reading._replace(units=(*reading.units, *(exchange.memory.get(unit, 0) for unit in rest)))


TRANSITIONS: Transitions[Config, Exchange] = {
    Allocate: allocate,
    WriteHeader: write_header,
    WriteCounts: write_counts,
    WriteData: write_data,
    Publish: publish,
    Appear: appear,
    Open: open_chunk,
    Copy: copy,
    Acknowledge: acknowledge,
    Free: free,
    Clear: clear,
    ReaderDies: reader_dies,
    Restart: restart,
}


def unanswered(exchange: Exchange) -> tuple[Handle, ...]:
    """Handles that readers have, opened or not."""
    given = tuple(handle for reading in exchange.readers for handle in (*reading.handles, reading.opened))
    return tuple(handle for handle in given if handle != NONE)
