"""Our object store with the rules of an era: `torch` beside M1, M2 and M3 of `object_store`.

One writer and readers that have its segment attached, all in this process. A header is 8 bytes as released, so a unit
of the specification is as many bytes as that makes; what is around the store is played here, as for the normative one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import gcd
from threading import Lock
from typing import Any, NamedTuple

from cacheimpl.msgpack import Buffer
from cacheimpl.object_store import ReleasedObjectStorage, StoreEra
from cacheimpl.object_store.counting import COUNT_BYTES, RINGS, Found, count_at
from cacheimpl.object_store.errors import (
    ForgedHandleError,
    NotStoredError,
    StaleHandleError,
    StoreFullError,
    TooLargeError,
)
from cacheimpl.ring import ReleasedRingBuffer
from cacheproof.errors import InputError
from cacheproof.targets.target import TargetError
from cachespec.kernel import (
    ABSENT,
    DONE,
    FAILED,
    REFUSED,
    STALE,
    TOO_LARGE,
    Code,
    Observation,
    Operation,
    Outcome,
)
from cachespec.object_store import operations as calls
from cachespec.object_store.configuration import Config, content_of

HEADER_BYTES = 8
MARK, LOOKALIKE = 0xA0, 0x20
"""The bytes of content 0; of content 1 they are one more. As a number, four of the first are negative."""
NO_COUNT = LOOKALIKE << 24
"""From here on, what stands in the place of a count is an item's bytes."""


class ContentSerde:
    """A content as so many bytes, all alike."""

    unit: int = 1
    mark: int = MARK
    sizes: tuple[int, ...] = ()

    def serialize(self, value: Any) -> tuple[Buffer | list[Buffer], int, bytes, int]:
        size = self.sizes[value] * self.unit - COUNT_BYTES
        return bytes([self.mark + value]) * size, size, b"", 0

    def deserialize(self, data_view: memoryview) -> int:
        """The content whose bytes these are; -1: of no single content."""
        found = set(bytes(data_view))
        return found.pop() - self.mark if len(found) == 1 else -1


class Handle(NamedTuple):
    """What P0 sends in the place of an item."""

    address: int
    identity: int
    signature: list[int] | None
    key: str


class Delivery(NamedTuple):
    """One thing that a worker has to do."""

    request: int
    handle: Handle
    touching: bool


@dataclass
class Worker:
    """What a worker process has beside the store."""

    store: ReleasedObjectStorage
    inbox: list[Delivery] = field(default_factory=list)
    found: Found | None = None
    copied: bytes = b""


class ReleasedStoreTarget:
    """One store of an era in one configuration. An exception of the store is the outcome that it stands for."""

    def __init__(self, era: StoreEra) -> None:
        self.era = era
        self._config: Config | None = None
        self._writer: ReleasedObjectStorage | None = None
        self.workers: list[Worker] = []
        self.handles: dict[int, list[Handle]] = {}
        self.expected: dict[int, tuple[int, ...]] = {}
        self.unit = 1

    @property
    def config(self) -> Config:
        """Raises `TargetError` before `reset`."""
        if self._config is None:
            raise TargetError("the target was not reset to a configuration yet")
        return self._config

    @property
    def writer(self) -> ReleasedObjectStorage:
        """P0's side. Raises `TargetError` before `reset`."""
        if self._writer is None:
            raise TargetError("the target was not reset to a configuration yet")
        return self._writer

    def reset(self, config: Config) -> None:
        self.close()
        self.unit = unit_of(config)
        ContentSerde.sizes, ContentSerde.unit = config.payloads, self.unit
        ContentSerde.mark = LOOKALIKE if config.lookalikes else MARK
        ring = ReleasedRingBuffer(
            config.capacity * self.unit,
            create=True,
            era=RINGS[self.era.value],
            id_modulus=config.modulus,
            max_readers=config.readers,
        )
        lock = Lock()
        largest, readers = config.largest * self.unit, config.readers
        self._writer = ReleasedObjectStorage(largest, readers, ring, ContentSerde, lock, era=self.era)
        attach, handle = ReleasedObjectStorage.create_from_handle, self._writer.handle()
        self.workers = [Worker(attach(handle)) for _ in range(readers)]
        self._config, self.handles, self.expected = config, {}, {}

    def apply(self, operation: Operation) -> Outcome:
        perform = PERFORM.get(type(operation))
        if perform is None:
            raise TargetError(f"the store has no call for {operation.wire_name()}")
        return perform(self, operation)

    def observe(self) -> Mapping[str, Observation]:
        ring, books = self.writer.ring_buffer, self.writer.writer
        listed = sorted((int(key), identity) for key, (_, identity) in books.key_index.items())
        live = sorted(ring.metadata, key=lambda one: (one - ring.monotonic_id_start) % ring.ID_MAX)
        return {
            "contents": tuple(content for content, _ in listed),
            "ids": tuple(identity for _, identity in listed),
            "live": tuple(live),
            "places": tuple(ring.metadata[identity] % ring.data_buffer_size // self.unit for identity in live),
            "issued": tuple(books.issued.get(identity, 0) for identity in live),
            "acknowledged": tuple(map(self.counted, live)),
            "protected": tuple(identity for identity in live if identity in books.protected),
            "id_start": ring.monotonic_id_start,
            "id_end": ring.monotonic_id_end,
            "start": ring.data_buffer_start // self.unit,
            "end": ring.data_buffer_end // self.unit,
        }

    def counted(self, identity: int) -> int:
        """The count in a chunk; -1 where P0 keeps none, or another item's bytes are there."""
        ring = self.writer.ring_buffer
        assert isinstance(ring, ReleasedRingBuffer)
        if identity not in self.writer.writer.issued:
            return -1
        count = count_at(ring, ring.metadata[identity])
        return count if 0 <= count < NO_COUNT else -1

    def close(self) -> None:
        for worker in self.workers:
            worker.store.close()
        if self._writer is not None:
            self._writer.close()
        self._writer, self._config, self.workers = None, None, []

    def key_of(self, operation: Any) -> str:
        """The content's name in the store."""
        return str(content_of(self.config, operation.request, operation.position))

    def issued(self, operation: Any, code: Code, address: int, identity: int) -> Outcome:
        """The request has the handle."""
        key = self.key_of(operation)
        signature = self.writer.get_signature(key) if self.era is StoreEra.STORE_2026_11 else None
        self.handles[operation.request].append(Handle(address, identity, signature, key))
        return Outcome(code, (address // self.unit, identity))

    def deliver(self, request: int) -> None:
        """Every worker is sent each handle, to touch all of them first where P0 touches too."""
        touched = self.config.touches == 1 and self.era is not StoreEra.STORE_2025_10
        for worker in self.workers:
            for touching in (True, False)[not touched :]:
                worker.inbox += [Delivery(request, handle, touching) for handle in self.handles[request]]


def unit_of(config: Config) -> int:
    """Bytes of a unit. Raises `InputError` for a configuration in which the memory says more than the specification.

    Where one chunk may begin within the header or the count of another, the bytes there are something of both.
    """
    if config.stores:
        raise InputError("this target does not stop within a put: stores = 0")
    if HEADER_BYTES % config.header:
        raise InputError(
            f"the header of a released chunk has {HEADER_BYTES} bytes, of which {config.header} is no part"
        )
    unit = HEADER_BYTES // config.header
    stored = [payload for payload in config.payloads if payload <= config.largest]
    if min(stored, default=COUNT_BYTES) * unit <= COUNT_BYTES:
        raise InputError(f"a payload has more than the {COUNT_BYTES} bytes of its count: {unit} bytes are a unit")
    if stored and gcd(*(payload + config.header for payload in stored)) * unit < HEADER_BYTES + COUNT_BYTES:
        raise InputError("chunks may begin within the header or the count of others: choose payloads of like sizes")
    return unit


# P0 -----------------------------------------------------------------------------------------------------------------


def render(target: ReleasedStoreTarget, operation: calls.Render) -> Outcome:
    """Whether each item is there."""
    contents = target.config.requests[operation.request]
    target.handles[operation.request] = []
    target.expected[operation.request] = tuple(int(target.writer.is_cached(str(content))) for content in contents)
    return Outcome(Code.DONE, target.expected[operation.request])


def touch(target: ReleasedStoreTarget, operation: calls.Touch) -> Outcome:
    """The call says nothing: whether the item was there is asked."""
    key = target.key_of(operation)
    target.writer.touch(key)
    return DONE if target.writer.is_cached(key) else ABSENT


def get_cached(target: ReleasedStoreTarget, operation: calls.GetCached) -> Outcome:
    """A hit."""
    return target.issued(operation, Code.HIT, *target.writer.get_cached(target.key_of(operation)))


def put(target: ReleasedStoreTarget, operation: calls.Put) -> Outcome:
    """Stored, no room, or too large; or nothing was given, as P0 expected to find it (C-MIR-9)."""
    key = target.key_of(operation)
    if target.config.skips and target.expected[operation.request][operation.position]:
        return FAILED
    try:
        return target.issued(operation, Code.DONE, *target.writer.put(key, int(key)))
    except StoreFullError:
        return REFUSED
    except TooLargeError:
        return TOO_LARGE


def release(target: ReleasedStoreTarget, operation: Operation) -> Outcome:
    """Nothing is returned."""
    target.writer.release_touches()
    return DONE


def forge(target: ReleasedStoreTarget, operation: calls.Forge) -> Outcome:
    """The chunk of another content, if there is one; from 0.33.0 on with a signature that was never given."""
    key = str(target.config.requests[operation.request][0])
    there = target.writer.key_index.get(str(operation.content))
    if target.era is StoreEra.STORE_2026_11:
        try:
            target.writer.verify_signature(key, *(there or (0, 0)), [7] * 32)
        except ForgedHandleError:
            return REFUSED
        return DONE
    if there is None:
        return ABSENT
    target.handles[operation.request] = [Handle(*there, None, key)]
    return DONE


def free_unused(target: ReleasedStoreTarget, operation: Operation) -> Outcome:
    """Ids; 0.11.0 stumbles over the chunk that is not."""
    try:
        return Outcome(Code.DONE, target.writer.free_unused())
    except NotStoredError:
        return FAILED


def clear(target: ReleasedStoreTarget, operation: Operation) -> Outcome:
    """Nothing is returned."""
    target.writer.clear()
    return DONE


# P1 -----------------------------------------------------------------------------------------------------------------


def nothing(target: ReleasedStoreTarget, operation: Operation) -> Outcome:
    """Nobody tells the store."""
    return DONE


def schedule(target: ReleasedStoreTarget, operation: calls.Schedule) -> Outcome:
    """Whatever is covered, every handle is sent."""
    target.deliver(operation.request)
    return DONE


def resume(target: ReleasedStoreTarget, operation: calls.Resume) -> Outcome:
    """From 0.33.0 on as a new request (C-SHM-6); before, without its items."""
    if target.era is StoreEra.STORE_2026_11:
        target.deliver(operation.request)
    return DONE


def when_done(target: ReleasedStoreTarget, operation: Any) -> Outcome:
    """Where a worker has something left to do for the request, P1 waits."""
    left = (one.request for worker in target.workers for one in worker.inbox)
    return ABSENT if operation.request in left else DONE


# Workers ------------------------------------------------------------------------------------------------------------


def reader_touch(target: ReleasedStoreTarget, operation: calls.ReaderTouch) -> Outcome:
    """What the era calls a touch."""
    worker = target.workers[operation.reader]
    address, identity, signature, key = worker.inbox.pop(0).handle
    try:
        worker.store.touch(key, address, identity, signature)
    except StaleHandleError:
        return STALE
    return DONE


def read(target: ReleasedStoreTarget, operation: calls.Read) -> Outcome:
    """The public call, which does the three steps."""
    worker = target.workers[operation.reader]
    try:
        return used(worker.store.get(*worker.inbox.pop(0).handle))
    except StaleHandleError:
        return STALE


def used(content: int) -> Outcome:
    """The bytes of one content, or of none in particular."""
    return Outcome(Code.HIT, (content,) if content >= 0 else ())


def look(target: ReleasedStoreTarget, operation: calls.Look) -> Outcome:
    """The first step of reading."""
    worker = target.workers[operation.reader]
    handle = worker.inbox[0].handle
    try:
        worker.found = worker.store.reader.look(handle.address, handle.identity)
    except StaleHandleError:
        worker.inbox.pop(0)
        return STALE
    return DONE


def copy(target: ReleasedStoreTarget, operation: calls.Copy) -> Outcome:
    """The second."""
    worker = target.workers[operation.reader]
    assert worker.found is not None
    worker.copied = bytes(worker.found.payload)
    return DONE


def acknowledge(target: ReleasedStoreTarget, operation: calls.Acknowledge) -> Outcome:
    """The third, in whatever chunk is there by now (C-SHM-14)."""
    worker = target.workers[operation.reader]
    worker.store.reader.acknowledge(worker.inbox.pop(0).handle.address)
    return used(worker.store.ser_de.deserialize(memoryview(worker.copied)))


PERFORM: Mapping[type[Operation], Callable[[ReleasedStoreTarget, Any], Outcome]] = {
    calls.Render: render,
    calls.Touch: touch,
    calls.GetCached: get_cached,
    calls.Put: put,
    calls.Release: release,
    calls.Forge: forge,
    calls.FreeUnused: free_unused,
    calls.Clear: clear,
    **dict.fromkeys((calls.Send, calls.Abort, calls.Reject, calls.End), nothing),
    calls.Schedule: schedule,
    calls.Resume: resume,
    calls.Preempt: when_done,
    calls.Finish: when_done,
    calls.ReaderTouch: reader_touch,
    calls.Read: read,
    calls.Look: look,
    calls.Copy: copy,
    calls.Acknowledge: acknowledge,
}
