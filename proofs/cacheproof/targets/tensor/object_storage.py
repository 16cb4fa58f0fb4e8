"""Our object store by its public face: `python:cacheproof.targets.tensor.object_storage:open_store`.

A unit of the specification is `UNIT` bytes. What a worker has in a memory of its own is played here too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cacheimpl.object_store import SingleWriterShmObjectStorage
from cacheimpl.object_store.errors import ForgedHandleError, StaleHandleError
from cacheimpl.object_store.handles import PREFIX
from cacheimpl.object_store.reading import Looked
from cacheimpl.ring import SingleWriterShmRingBuffer
from cacheproof.foundation.errors import InputError
from cacheproof.model.target import factory_of
from cacheproof.targets.tensor import object_storage_base
from cacheproof.targets.tensor.object_storage_base import Delivery, ObjectStoreTarget, serde_of, used
from cachespec.kernel import DONE, REFUSED, STALE, Code, Outcome
from cachespec.object_store import operations as calls
from cachespec.object_store.configuration import Config

UNIT = 64


@dataclass
class Worker(object_storage_base.Worker[SingleWriterShmObjectStorage, Looked]):
    """With what it keeps."""

    had: set[tuple[int, int]] = field(default_factory=set)
    """Items in its own memory, by request and position."""


class StoreTarget(ObjectStoreTarget[SingleWriterShmObjectStorage, Worker]):
    """The store whose handles are numbered and revoked."""

    def __init__(self) -> None:
        super().__init__()
        self.revoked: list[list[int]] = []

    def unit_of(self, config: Config) -> int:
        if config.stores or config.restarts:
            raise InputError("this target neither stops within a put nor starts its writer again: stores, restarts = 0")
        return UNIT

    def opened(self, config: Config) -> SingleWriterShmObjectStorage:
        self.revoked = []
        ring = SingleWriterShmRingBuffer(
            config.capacity * UNIT,
            create=True,
            header_bytes=config.header * UNIT,
            id_modulus=config.modulus,
            max_readers=config.readers,
            max_handles=1024,
        )
        serde = serde_of(tuple(payload * UNIT for payload in config.payloads), PREFIX.size)
        return SingleWriterShmObjectStorage(config.largest * UNIT, config.readers, ring, serde)

    def attached(self, reader: int) -> Worker:
        return Worker(SingleWriterShmObjectStorage.create_from_handle(self.writer.handle(), reader=reader))

    def counts(self, identity: int) -> tuple[int, int]:
        books = self.writer.writer
        return books.issued[identity], books.tickets.acknowledgements(identity)

    # P0 and P1 ------------------------------------------------------------------------------------------------------

    def _resume(self, operation: calls.Resume) -> None:
        """As for the first time."""
        self._schedule(operation)

    def _forge(self, operation: calls.Forge) -> Outcome:
        """The chunk of another content, if there is one, with a signature that was never given."""
        there = self.writer.key_index.get(str(operation.content), (0, 0))
        try:
            self.writer.verify_signature(str(self.config.requests[operation.request][0]), *there, [7] * 36)
        except ForgedHandleError:
            return REFUSED
        return DONE

    def _end(self, operation: Any) -> None:
        """P0 hears of the end of the request: each of its handles is revoked."""
        for _, handle in self.handles.pop(operation.request):
            self.writer.revoke(*handle)
            self.revoked.append(handle.signature)
        for worker in self.workers:
            worker.had = {(request, position) for request, position in worker.had if request != operation.request}

    _reject = _end

    # Workers --------------------------------------------------------------------------------------------------------

    def _look(self, operation: Any) -> Outcome:
        """The first step of reading."""
        worker = self.workers[operation.reader]
        delivery = worker.inbox[0]
        if (delivery.request, delivery.position) in worker.had:
            worker.done()
            return Outcome(Code.HIT, (int(delivery.handle.key),))
        address, identity, signature, key = delivery.handle
        try:
            worker.looked = worker.store.reader.look(worker.store.reader.verified(key, address, identity, signature))
        except StaleHandleError:
            worker.done()
            return STALE
        return DONE

    def _acknowledge(self, operation: Any) -> Outcome:
        """The third: what was replaced meanwhile is thrown away."""
        worker = self.workers[operation.reader]
        looked, copied = worker.looked, worker.copied
        assert looked is not None
        assert copied is not None
        delivery = worker.done()
        try:
            worker.store.reader.look_again(looked)
        except StaleHandleError:
            return STALE
        worker.store.reader.acknowledge(looked)
        self.noted(worker, delivery)
        return used(worker.store.ser_de.deserialize(memoryview(copied)))

    def noted(self, worker: Worker, delivery: Delivery) -> None:
        """The worker keeps the item, unless its request was over meanwhile."""
        if delivery.handle.signature not in self.revoked:
            worker.had.add((delivery.request, delivery.position))

    def _read(self, operation: calls.Read) -> Outcome:
        """The public call, which does the three steps."""
        worker = self.workers[operation.reader]
        delivery = worker.inbox[0]
        if (delivery.request, delivery.position) in worker.had:
            return self._look(operation)
        worker.done()
        try:
            content = worker.store.get(*delivery.handle)
        except StaleHandleError:
            return STALE
        self.noted(worker, delivery)
        return used(content)

    def _die(self, operation: calls.Die) -> None:
        """Another begins under the same number, with nothing."""
        reader = operation.reader
        self.workers[reader].store.close()
        had, self.workers[reader] = self.workers[reader].had, self.attached(reader)
        self.workers[reader].had = had


open_store = factory_of("object_store", StoreTarget)
"""The store, normatively."""
