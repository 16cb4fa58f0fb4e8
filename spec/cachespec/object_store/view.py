"""What properties and observations read: one shape for every variant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from cachespec.kernel import Grouping, Observation
from cachespec.object_store.configuration import Config, Content, Position, Reader, Request
from cachespec.object_store.memory import NOBODY, place_of
from cachespec.object_store.state import ABSENT, RENDERING, Delivery, Handle, Store
from cachespec.ring.configuration import Id, Place

Name = tuple[Place, Id, int]
"""By what a reader knows a chunk: where it is, its id and its epoch."""


class Chunk(NamedTuple):
    """One live chunk."""

    identity: Id
    place: Place
    total: int
    content: Content
    epoch: int
    issued: int
    """Handles that P0 counts."""
    acknowledged: int
    """Acknowledgements of those handles that P0 finds; -1 where it finds no count."""
    outstanding: int
    """Pairs of a handle and a reader: issued, not acknowledged, not revoked. Read from the state, not from counts."""
    quiet: bool
    """Nobody has anything to do with it: no handle is out, P0 walks no request, no worker was sent a handle to it."""
    protected: bool
    listed: bool
    """Whether it is handed out."""
    withdrawn: bool
    intact: bool
    """Whether the memory shows it: its header, and its content's bytes. Not asked while P0 writes it."""


class Out(NamedTuple):
    """A handle that one reader has still to acknowledge."""

    request: Request
    position: Position
    reader: Reader
    name: Name


class View(NamedTuple):
    """Everything, sorted where the order means nothing."""

    chunks: tuple[Chunk, ...]
    """Oldest first."""
    listed: tuple[tuple[Content, Id], ...]
    owners: tuple[tuple[Id, Content], ...]
    counted: tuple[Id, ...]
    """The chunks for which P0 counts handles."""
    starts: tuple[Id, ...]
    dated: tuple[Id, ...]
    """The chunks of which P0 knows the epoch."""
    marked: tuple[Id, ...]
    """Ids of which P0 knows that they are protected or not handed out."""
    metadata: tuple[Content, ...]
    tickets: tuple[tuple[tuple[Request, Position], Id], ...]
    outstanding: tuple[Out, ...]
    presentable: tuple[Name, ...]
    """Every handle held by a request or worker, revoked or not."""
    phases: tuple[int, ...]
    touched: tuple[int, ...]
    walked: tuple[int, ...]
    handles: tuple[tuple[Content, ...], ...]
    """For each request, the content of each of its handles; -1 where the item is sent without the store."""
    skipped: tuple[tuple[int, ...], ...]
    """For each request, which of its items P0 expected to find."""
    blocks: tuple[tuple[Place, Id, int, Content, Content, int], ...]
    """The memory: place, id, epoch, content of the header, content of the bytes, count."""
    writing: tuple[tuple[Place, int, int], ...]
    """The chunk that P0 is writing: where it is, and whether its header and its data are visible."""
    cells: tuple[tuple[tuple[Request, Position], ...], ...]
    """For each worker, what it has acknowledged."""
    inboxes: tuple[tuple[Delivery, ...], ...]
    """For each worker, what it was sent and has still to do."""
    heads: tuple[Delivery | None, ...]
    """For each worker, what it does next."""
    doing: tuple[int, ...]
    blocking: Id
    renders_left: int
    id_start: Id
    id_end: Id
    start: int
    end: int


Counted = Callable[[Config, Store, Id], int]
"""The acknowledgements that P0 finds for a chunk."""


def in_cells(config: Config, store: Store, identity: Id) -> int:
    """Normatively: for each ticket of the chunk, the workers that have acknowledged it in their cells."""
    slots = [slot for slot, chunk in store.tickets.items() if chunk == identity]
    return sum(worker.acknowledged.has(slot) for worker in store.workers for slot in slots)


def name_of(config: Config, handle: Handle) -> Name:
    """What a reader compares."""
    return (place_of(config, handle.address), handle.identity, handle.epoch)


def outstanding(config: Config, store: Store) -> tuple[Out, ...]:
    """Every handle that some reader has to acknowledge: its request is there, or the worker was sent it already."""
    there = {
        Out(request, position, reader, name_of(config, handle))
        for request, journey in enumerate(store.requests)
        if journey.phase != ABSENT
        for position, handle in enumerate(journey.handles)
        if handle.standing == 1
        for reader, worker in enumerate(store.workers)
        if not worker.acknowledged.has((request, position))
    }
    late = {
        Out(delivery.request, delivery.position, reader, name_of(config, delivery.handle))
        for reader, worker in enumerate(store.workers)
        for delivery in worker.inbox
        if delivery.handle.standing == 1 and store.requests[delivery.request].phase == ABSENT and delivery.again == 0
    }
    return tuple(sorted(there | late))


def presentable(config: Config, store: Store) -> tuple[Name, ...]:
    """Every handle held by a request or worker."""
    held = [handle for journey in store.requests for handle in journey.handles if handle.content >= 0]
    sent = [delivery.handle for worker in store.workers for delivery in worker.inbox]
    return tuple(sorted({name_of(config, handle) for handle in (*held, *sent)}))


def chunks_of(config: Config, store: Store, out: tuple[Out, ...], counted: Counted) -> tuple[Chunk, ...]:
    """The live chunks, oldest first."""
    walking = any(journey.phase == RENDERING for journey in store.requests)
    sent = {name_of(config, delivery.handle) for worker in store.workers for delivery in worker.inbox}
    modulus, start = config.modulus, store.ring.id_start
    found = []
    for identity, address in sorted(store.ring.starts.items(), key=lambda pair: (pair[0] - start) % modulus):
        place, content = place_of(config, address), store.owners.get(identity, -1)
        epoch = store.epochs.get(identity, -1)
        block = store.memory.get(place, NOBODY)
        pairs = sum(one.name == (place, identity, epoch) for one in out)
        found.append(
            Chunk(
                identity=identity,
                place=place,
                total=store.ring.sizes.get(identity, 0),
                content=content,
                epoch=epoch,
                issued=store.issued.get(identity, 0),
                acknowledged=counted(config, store, identity),
                outstanding=pairs,
                quiet=content >= 0 and pairs == 0 and not walking and (place, identity, epoch) not in sent,
                protected=store.protected.has(identity),
                listed=store.listed.get(content, -1) == identity,
                withdrawn=store.withdrawn.has(identity),
                intact=any(one.block.identity == identity for one in store.writing)
                or (block.identity, block.epoch, block.data) == (identity, epoch, content),
            )
        )
    return tuple(found)


def viewed(config: Config, store: Store, counted: Counted) -> View:
    """The state as properties see it, with the variant's own way to find acknowledgements."""
    out = outstanding(config, store)
    return View(
        chunks=chunks_of(config, store, out, counted),
        listed=tuple(store.listed.items()),
        owners=tuple(store.owners.items()),
        counted=tuple(identity for identity, _ in store.issued.items()),
        starts=tuple(identity for identity, _ in store.ring.starts.items()),
        dated=tuple(identity for identity, _ in store.epochs.items()),
        marked=tuple(identity for marks in (store.withdrawn, store.protected) for identity, _ in marks.items()),
        metadata=tuple(content for content, _ in store.metadata.items()),
        tickets=tuple(store.tickets.items()),
        outstanding=out,
        presentable=presentable(config, store),
        phases=tuple(journey.phase for journey in store.requests),
        touched=tuple(journey.touched for journey in store.requests),
        walked=tuple(journey.walked for journey in store.requests),
        handles=tuple(tuple(handle.content for handle in journey.handles) for journey in store.requests),
        skipped=tuple(journey.expected for journey in store.requests),
        blocks=tuple(
            (place, block.identity, block.epoch, block.content, block.data, block.counter)
            for place, block in store.memory.items()
        ),
        writing=tuple((one.place, one.header, one.data) for one in store.writing),
        cells=tuple(tuple(slot for slot, _ in worker.acknowledged.items()) for worker in store.workers),
        inboxes=tuple(worker.inbox for worker in store.workers),
        heads=tuple(worker.inbox[0] if worker.inbox else None for worker in store.workers),
        doing=tuple(worker.doing for worker in store.workers),
        blocking=store.blocking,
        renders_left=store.renders_left,
        id_start=store.ring.id_start,
        id_end=store.ring.id_end,
        start=store.ring.start,
        end=store.ring.end,
    )


def view(config: Config, store: Store) -> View:
    """The normative state as properties see it."""
    return viewed(config, store, in_cells)


OBSERVABLES: Mapping[str, str] = MappingProxyType(
    {
        "contents": "contents that are handed out, ascending",
        "ids": "the chunk id of each content of `contents`",
        "live": "ids of the live chunks, the oldest first",
        "places": "unit at which each live chunk begins, in the order of `live`",
        "issued": "handles that were issued for each live chunk",
        "acknowledged": "acknowledgements that P0 counts for each live chunk",
        "protected": "ids of protected chunks, the oldest first",
        "id_start": "id of the oldest live chunk",
        "id_end": "id of the next chunk",
        "start": "address of the oldest live chunk, in units",
        "end": "address of the next chunk, in units",
    }
)
"""What each observable holds."""


GROUPING: Mapping[str, Grouping] = MappingProxyType(
    {
        "contents": Grouping(row=("content",), lane="P0"),
        "ids": Grouping(row=("chunk",), beside="contents", lane="P0"),
        "live": Grouping(row=("chunk",), lane="store"),
        "places": Grouping(beside="live", lane="store"),
        "issued": Grouping(beside="live", lane="store"),
        "acknowledged": Grouping(beside="live", lane="store"),
        "protected": Grouping(row=("chunk",), lane="P0"),
        "id_start": Grouping(lane="store"),
        "id_end": Grouping(lane="store"),
        "start": Grouping(lane="store"),
        "end": Grouping(lane="store"),
    }
)
"""Which integers of an observable belong together."""


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """What an implementation shows: see `OBSERVABLES`."""
    return {
        "contents": tuple(content for content, _ in view.listed),
        "ids": tuple(identity for _, identity in view.listed),
        "live": tuple(chunk.identity for chunk in view.chunks),
        "places": tuple(chunk.place for chunk in view.chunks),
        "issued": tuple(chunk.issued for chunk in view.chunks),
        "acknowledged": tuple(chunk.acknowledged for chunk in view.chunks),
        "protected": tuple(chunk.identity for chunk in view.chunks if chunk.protected),
        "id_start": view.id_start,
        "id_end": view.id_end,
        "start": view.start,
        "end": view.end,
    }
