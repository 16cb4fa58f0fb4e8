"""The state: what P0 knows, what is in the shared memory, where every request is, and what every worker was sent."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from cachespec.kernel import Containers, IndexedBy, Map, Rank
from cachespec.object_store.configuration import NOTHING, Config, Content, Position, Request
from cachespec.ring import Ring, empty_ring
from cachespec.ring.configuration import Address, Id, Place

Epoch = Annotated[int, Rank("epoch")]
"""Counts up whenever ids begin again, so that id and epoch together are never used twice."""

Slot = tuple[Request, Position]
"""What a handle was issued for."""

ABSENT, RENDERING, WAITING, RUNNING, PREEMPTED, ENDED = range(6)
"""Where a request is: nowhere, at P0, at P1, at the workers, at P1 again, or over and P0 has not heard of it."""

READING, TOUCHING = range(2)
"""What a worker has to do with a handle that it was sent."""

IDLE, LOOKED, COPIED = range(3)
"""How far a worker is with reading."""


class Handle(NamedTuple):
    """What P0 sends in the place of an item."""

    content: Content
    address: Address
    identity: Id
    epoch: Epoch
    genuine: int = 1
    """Whether P0 issued it. In an engine this is what a signature, or P0's own list of handles, says."""
    standing: int = 1
    """Whether it is neither revoked nor forged. History for whoever reads the chunk; an acknowledgement counts only
    where it is 1, as in an engine only where the number written is still the handle's (`Worker.acknowledged`)."""


RAW = Handle(NOTHING, NOTHING, NOTHING, NOTHING, 0, 0)
"""The item is sent without the store."""


class Journey(NamedTuple):
    """One request."""

    phase: int = ABSENT
    expected: tuple[int, ...] = ()
    """For each item, whether it was in the store when P0 began."""
    touched: int = 0
    """Items that P0 has touched."""
    walked: int = 0
    """Items that P0 has walked."""
    handles: tuple[Handle, ...] = ()
    """Of each item that was walked."""


class Delivery(NamedTuple):
    """One item that a worker was sent and has to do something with."""

    request: Request
    position: Position
    handle: Handle
    task: int = READING
    again: int = 0
    """1: the request is resumed, and the worker is told that it was sent before. 2: a copy, and the worker is not."""


class Worker(NamedTuple):
    """One reader."""

    inbox: tuple[Delivery, ...]
    acknowledged: Map[Slot, int]
    """Its cell: the handles that it has acknowledged, by what they were issued for. Nobody else writes it. In an
    engine, an array of numbers: for each slot, the number of the last handle acknowledged there. For the eras, which
    count in the chunk, it is history."""
    doing: int = IDLE
    copied: Content = NOTHING
    """Whose bytes it copied; -1: of no single content."""


class Block(NamedTuple):
    """What stands at the beginning of a chunk in the shared memory, and behind it."""

    identity: Id
    epoch: Epoch
    content: Content
    """Which content the header names; the eras have no such field."""
    data: Content
    """Whose bytes are there; -1: of no single content."""
    total: int
    """Units, header included."""
    counter: int = 0
    """How often readers have acknowledged it; the normative store does not count here."""


class Writing(NamedTuple):
    """A chunk of which not every store is visible yet."""

    place: Place
    block: Block
    header: int = 0
    data: int = 0


class Store(NamedTuple):
    """Everything."""

    ring: Ring
    listed: Map[Content, Id]
    """Which contents can be handed out."""
    owners: Map[Id, Content]
    """Live chunks, and what is in each."""
    epochs: Map[Id, Epoch]
    """Live chunks, and the epoch of each."""
    issued: Map[Id, int]
    """Live chunks, and how many handles P0 counts for each: those not settled (eras: every one, for ever)."""
    tickets: Map[Slot, Id]
    """Handles that are neither acknowledged by all nor revoked, and the chunk of each; the eras keep none."""
    withdrawn: Map[Id, int]
    """Live chunks that are not handed out any more; each 1."""
    protected: Map[Id, int]
    """Live chunks that P0 has touched and not looked up yet; each 1."""
    metadata: Map[Content, int]
    """Contents whose prompt updates P0 keeps; each 1."""
    epoch: Epoch
    renders_left: int
    blocking: Id
    """History: the oldest chunk, when a content was last refused for want of room because of a handle to it."""
    writing: tuple[Writing, ...]
    """At most one."""
    memory: Map[Place, Block]
    requests: Annotated[tuple[Journey, ...], IndexedBy("request")]
    workers: Annotated[tuple[Worker, ...], IndexedBy("reader")]


def initial(config: Config, containers: Containers) -> Store:
    """Nothing is stored, and no request is there."""
    return Store(
        ring=empty_ring(containers),
        listed=containers.map(),
        owners=containers.map(),
        epochs=containers.map(),
        issued=containers.map(),
        tickets=containers.map(),
        withdrawn=containers.map(),
        protected=containers.map(),
        metadata=containers.map(),
        epoch=0,
        renders_left=config.renders,
        blocking=NOTHING,
        writing=(),
        memory=containers.map(),
        requests=tuple(Journey() for _ in config.requests),
        workers=tuple(Worker((), containers.map()) for _ in range(config.readers)),
    )


def with_request(store: Store, request: Request, journey: Journey) -> Store:
    """One request replaced."""
    return store._replace(requests=(*store.requests[:request], journey, *store.requests[request + 1 :]))


def with_worker(store: Store, reader: int, worker: Worker) -> Store:
    """One worker replaced."""
    return store._replace(workers=(*store.workers[:reader], worker, *store.workers[reader + 1 :]))
