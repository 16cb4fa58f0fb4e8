"""The ring with its memory and the handles that are out, and the view that properties and observations read."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from cachespec.kernel import Containers, Grouping, Map, Observation
from cachespec.ring.chunks import Ring, empty_ring
from cachespec.ring.configuration import Address, Config, Content, Id, Place, Reader
from cachespec.ring.memory import Memory

Handle = tuple[Reader, Content, Id, Place, int]
"""Who holds it, and what for; the chunk's id and place, and the segment in which it is."""


class Segment(NamedTuple):
    """What the writer knows, what is in memory, and what readers hold."""

    ring: Ring
    memory: Memory
    unanswered: Map[Id, int]
    """Live chunks that have handles which are not answered, and how many: what the writer goes by."""
    number: int
    """Which segment this is: 0, and one more for each writer that was started after the first."""
    contents: Map[Id, Content]
    """History: what is in each live chunk."""
    handles: Map[Handle, int]
    """History: handles that readers may still present, and how many there are alike."""


class View(NamedTuple):
    """One shape for every variant, everything ascending by id or handle."""

    chunks: tuple[tuple[Id, Address, int], ...]
    """Live chunks: id, address as it was given out, and units, header included."""
    contents: tuple[tuple[Id, Content], ...]
    unanswered: tuple[tuple[Id, int], ...]
    id_start: Id
    id_end: Id
    start: Address
    end: Address
    number: int
    handles: tuple[tuple[Handle, int], ...]
    memory: tuple[int, ...]


def initial(config: Config, containers: Containers) -> Segment:
    """Nothing is in the ring."""
    return Segment(
        ring=empty_ring(containers),
        memory=containers.map(),
        unanswered=containers.map(),
        number=0,
        contents=containers.map(),
        handles=containers.map(),
    )


def view(config: Config, segment: Segment) -> View:
    """The state as properties see it."""
    ring = segment.ring
    return View(
        chunks=tuple((identity, start, ring.sizes.get(identity, 0)) for identity, start in ring.starts.items()),
        contents=tuple(segment.contents.items()),
        unanswered=tuple(segment.unanswered.items()),
        id_start=ring.id_start,
        id_end=ring.id_end,
        start=ring.start,
        end=ring.end,
        number=segment.number,
        handles=tuple(segment.handles.items()),
        memory=tuple(segment.memory.get(unit, 0) for unit in range(config.capacity)),
    )


OBSERVABLES: Mapping[str, str] = MappingProxyType(
    {
        "ids": "ids of the live chunks, ascending",
        "addresses": "address of each live chunk in units, laps included, in the order of `ids`",
        "id_start": "id of the oldest live chunk",
        "id_end": "id of the next chunk",
        "start": "address of the oldest live chunk, in units",
        "end": "address of the next chunk, in units",
        "memory": "the data, a number for each unit",
    }
)
"""What each observable holds."""


GROUPING: Mapping[str, Grouping] = MappingProxyType(
    {
        "ids": Grouping(row=("chunk",)),
        "addresses": Grouping(beside="ids"),
        "memory": Grouping(row=("",), each="unit"),
    }
)
"""Which integers of an observable belong together."""


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """What an implementation shows: see `OBSERVABLES`."""
    return {
        "ids": tuple(identity for identity, _, _ in view.chunks),
        "addresses": tuple(address for _, address, _ in view.chunks),
        "id_start": view.id_start,
        "id_end": view.id_end,
        "start": view.start,
        "end": view.end,
        "memory": view.memory,
    }
