"""`SingleWriterShmObjectStorage`: the object store with the methods and attributes of the field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cacheimpl.counts import whole
from cacheimpl.object_store.common import ObjectStorage, checked_key, no_item_there
from cacheimpl.object_store.errors import (
    ForgedHandleError,
    InvalidArgumentError,
    NoLockError,
    NotStoredError,
    SerdeError,
)
from cacheimpl.object_store.handles import PREFIX, Handle, ticket_of
from cacheimpl.object_store.reading import Reader
from cacheimpl.object_store.serde import MsgpackSerde, ObjectSerde
from cacheimpl.object_store.writing import Writer
from cacheimpl.ring.buffer import SingleWriterShmRingBuffer


@dataclass
class ShmObjectStorageHandle:
    """What another process makes its reader of: `SingleWriterShmObjectStorage.create_from_handle`."""

    max_object_size: int
    n_readers: int
    ring_buffer_handle: tuple[int, str]
    serde_class: type[ObjectSerde]
    reader_lock: Any


class SingleWriterShmObjectStorage(ObjectStorage[Writer, Reader]):
    """Items in shared memory: one process puts them there, `n_readers` processes read each handle once.

    Normatively, so not as in every release: handles are counted while they are out, and not for ever; readers
    acknowledge in cells of their own; the frontend revokes the handles of a request that ends (`revoke`); clearing
    takes no chunk away from a reader. Whether this is the writer is what its ring says.
    """

    flag_bytes = PREFIX.size

    def __init__(
        self,
        max_object_size: int,
        n_readers: int,
        ring_buffer: SingleWriterShmRingBuffer,
        serde_class: type[ObjectSerde] = MsgpackSerde,
        reader_lock: Any = None,
        *,
        reader: int | None = None,
    ) -> None:
        """`max_object_size` in bytes, with what the store writes before an item (`flag_bytes`) and its description.

        `reader` says which of the readers this process is (0 to `n_readers` - 1); a reader that does not say it takes
        the first number that no living process has, and brings a lock as the field's callers do. The lock is kept and
        never taken. Raises `NoLockError`, `ReaderTakenError`.
        """
        super().__init__(max_object_size, n_readers, ring_buffer, serde_class, reader_lock)
        if reader is not None:
            reader = whole(
                "reader, the number of this reader,", reader, InvalidArgumentError, least=0, most=self.n_readers - 1
            )
        if self.is_writer:
            self._writer = Writer(ring_buffer, self.max_object_size, self.n_readers)
        elif reader_lock is None and reader is None:
            raise NoLockError("a reader says which one it is (`reader`), or brings a lock (`reader_lock`)")
        else:
            self._reader = Reader(ring_buffer, self.n_readers, reader)

    # The writer

    def get_cached(self, key: str) -> tuple[int, int]:
        """One handle more is out: address and id. Raises `NotStoredError` (`KeyError`), `StoreFullError`."""
        return self.writer.get_cached(checked_key(key))

    def get_signature(self, key: str) -> list[int]:
        """The signature of the handle that was issued last for this key. Raises `NotStoredError`."""
        return list(self.writer.signature(checked_key(key)))

    def revoke(self, address: int, monotonic_id: int, signature: Sequence[int], key: str) -> bool:
        """The handle's request is over: it keeps its chunk no longer (SHM-8). Whether it was still out.

        To be called for every handle of every request that ends, however it ends. Raises `ForgedHandleError`.
        """
        handle = self._signed_here(key, address, monotonic_id, signature)
        return self.writer.is_out(handle) and self.writer.tickets.settle(handle.number)

    def release_touches(self) -> None:
        """What was touched and not looked up is not protected any longer."""
        self.writer.release()

    def forget(self, key: str) -> None:
        """Hand this item out no more; a reader with a handle still reads it. Does nothing if it is not stored."""
        self.writer.forget(checked_key(key))

    def free_unused(self) -> tuple[int, ...]:
        """Chunks to which no handle is out go, the oldest first. Returns their ids."""
        return self.writer.free_unused()

    def default_is_free_check(self, id: int, buf: memoryview) -> bool:  # noqa: A002, ARG002  # the field's signature
        """Whether the chunk may go. What is in it plays no part."""
        if whole("id", id, InvalidArgumentError, least=0) not in self.writer.id_index:
            raise NotStoredError(f"no chunk has the id {id}")
        self.writer.tickets.settle_acknowledged()
        return self.writer.may_go(id)

    def readers_alive(self) -> tuple[bool, ...]:
        """For each reader whether its process lives: where one died, P1 ends what it was sent, and P0 revokes."""
        return self.ring_buffer.segment.readers_alive(self.n_readers)

    # Readers, and both

    def get(
        self, address: int, monotonic_id: int, signature: Sequence[int] | None = None, key: str | None = None
    ) -> Any:
        """The item that a handle names, as a copy; the handle is acknowledged by this reader.

        The writer may look without a signature, and acknowledges nothing. Raises `StaleHandleError` and
        `ForgedHandleError` (`ValueError`).
        """
        if self.is_writer:
            return self._own(address, monotonic_id)
        reader = self.reader
        looked = reader.look(reader.verified(key, address, monotonic_id, signature))
        value = self.ser_de.deserialize(reader.copied(looked, looked.payload))
        reader.acknowledge(looked)
        return value

    @contextmanager
    def view(self, address: int, monotonic_id: int, signature: Sequence[int], key: str) -> Iterator[Any]:
        """The item where it lies, uncopied, for as long as the block lasts; then the handle is acknowledged.

        Its tensors are the shared memory: they must not be written, nor used after the block. Raises as `get` does, at
        the end of the block too; then nothing that was made of it may be used.
        """
        if not isinstance(self.ser_de, MsgpackSerde):
            raise SerdeError(f"{self.serde_class.__name__} has no views")
        handle = self.reader.verified(key, address, monotonic_id, signature)
        with self.reader.reading(handle) as looked:
            yield self.ser_de.view(self.reader.copied(looked, looked.description), looked.data)

    def touch(self, key: str, address: int = 0, monotonic_id: int = 0, signature: Sequence[int] | None = None) -> None:
        """At the writer: what is stored stays until it is looked up or released. At a reader: the handle is good.

        Raises `StaleHandleError`, `ForgedHandleError` at a reader.
        """
        if self.is_writer:
            self.writer.touch(checked_key(key))
        else:
            self.reader.look(self.reader.verified(key, address, monotonic_id, signature))

    def verify_signature(
        self, key: str | None, address: int, monotonic_id: int, signature: Sequence[int] | None
    ) -> None:
        """Raises `ForgedHandleError` unless the handle was issued for this key; at the writer, unless it is out."""
        if not self.is_writer:
            self.reader.verified(key, address, monotonic_id, signature)
        elif not self.writer.is_out(self._signed_here(key, address, monotonic_id, signature)):
            raise ForgedHandleError(f"Invalid SHM handle signature: the handle is not out any more for the key '{key}'")

    def check_signature(self, key: str, address: int, monotonic_id: int, signature: Sequence[int]) -> None:
        """Raises `ForgedHandleError` unless this writer signed the handle for this key, out or not."""
        self._signed_here(key, address, monotonic_id, signature)

    def _signed_here(self, key: object, address: object, identity: object, signature: Any) -> Handle:
        handle, signed = ticket_of(key, address, identity, signature)
        self.writer.seals.verify(handle, signed)
        return handle

    def _own(self, address: int, monotonic_id: int) -> Any:
        whole("address", address, InvalidArgumentError, least=0)
        whole("monotonic_id", monotonic_id, InvalidArgumentError, least=0)
        key = self.writer.id_index.get(monotonic_id)
        if key is None or self.ring_buffer.metadata[monotonic_id] != address:
            raise NotStoredError(no_item_there(address, monotonic_id))
        return self.ser_de.deserialize(memoryview(bytearray(self.writer.payload(monotonic_id))))

    def clear(self) -> None:
        """The writer hands nothing out any more, and frees unreferenced chunks; a reader has nothing to clear."""
        if self._writer is not None:
            self._writer.clear()

    def close(self) -> None:
        """Give the segment back; the writer removes it. To close twice does nothing."""
        if self._reader is not None:
            self._reader.close()
        self.ring_buffer.close()

    def handle(self) -> ShmObjectStorageHandle:
        """What a reader in another process is made of."""
        return ShmObjectStorageHandle(
            self.max_object_size, self.n_readers, self.ring_buffer.handle(), self.serde_class, self._reader_lock
        )

    @staticmethod
    def create_from_handle(
        handle: ShmObjectStorageHandle, *, reader: int | None = None
    ) -> SingleWriterShmObjectStorage:
        """A reader. Raises `NoWriterYetError`, `ReaderTakenError`, `NoLockError`."""
        if not isinstance(handle, ShmObjectStorageHandle):
            raise InvalidArgumentError(f"handle must be one of a store, not {type(handle).__name__}")
        ring = SingleWriterShmRingBuffer(*handle.ring_buffer_handle)
        try:
            return SingleWriterShmObjectStorage(
                handle.max_object_size, handle.n_readers, ring, handle.serde_class, handle.reader_lock, reader=reader
            )
        except BaseException:
            ring.close()
            raise
