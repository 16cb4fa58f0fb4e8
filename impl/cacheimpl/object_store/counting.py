"""The accounts of released stores: readers count in the chunk itself, and P0 compares that with what it has issued.

A chunk is `[4 bytes id][4 bytes size][4 bytes count][description][data]`. Nothing is ever revoked: a handle that nobody
reads keeps its chunk for ever (C-SHM-4), and counts only grow (C-SHM-15). As `era_counting` of the specification.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

from cacheimpl.object_store.errors import (
    AlreadyStoredError,
    NotStoredError,
    StaleHandleError,
    StoreFullError,
)
from cacheimpl.object_store.serde import Serialized
from cacheimpl.object_store.writing import Copy, refuse_large
from cacheimpl.ring.eras import ReleasedRingBuffer, RingEra
from cacheimpl.ring.errors import NotTheWriterError, RingFullError

COUNT_BYTES = 4
"""Of the count, which comes first in a chunk."""


def place_of_count(ring: ReleasedRingBuffer, address: int) -> slice:
    """Where the count of a chunk at this address is."""
    first = address % ring.data_buffer_size + ring.MD_SIZE
    return slice(first, first + COUNT_BYTES)


def count_at(ring: ReleasedRingBuffer, address: int) -> int:
    """The number in the place of the count, which any process may have written."""
    return ring.byte2int(ring.segment.data[place_of_count(ring, address)])


def count_once_more(ring: ReleasedRingBuffer, address: int) -> None:
    """One is added to what stands in the place of the count, be that a count or not (C-SHM-10, C-SHM-14)."""
    ring.segment.data[place_of_count(ring, address)] = ring.int2byte(count_at(ring, address) + 1)


class CountingWriter:
    """P0's books."""

    def __init__(self, ring: ReleasedRingBuffer, max_object_size: int, readers: int) -> None:
        ring.segment.agree_on_readers(readers, writes=True)
        self._ring, self._largest, self._readers = ring, max_object_size, readers
        self.key_index: dict[str, tuple[int, int]] = {}
        self.id_index: dict[int, str] = {}
        self.issued: dict[int, int] = {}
        """Live chunks, and how often a handle to each was given out: never fewer."""
        self.protected: set[int] = set()
        """Live chunks that were touched and not looked up yet; 0.33.0 has them."""

    def issue_once_more(self, identity: int) -> None:
        """One more is counted, and nothing is ever taken back."""
        self.issued[identity] += 1
        self.protected.discard(identity)

    def identity_of(self, key: str) -> int:
        """The chunk of a key. Raises `NotStoredError`."""
        if key not in self.key_index:
            raise NotStoredError(f"nothing is stored under the key '{key}'")
        return self.key_index[key][1]

    def get_cached(self, key: str) -> tuple[int, int]:
        """A hit: address and id. Raises `NotStoredError`."""
        self.issue_once_more(self.identity_of(key))
        return self.key_index[key]

    def put(self, key: str, item: Serialized, copy: Copy) -> tuple[int, int]:
        """Store an item: address and id.

        Where there is no room, what may go goes once, and it is tried once more.
        Raises `AlreadyStoredError`, `TooLargeError`, `StoreFullError`; after the last, chunks may be gone.
        """
        if not self._ring.is_writer or not self._ring.segment.is_usable:
            raise NotTheWriterError("only the process that created the store writes it, until it is closed")
        if key in self.key_index:
            self.refuse_twice(key)
        data, data_bytes, metadata, metadata_bytes = item
        size = COUNT_BYTES + metadata_bytes + data_bytes
        if size > self._largest or size + self._ring.MD_SIZE > self._ring.data_buffer_size:
            refuse_large(size, self._largest, self._ring.data_buffer_size)
        scratch = bytearray(size)
        # What cannot be written is refused before anything changes.
        copy(data, data_bytes, metadata, metadata_bytes, memoryview(scratch))
        address, identity = self._allocated(size)
        self.key_index[key], self.id_index[identity] = (address, identity), key
        self.issued[identity] = 1
        self.protected.discard(identity)
        first = place_of_count(self._ring, address).start
        self._ring.segment.data[first : first + size] = scratch
        return address, identity

    def _allocated(self, size: int) -> tuple[int, int]:
        try:
            return self._ring.allocate_buf(size)
        except RingFullError:
            self.free_unused()
        try:
            return self._ring.allocate_buf(size)
        except RingFullError:
            raise StoreFullError("readers have not counted the oldest chunk as often as P0 has") from None

    def refuse_twice(self, key: str) -> NoReturn:
        """Raises `AlreadyStoredError`."""
        raise AlreadyStoredError(f"Key '{key}' already exists in the storage.")

    def may_go(self, identity: int) -> bool:
        """Readers have counted as often as P0, or oftener (C-SHM-2), and the chunk is not protected.

        Raises `NotStoredError` for a chunk that is none: 0.11.0 has one from the start (C-SHM-1).
        """
        if identity not in self.issued:
            raise NotStoredError(f"no chunk has the id {identity}")
        counted = count_at(self._ring, self._ring.metadata[identity])
        return counted >= self.issued[identity] * self._readers and identity not in self.protected

    def free_unused(self) -> tuple[int, ...]:
        """Chunks go, the oldest first, until one may not or twice the largest item is free (C-SHM-13). Their ids."""
        live = tuple(self._ring.metadata)
        self._ring.free_buf(lambda identity, data: self.may_go(identity), 2 * self._largest)
        gone = tuple(identity for identity in live if identity not in self._ring.metadata)
        for identity in gone:
            key = self.id_index.pop(identity)
            if self.key_index.get(key, (0, -1))[1] == identity:
                del self.key_index[key]
            del self.issued[identity]
            self.protected.discard(identity)
        return gone

    def count_as_reader(self, address: int, lock: Any) -> None:
        """One is counted in a live chunk, while no reader counts: a writer that has the readers' lock does it."""
        with lock:
            count_once_more(self._ring, address)

    def clear(self) -> None:
        """Every chunk goes, handed out or not (C-SHM-12); until 0.20.2 ids begin at 0 again (C-SHM-7)."""
        self._ring.clear()
        self.key_index.clear()
        self.id_index.clear()
        self.issued.clear()
        self.protected.clear()


class Found(NamedTuple):
    """A chunk of the id that was looked for."""

    address: int
    payload: memoryview
    """Description and data, as they lie in the memory."""


class CountingReader:
    """A worker's side, which writes the count."""

    def __init__(self, ring: ReleasedRingBuffer, readers: int, lock: Any) -> None:
        ring.segment.agree_on_readers(readers, writes=False)
        self._ring, self._readers, self._lock = ring, readers, lock

    def look(self, address: int, identity: int) -> Found:
        """The chunk there, if it has that id: nothing else is compared (C-SHM-7). Raises `StaleHandleError`."""
        with self._ring.access_buf(address) as (_, (found, size)):
            if found != identity:
                raise StaleHandleError(f"Data for address:id '{address}:{identity}' has been modified or is invalid.")
            place = address % self._ring.data_buffer_size
            first = place + self._ring.MD_SIZE + COUNT_BYTES
            return Found(address, self._ring.segment.data[first : place + size])

    def acknowledge(self, address: int) -> None:
        """One is counted in the chunk that is there now, whichever it is (C-SHM-14), while no other reader counts."""
        with self._lock:
            count_once_more(self._ring, address)

    @contextmanager
    def reading(self, address: int, identity: int) -> Iterator[memoryview]:
        """Description and data where they lie; counted when the block ends, and not if it fails."""
        found = self.look(address, identity)
        yield found.payload
        self.acknowledge(address)

    def touch(self, address: int) -> None:
        """0.12.0 to 0.20.2: counted if the count looks as if the item had been read before (C-SHM-2, C-SHM-10)."""
        with self._ring.access_buf(address), self._lock:
            if count_at(self._ring, address) >= self._readers:
                count_once_more(self._ring, address)


RINGS = {era.value: era for era in RingEra}
"""The ring that the store of an era is on, by tag."""
