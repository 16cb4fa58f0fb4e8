"""The object store as released, on request only: the rules of three times, with their faults, on a segment of ours.

Each is an era of the specification's `object_store`, by its tag. They serve to reproduce an engine of
that time: unread handles keep their chunks for ever, counts are in the chunks, and a lock is shared with
readers that may die. What a caller must not do is refused as in the normative store.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from cacheimpl.counts import whole
from cacheimpl.object_store.common import ObjectStorage, checked_key, no_item_there
from cacheimpl.object_store.counting import COUNT_BYTES, RINGS, CountingReader, CountingWriter
from cacheimpl.object_store.errors import (
    ForgedHandleError,
    InvalidArgumentError,
    NoLockError,
    NotInEraError,
    NotStoredError,
    StaleHandleError,
)
from cacheimpl.object_store.serde import MsgpackSerde, ObjectSerde
from cacheimpl.ring.eras import ReleasedRingBuffer, check_era

SIGNATURE = 32
"""Bytes."""


class StoreEra(Enum):
    """When, and how."""

    STORE_2025_10 = "M1"
    """0.11.0: no touch; the start of the ring stays behind (C-SHM-1)."""
    STORE_2025_12 = "M2"
    """0.12.0 to 0.20.2: a touch counts, on both sides (C-SHM-2); clearing begins ids again (C-SHM-7)."""
    STORE_2026_11 = "M3"
    """0.33.0: a touch protects; handles are signed (C-SHM-9)."""


@dataclass
class ReleasedStorageHandle:
    """What another process makes its reader of: `ReleasedObjectStorage.create_from_handle`."""

    max_object_size: int
    n_readers: int
    ring_buffer_handle: tuple[int, str]
    serde_class: type[ObjectSerde]
    reader_lock: Any
    era: StoreEra


class ReleasedObjectStorage(ObjectStorage[CountingWriter, CountingReader]):
    """The store as the release of an era has it, on the `ReleasedRingBuffer` of the same era."""

    flag_bytes = COUNT_BYTES

    def __init__(
        self,
        max_object_size: int,
        n_readers: int,
        ring_buffer: ReleasedRingBuffer,
        serde_class: type[ObjectSerde] = MsgpackSerde,
        reader_lock: Any = None,
        *,
        era: StoreEra,
    ) -> None:
        """`max_object_size` in bytes, with the count and the description. A reader brings the lock of all readers.

        The lock is taken to count: a reader that is killed in between takes it along. A writer that has it counts as a
        reader when it gets an item. Raises `NoLockError`, `InvalidArgumentError`.
        """
        check_era(era, StoreEra)
        super().__init__(max_object_size, n_readers, ring_buffer, serde_class, reader_lock)
        if getattr(ring_buffer, "era", None) is not RINGS[era.value]:
            raise InvalidArgumentError(f"ring_buffer must be a ReleasedRingBuffer of the era {RINGS[era.value].name}")
        if not hasattr(reader_lock, "__enter__") and not (self.is_writer and reader_lock is None):
            raise NoLockError("a reader brings the lock that it shares with the others (`reader_lock`)")
        self.era = era
        if self.is_writer:
            self._writer = CountingWriter(ring_buffer, self.max_object_size, self.n_readers)
        else:
            self._reader = CountingReader(ring_buffer, self.n_readers, reader_lock)

    # The writer

    def get_cached(self, key: str) -> tuple[int, int]:
        """Address and id; one more is counted, for ever. Raises `NotStoredError` (`KeyError`)."""
        return self.writer.get_cached(checked_key(key))

    def get_signature(self, key: str) -> list[int]:
        """Of every handle to the chunk of this key. Raises `NotStoredError`, `NotInEraError` before 0.33.0."""
        self._require("get_signature", StoreEra.STORE_2026_11)
        self.writer.identity_of(checked_key(key))
        return list(self._signed(key, *self.writer.key_index[key]))

    def release_touches(self) -> None:
        """What was touched and not looked up is not protected any longer. Raises `NotInEraError` before 0.33.0."""
        self._require("release_touches", StoreEra.STORE_2026_11)
        self.writer.protected.clear()

    def free_unused(self) -> tuple[int, ...]:
        """Chunks that readers have counted often enough go, the oldest first, up to twice the largest item. Their ids.

        Raises `NotStoredError` (`KeyError`) at the chunk that 0.11.0 has from the start, and that is none (C-SHM-1).
        """
        return self.writer.free_unused()

    def default_is_free_check(self, id: int, buf: memoryview) -> bool:  # noqa: A002, ARG002  # the field's signature
        """Whether readers have counted often enough, where the chunk of this id is. Raises `NotStoredError`."""
        return self.writer.may_go(whole("id", id, InvalidArgumentError, least=0))

    # Readers, and both

    def get(
        self, address: int, monotonic_id: int, signature: Sequence[int] | None = None, key: str | None = None
    ) -> Any:
        """The item there, as a copy, if it has this id. A reader with a lock counts once more in the chunk.

        From 0.33.0 on a reader brings signature and key. Raises `StaleHandleError`, `ForgedHandleError` (`ValueError`).
        """
        if not self.is_writer and self.era is StoreEra.STORE_2026_11:
            self.verify_signature(key, address, monotonic_id, signature)
        self._check_place(address, monotonic_id)
        if self.is_writer:
            return self._own(address, monotonic_id)
        with self.reader.reading(address, monotonic_id) as payload:
            return self.ser_de.deserialize(memoryview(bytearray(payload)))

    def _own(self, address: int, monotonic_id: int) -> Any:
        """The writer's look, which counts only where it has the lock of the readers."""
        key = self.writer.id_index.get(monotonic_id)
        if key is None or self.ring_buffer.metadata[monotonic_id] != address:
            raise NotStoredError(no_item_there(address, monotonic_id))
        with self.ring_buffer.access_buf(address) as (data, _):
            value = self.ser_de.deserialize(memoryview(bytearray(data[COUNT_BYTES:])))
        if self._reader_lock is not None:
            self.writer.count_as_reader(address, self._reader_lock)
        return value

    def touch(self, key: str, address: int = 0, monotonic_id: int = 0, signature: Sequence[int] | None = None) -> None:
        """What an era calls a touch, which 0.11.0 does not have.

        Until 0.20.2 the writer counts as if the item had been looked up, and a reader if it looks read already. From
        0.33.0 on the writer protects what is stored, and a reader looks at signature and id.

        Raises `NotInEraError` for 0.11.0; `StaleHandleError`, `ForgedHandleError` (`ValueError`) at a reader of 0.33.0.
        """
        self._require("touch", StoreEra.STORE_2025_12, StoreEra.STORE_2026_11)
        checked_key(key)
        if not self.is_writer and self.era is StoreEra.STORE_2026_11:
            self.verify_signature(key, address, monotonic_id, signature)
        self._check_place(address, monotonic_id)
        if self.is_writer:
            self._touch_stored(key)
        elif self.era is StoreEra.STORE_2025_12:
            self.reader.touch(address)
        else:
            self.reader.look(address, monotonic_id)

    def _touch_stored(self, key: str) -> None:
        if key not in self.writer.key_index:
            return
        identity = self.writer.identity_of(key)
        if self.era is StoreEra.STORE_2025_12:
            self.writer.issue_once_more(identity)
        else:
            self.writer.protected.add(identity)

    def verify_signature(
        self, key: str | None, address: int, monotonic_id: int, signature: Sequence[int] | None
    ) -> None:
        """Raises `ForgedHandleError` unless the handle was signed for this key; `NotInEraError` before 0.33.0.

        At the writer its chunk must also be what is handed out now.
        """
        self._require("verify_signature", StoreEra.STORE_2026_11)
        if not isinstance(key, str) or not isinstance(signature, Sequence) or len(signature) != SIGNATURE:
            raise ForgedHandleError(f"Invalid SHM handle signature: a handle needs a key and {SIGNATURE} bytes")
        for name, number in (("address", address), ("monotonic_id", monotonic_id)):
            whole(f"Invalid SHM handle signature: {name}", number, ForgedHandleError, least=0)
        try:
            given = bytes(signature)
        except (TypeError, ValueError):
            raise ForgedHandleError("Invalid SHM handle signature: its parts must be integers from 0 to 255") from None
        if not hmac.compare_digest(given, self._signed(key, address, monotonic_id)):
            raise ForgedHandleError(f"Invalid SHM handle signature: the writer issued no such handle for '{key}'")
        if self.is_writer and self.writer.key_index.get(key) != (address, monotonic_id):
            raise ForgedHandleError(f"Invalid SHM handle signature: another item, or none, is handed out for '{key}'")

    def _signed(self, key: str, address: int, identity: int) -> bytes:
        secret, said = self.ring_buffer.segment.block.secret, f"{address} {identity} {key}".encode()
        return hashlib.blake2b(said, digest_size=SIGNATURE, key=secret).digest()

    def _check_place(self, address: object, identity: object) -> None:
        """Raises `ForgedHandleError` for what can be no address and no id."""
        whole("address", address, ForgedHandleError, least=self.ring_buffer.LEAST_ADDRESS)
        whole("monotonic_id", identity, ForgedHandleError, least=0)
        assert isinstance(address, int)
        if address % self.ring_buffer.data_buffer_size > self.ring_buffer.data_buffer_size - self.ring_buffer.MD_SIZE:
            raise StaleHandleError(f"no chunk begins at the address {address}")

    def _require(self, call: str, *eras: StoreEra) -> None:
        if self.era not in eras:
            raise NotInEraError(f"the store of {self.era.name} has no {call}")

    def clear(self) -> None:
        """The writer forgets every chunk, handed out or not; a reader has nothing to clear."""
        if self._writer is not None:
            self._writer.clear()

    def close(self) -> None:
        """Give the segment back; the writer removes it. To close twice does nothing."""
        self.ring_buffer.close()

    def handle(self) -> ReleasedStorageHandle:
        """What a reader in another process is made of."""
        return ReleasedStorageHandle(
            self.max_object_size,
            self.n_readers,
            self.ring_buffer.handle(),
            self.serde_class,
            self._reader_lock,
            self.era,
        )

    @staticmethod
    def create_from_handle(handle: ReleasedStorageHandle) -> ReleasedObjectStorage:
        """A reader. Raises `NoWriterYetError`, `NoLockError`."""
        if not isinstance(handle, ReleasedStorageHandle):
            raise InvalidArgumentError(f"handle must be one of a released store, not {type(handle).__name__}")
        ring = ReleasedRingBuffer(*handle.ring_buffer_handle, era=RINGS[handle.era.value])
        try:
            return ReleasedObjectStorage(
                handle.max_object_size, handle.n_readers, ring, handle.serde_class, handle.reader_lock, era=handle.era
            )
        except BaseException:
            ring.close()
            raise
