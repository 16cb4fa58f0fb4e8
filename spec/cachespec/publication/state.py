"""What the writer knows and has stored, what is visible, and how far each reader is."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, NamedTuple

from cachespec.kernel import Containers, Grouping, IndexedBy, Map, Observation
from cachespec.publication.configuration import FIELDS, Config
from cachespec.ring import Ring, empty_ring
from cachespec.ring.configuration import Address, Content, Id, Place, Reader

Handle = tuple[Content, Id, Place, int]
"""What a chunk is wanted for, its id and place, and the segment in which it is."""

NONE: Handle = (-1, -1, -1, -1)
IDLE, RESERVED, HEADER, COUNTS, DATA = range(5)
"""How far the writer is with a chunk."""

Store = tuple[Place, int]
"""A unit and the number that it gets."""


class Writing(NamedTuple):
    """The chunk that the writer is busy with."""

    stage: int
    handle: Handle


class Reading(NamedTuple):
    """One reader."""

    handles: tuple[Handle, ...]
    """Given to it and not opened, in the order in which they came."""
    opened: Handle
    size: int
    """Units of data of the opened chunk, by its header."""
    units: tuple[int, ...]
    """What it has copied."""


class Exchange(NamedTuple):
    """The whole."""

    ring: Ring
    memory: Map[Place, int]
    """What readers see."""
    pending: tuple[Store, ...]
    """The writer's stores that are not visible yet, in the order in which it made them."""
    writing: Writing
    readers: Annotated[tuple[Reading, ...], IndexedBy("reader")]
    given_up: Map[tuple[Id, Reader], int]
    """Chunks and readers that died with handles to them: known to the writer alone."""
    number: int
    """Which segment this is."""
    contents: Map[Id, Content]
    """History: what each live chunk is for."""


class View(NamedTuple):
    """The same, with maps listed."""

    chunks: tuple[tuple[Id, Address, int], ...]
    memory: tuple[int, ...]
    pending: tuple[Store, ...]
    writing: Writing
    readers: tuple[Reading, ...]
    given_up: tuple[tuple[Id, Reader], ...]
    number: int
    contents: tuple[tuple[Id, Content], ...]
    oldest: Id
    """The oldest live chunk, or the next one where there is none."""


IDLE_READER = Reading(handles=(), opened=NONE, size=0, units=())
NOT_WRITING = Writing(stage=IDLE, handle=NONE)


def initial(config: Config, containers: Containers) -> Exchange:
    """The ring is empty, and no process is in the middle of an action."""
    return Exchange(
        ring=empty_ring(containers),
        memory=containers.map(),
        pending=(),
        writing=NOT_WRITING,
        readers=(IDLE_READER,) * config.readers,
        given_up=containers.map(),
        number=0,
        contents=containers.map(),
    )


def view(config: Config, exchange: Exchange) -> View:
    """The state as properties see it."""
    ring = exchange.ring
    return View(
        chunks=tuple((identity, start, ring.sizes.get(identity, 0)) for identity, start in ring.starts.items()),
        memory=tuple(exchange.memory.get(unit, 0) for unit in range(config.capacity)),
        pending=exchange.pending,
        writing=exchange.writing,
        readers=exchange.readers,
        given_up=tuple(pair for pair, _ in exchange.given_up.items()),
        number=exchange.number,
        contents=tuple(exchange.contents.items()),
        oldest=ring.id_start,
    )


def count_of(reader: Reader, at: Place) -> Place:
    """Where the reader's count is in the chunk at this place."""
    return at + FIELDS + reader


def data_of(config: Config, at: Place) -> Place:
    """Where the data begins in the chunk at this place."""
    return at + FIELDS + config.readers


OBSERVABLES: Mapping[str, str] = MappingProxyType(
    {
        "ids": "ids of the live chunks, ascending",
        "memory": "what readers see, a number for each unit",
        "pending": "pairs of unit and number, stores that are not visible yet, the oldest first",
        "stage": "how far the writer is with a chunk: 0 idle, 1 reserved, 2 header, 3 counts, 4 data",
        "waiting": "for each reader, handles that it has not opened",
        "copied": "for each reader, units that it has copied",
    }
)
"""What each observable holds."""


GROUPING: Mapping[str, Grouping] = MappingProxyType(
    {
        "ids": Grouping(row=("chunk",), lane="writer"),
        "memory": Grouping(row=("",), each="unit", lane="memory"),
        "pending": Grouping(row=("unit", ""), lane="memory"),
        "stage": Grouping(lane="writer"),
        "waiting": Grouping(row=("",), each="reader", lane="reader"),
        "copied": Grouping(row=("",), each="reader", lane="reader"),
    }
)
"""Which integers of an observable belong together."""


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """What an implementation shows: see `OBSERVABLES`."""
    return {
        "ids": tuple(identity for identity, _, _ in view.chunks),
        "memory": view.memory,
        "pending": tuple(part for store in view.pending for part in store),
        "stage": view.writing.stage,
        "waiting": tuple(len(reading.handles) for reading in view.readers),
        "copied": tuple(len(reading.units) for reading in view.readers),
    }
