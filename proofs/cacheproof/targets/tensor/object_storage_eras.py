"""Our object store with the rules of an era: `torch` beside M1, M2 and M3 of `object_store`.

A header is 8 bytes as released, so a unit of the specification is as many bytes as that makes.
"""

from __future__ import annotations

from math import gcd
from threading import Lock

from cacheimpl.object_store import ReleasedObjectStorage, StoreEra
from cacheimpl.object_store.counting import COUNT_BYTES, RINGS, Found, count_at
from cacheimpl.object_store.errors import ForgedHandleError, NotStoredError, StaleHandleError
from cacheimpl.ring import ReleasedRingBuffer
from cacheproof.foundation.errors import InputError
from cacheproof.targets.tensor import object_storage_base
from cacheproof.targets.tensor.object_storage_base import MARK, Handle, ObjectStoreTarget, serde_of, used
from cachespec.kernel import ABSENT, DONE, FAILED, REFUSED, STALE, Operation, Outcome
from cachespec.object_store import operations as calls
from cachespec.object_store.configuration import Config

HEADER_BYTES = 8
LOOKALIKE = 0x20
"""The bytes of content 0 where they are to look like a count."""
NO_COUNT = LOOKALIKE << 24
"""From here on, what stands in the place of a count is an item's bytes."""

Worker = object_storage_base.Worker[ReleasedObjectStorage, Found]


class ReleasedStoreTarget(ObjectStoreTarget[ReleasedObjectStorage, Worker]):
    """The store of an era, whose counts are in the chunks."""

    def __init__(self, era: StoreEra) -> None:
        super().__init__()
        self.era = era
        self.expected: dict[int, tuple[int, ...]] = {}
        """For each position of a request whether P0 found its item."""

    def unit_of(self, config: Config) -> int:
        return unit_of(config)

    def opened(self, config: Config) -> ReleasedObjectStorage:
        self.expected = {}
        ring = ReleasedRingBuffer(
            config.capacity * self.unit,
            create=True,
            era=RINGS[self.era.value],
            id_modulus=config.modulus,
            max_readers=config.readers,
        )
        sizes = tuple(payload * self.unit for payload in config.payloads)
        serde = serde_of(sizes, COUNT_BYTES, LOOKALIKE if config.lookalikes else MARK)
        return ReleasedObjectStorage(config.largest * self.unit, config.readers, ring, serde, Lock(), era=self.era)

    def attached(self, reader: int) -> Worker:  # noqa: ARG002  # readers have no numbers here
        return Worker(ReleasedObjectStorage.create_from_handle(self.writer.handle()))

    def counts(self, identity: int) -> tuple[int, int]:
        """The second is -1 where P0 keeps none, or another item's bytes are there."""
        ring, issued = self.writer.ring_buffer, self.writer.writer.issued
        assert isinstance(ring, ReleasedRingBuffer)
        if identity not in issued:
            return 0, -1
        count = count_at(ring, ring.metadata[identity])
        return issued[identity], count if 0 <= count < NO_COUNT else -1

    def signature_of(self, key: str) -> list[int]:
        return super().signature_of(key) if self.era is StoreEra.STORE_2026_11 else []

    def deliver(self, request: int) -> None:
        """Twice where P0 touches too: to touch all of them first."""
        touched = self.config.touches == 1 and self.era is not StoreEra.STORE_2025_10
        for _ in range(1 + touched):
            super().deliver(request)

    # P0 and P1 ------------------------------------------------------------------------------------------------------

    def _end(self, _: Operation) -> Outcome:
        """Nobody tells the store."""
        return DONE

    _reject = _end

    def _render(self, operation: calls.Render) -> Outcome:
        """What was found is remembered."""
        outcome = super()._render(operation)
        self.expected[operation.request] = outcome.values
        return outcome

    def _put(self, operation: calls.Put) -> Outcome:
        """Nothing is given where P0 expected to find the item (C-MIR-9)."""
        if self.config.skips and self.expected[operation.request][operation.position]:
            return FAILED
        return super()._put(operation)

    def _forge(self, operation: calls.Forge) -> Outcome:
        """The chunk of another content, if there is one; from 0.33.0 on with a signature that was never given."""
        key = str(self.config.requests[operation.request][0])
        there = self.writer.key_index.get(str(operation.content))
        if self.era is StoreEra.STORE_2026_11:
            try:
                self.writer.verify_signature(key, *(there or (0, 0)), [7] * 32)
            except ForgedHandleError:
                return REFUSED
            return DONE
        if there is None:
            return ABSENT
        self.handles[operation.request] = [(0, Handle(*there, [], key))]
        return DONE

    def _free_unused(self, operation: calls.FreeUnused) -> Outcome:
        """Ids; 0.11.0 stumbles over the chunk that is not."""
        try:
            return super()._free_unused(operation)
        except NotStoredError:
            return FAILED

    def _resume(self, operation: calls.Resume) -> None:
        """From 0.33.0 on as a new request (C-SHM-6); before, without its items."""
        if self.era is StoreEra.STORE_2026_11:
            self.deliver(operation.request)

    # Workers --------------------------------------------------------------------------------------------------------

    def _reader_touch(self, operation: calls.ReaderTouch) -> Outcome:
        """What the era calls a touch."""
        worker = self.workers[operation.reader]
        address, identity, signature, key = worker.done().handle
        try:
            worker.store.touch(key, address, identity, signature)
        except StaleHandleError:
            return STALE
        return DONE

    def _read(self, operation: calls.Read) -> Outcome:
        """The public call, which does the three steps."""
        worker = self.workers[operation.reader]
        try:
            return used(worker.store.get(*worker.done().handle))
        except StaleHandleError:
            return STALE

    def _look(self, operation: calls.Look) -> Outcome:
        """The first step of reading."""
        worker = self.workers[operation.reader]
        handle = worker.inbox[0].handle
        try:
            worker.looked = worker.store.reader.look(handle.address, handle.identity)
        except StaleHandleError:
            worker.done()
            return STALE
        return DONE

    def _acknowledge(self, operation: calls.Acknowledge) -> Outcome:
        """The third, in whatever chunk is there by now (C-SHM-14)."""
        worker = self.workers[operation.reader]
        copied = worker.copied
        assert copied is not None
        worker.store.reader.acknowledge(worker.done().handle.address)
        return used(worker.store.ser_de.deserialize(memoryview(copied)))


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
