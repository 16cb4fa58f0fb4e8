"""Our object store by its public face: `python:cacheproof.targets.tensor.shared_store:open_store`.

One writer, and readers that have its segment attached, all in this process. A unit of the specification is `UNIT`
bytes. What is around the store is played here: which handles a request has, what each worker was sent, and what a
worker has in a memory of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cacheimpl.msgpack import Buffer
from cacheimpl.object_store import SingleWriterShmObjectStorage
from cacheimpl.object_store.errors import ForgedHandleError, StaleHandleError, StoreFullError, TooLargeError
from cacheimpl.object_store.handles import PREFIX
from cacheimpl.object_store.reading import Looked
from cacheimpl.ring import SingleWriterShmRingBuffer
from cacheproof.errors import InputError
from cacheproof.targets.target import TargetError
from cachespec.kernel import ABSENT, DONE, REFUSED, STALE, TOO_LARGE, Code, Observation, Operation, Outcome
from cachespec.object_store import operations as calls
from cachespec.object_store.configuration import Config, content_of

UNIT = 64
MARK = 0xA0
"""The bytes of content 0; of content 1 they are one more."""


class ContentSerde:
    """A content as so many bytes, all alike."""

    sizes: tuple[int, ...] = ()

    def serialize(self, value: Any) -> tuple[Buffer | list[Buffer], int, bytes, int]:
        size = self.sizes[value] * UNIT - PREFIX.size
        return bytes([MARK + value]) * size, size, b"", 0

    def deserialize(self, data_view: memoryview) -> int:
        """The content whose bytes these are; -1: of no single content."""
        found = set(bytes(data_view))
        return found.pop() - MARK if len(found) == 1 else -1


class Handle(NamedTuple):
    """What P0 sends in the place of an item."""

    address: int
    identity: int
    signature: list[int]
    key: str


class Delivery(NamedTuple):
    """One thing that a worker has to do."""

    request: int
    position: int
    handle: Handle
    again: bool


@dataclass
class Worker:
    """What a worker process has beside the store."""

    store: SingleWriterShmObjectStorage
    inbox: list[Delivery] = field(default_factory=list)
    had: set[tuple[int, int]] = field(default_factory=set)
    """Items in its own memory, by request and position."""
    looked: Looked | None = None
    copied: bytes | None = None

    def done(self) -> Delivery:
        """With what it was sent first."""
        self.looked = self.copied = None
        return self.inbox.pop(0)


class StoreTarget:
    """One store in one configuration. An exception of the store is the outcome that it stands for."""

    def __init__(self) -> None:
        self._config: Config | None = None
        self._writer: SingleWriterShmObjectStorage | None = None
        self.workers: list[Worker] = []
        self.handles: dict[int, list[tuple[int, Handle]]] = {}
        self.revoked: list[list[int]] = []

    @property
    def config(self) -> Config:
        """Raises `TargetError` before `reset`."""
        if self._config is None:
            raise TargetError("the target was not reset to a configuration yet")
        return self._config

    @property
    def writer(self) -> SingleWriterShmObjectStorage:
        """P0's side. Raises `TargetError` before `reset`."""
        if self._writer is None:
            raise TargetError("the target was not reset to a configuration yet")
        return self._writer

    def reset(self, config: Config) -> None:
        if config.stores or config.restarts:
            raise InputError("this target neither stops within a put nor starts its writer again: stores, restarts = 0")
        self.close()
        ContentSerde.sizes = config.payloads
        ring = SingleWriterShmRingBuffer(
            config.capacity * UNIT,
            create=True,
            header_bytes=config.header * UNIT,
            id_modulus=config.modulus,
            max_readers=config.readers,
            max_handles=1024,
        )
        self._writer = SingleWriterShmObjectStorage(config.largest * UNIT, config.readers, ring, ContentSerde)
        attach, handle = SingleWriterShmObjectStorage.create_from_handle, self._writer.handle()
        self.workers = [Worker(attach(handle, reader=reader)) for reader in range(config.readers)]
        self._config, self.handles, self.revoked = config, {}, []

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
            "places": tuple(ring.metadata[identity] % ring.data_buffer_size // UNIT for identity in live),
            "issued": tuple(books.issued[identity] for identity in live),
            "acknowledged": tuple(books.tickets.acknowledgements(identity) for identity in live),
            "protected": tuple(identity for identity in live if identity in books.protected),
            "id_start": ring.monotonic_id_start,
            "id_end": ring.monotonic_id_end,
            "start": ring.data_buffer_start // UNIT,
            "end": ring.data_buffer_end // UNIT,
        }

    def close(self) -> None:
        for worker in self.workers:
            worker.store.close()
        if self._writer is not None:
            self._writer.close()
        self._writer, self._config, self.workers = None, None, []

    def key_of(self, operation: Any) -> str:
        """The content's name in the store."""
        return str(content_of(self.config, operation.request, operation.position))

    def has_to_do(self, request: int) -> bool:
        """Whether some worker has something left to do for the request."""
        return any(delivery.request == request for worker in self.workers for delivery in worker.inbox)

    def issued(self, operation: Any, code: Code, address: int, identity: int) -> Outcome:
        """The request has the handle."""
        key = self.key_of(operation)
        handle = Handle(address, identity, self.writer.get_signature(key), key)
        self.handles[operation.request].append((operation.position, handle))
        return Outcome(code, (address // UNIT, identity))

    def deliver(self, request: int, *, again: bool) -> None:
        """Every worker is sent each handle."""
        for worker in self.workers:
            worker.inbox += [Delivery(request, position, handle, again) for position, handle in self.handles[request]]


def open_store(component: object) -> StoreTarget:
    """The store as a target of its component."""
    if isinstance(component, str) and component != "object_store":  # a factory is given a configuration instead
        raise InputError(f"the store is one of object_store, not of {component}")
    return StoreTarget()


# P0 -----------------------------------------------------------------------------------------------------------------


def render(target: StoreTarget, operation: calls.Render) -> Outcome:
    """Whether each item is there."""
    target.handles[operation.request] = []
    found = (target.writer.is_cached(str(content)) for content in target.config.requests[operation.request])
    return Outcome(Code.DONE, tuple(map(int, found)))


def touch(target: StoreTarget, operation: calls.Touch) -> Outcome:
    """The call says nothing: whether the item was there is asked."""
    key = target.key_of(operation)
    target.writer.touch(key)
    return DONE if target.writer.is_cached(key) else ABSENT


def get_cached(target: StoreTarget, operation: calls.GetCached) -> Outcome:
    """A hit."""
    return target.issued(operation, Code.HIT, *target.writer.get_cached(target.key_of(operation)))


def put(target: StoreTarget, operation: calls.Put) -> Outcome:
    """Stored, no room, or too large."""
    key = target.key_of(operation)
    try:
        return target.issued(operation, Code.DONE, *target.writer.put(key, int(key)))
    except StoreFullError:
        return REFUSED
    except TooLargeError:
        return TOO_LARGE


def release(target: StoreTarget, operation: Operation) -> Outcome:
    """Nothing is returned."""
    target.writer.release_touches()
    return DONE


def forge(target: StoreTarget, operation: calls.Forge) -> Outcome:
    """The chunk of another content, if there is one, with a signature that was never given."""
    there = target.writer.key_index.get(str(operation.content), (0, 0))
    try:
        target.writer.verify_signature(str(target.config.requests[operation.request][0]), *there, [7] * 36)
    except ForgedHandleError:
        return REFUSED
    return DONE


def end(target: StoreTarget, operation: Any) -> Outcome:
    """P0 hears of the end of the request: each of its handles is revoked."""
    for _, handle in target.handles.pop(operation.request):
        target.writer.revoke(*handle)
        target.revoked.append(handle.signature)
    for worker in target.workers:
        worker.had = {(request, position) for request, position in worker.had if request != operation.request}
    return DONE


def free_unused(target: StoreTarget, operation: Operation) -> Outcome:
    """Ids."""
    return Outcome(Code.DONE, target.writer.free_unused())


def clear(target: StoreTarget, operation: Operation) -> Outcome:
    """Nothing is returned."""
    target.writer.clear()
    return DONE


# P1 -----------------------------------------------------------------------------------------------------------------


def nothing(target: StoreTarget, operation: Operation) -> Outcome:
    """No business of the store."""
    return DONE


def schedule(target: StoreTarget, operation: calls.Schedule) -> Outcome:
    """Whatever is covered, every handle is sent."""
    target.deliver(operation.request, again=False)
    return DONE


def resume(target: StoreTarget, operation: calls.Resume) -> Outcome:
    """Every worker is told that it was sent before."""
    target.deliver(operation.request, again=True)
    return DONE


def when_done(target: StoreTarget, operation: Any) -> Outcome:
    """Where a worker has something left to do for the request, P1 waits."""
    return ABSENT if target.has_to_do(operation.request) else DONE


# Workers ------------------------------------------------------------------------------------------------------------


def look(target: StoreTarget, operation: Any) -> Outcome:
    """The first step of reading."""
    worker = target.workers[operation.reader]
    delivery = worker.inbox[0]
    if delivery.again and (delivery.request, delivery.position) in worker.had:
        worker.done()
        return Outcome(Code.HIT, (int(delivery.handle.key),))
    address, identity, signature, key = delivery.handle
    try:
        worker.looked = worker.store.reader.look(worker.store.reader.verified(key, address, identity, signature))
    except StaleHandleError:
        worker.done()
        return STALE
    return DONE


def copy(target: StoreTarget, operation: Any) -> Outcome:
    """The second."""
    worker = target.workers[operation.reader]
    assert worker.looked is not None
    worker.copied = bytes(worker.looked.payload)
    return DONE


def acknowledge(target: StoreTarget, operation: Any) -> Outcome:
    """The third: what was replaced meanwhile is thrown away."""
    worker = target.workers[operation.reader]
    looked, copied = worker.looked, worker.copied
    assert looked is not None
    assert copied is not None
    delivery = worker.done()
    try:
        worker.store.reader.look_again(looked)
    except StaleHandleError:
        return STALE
    worker.store.reader.acknowledge(looked)
    noted(target, worker, delivery)
    content = worker.store.ser_de.deserialize(memoryview(copied))
    return Outcome(Code.HIT, (content,) if content >= 0 else ())


def noted(target: StoreTarget, worker: Worker, delivery: Delivery) -> None:
    """The worker keeps the item, unless its request was over meanwhile."""
    if delivery.handle.signature not in target.revoked:
        worker.had.add((delivery.request, delivery.position))


def read(target: StoreTarget, operation: calls.Read) -> Outcome:
    """The public call, which does the three steps."""
    worker = target.workers[operation.reader]
    delivery = worker.inbox[0]
    if delivery.again and (delivery.request, delivery.position) in worker.had:
        return look(target, operation)
    worker.done()
    content = -1
    try:
        content = worker.store.get(*delivery.handle)
    except StaleHandleError:
        return STALE
    noted(target, worker, delivery)
    return Outcome(Code.HIT, (content,) if content >= 0 else ())


def die(target: StoreTarget, operation: calls.Die) -> Outcome:
    """Another begins under the same number, with nothing."""
    reader = operation.reader
    target.workers[reader].store.close()
    store = SingleWriterShmObjectStorage.create_from_handle(target.writer.handle(), reader=reader)
    target.workers[reader] = Worker(store, had=target.workers[reader].had)
    return DONE


PERFORM: Mapping[type[Operation], Callable[[StoreTarget, Any], Outcome]] = {
    calls.Render: render,
    calls.Touch: touch,
    calls.GetCached: get_cached,
    calls.Put: put,
    calls.Release: release,
    calls.Forge: forge,
    calls.Reject: end,
    calls.End: end,
    calls.FreeUnused: free_unused,
    calls.Clear: clear,
    calls.Send: nothing,
    calls.Abort: nothing,
    calls.Schedule: schedule,
    calls.Resume: resume,
    calls.Preempt: when_done,
    calls.Finish: when_done,
    calls.Read: read,
    calls.Look: look,
    calls.Copy: copy,
    calls.Acknowledge: acknowledge,
    calls.Die: die,
}
