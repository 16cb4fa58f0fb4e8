"""P0's side: the books, and all writing of chunks. As `writer` and `accounting` of the specification.

*The order of publication.* A put (1) strikes out the headers of freed chunks that are in the way; (2) makes a barrier;
(3) writes header, metadata and data, and last the prefix, which makes the bytes a chunk; (4) makes a barrier; (5) only
now issues a handle. The first two are the ring's. The stores of (3) need no order among themselves: a reader without a
handle looks for no prefix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from cacheimpl.object_store.errors import AlreadyStoredError, NotStoredError, StoreFullError, TooLargeError
from cacheimpl.object_store.handles import LAPS, PREFIX, PREFIX_BYTES, Handle, Seals
from cacheimpl.object_store.serde import Buffer, Serialized
from cacheimpl.object_store.tickets import Tickets
from cacheimpl.ring.buffer import SingleWriterShmRingBuffer
from cacheimpl.ring.errors import NotTheWriterError
from cacheimpl.ring.headers import LARGEST_CHUNK

ALIGNMENT = 64
"""A chunk has a multiple of so many bytes, header included, so that all begin at one."""

Copy = Callable[[Buffer | list[Buffer], int, bytes, int, memoryview], None]


def refuse_large(size: int, largest: int, ring_bytes: int) -> NoReturn:
    """Raises `TooLargeError` for an item of this size. The error names the limit: the largest item, or the ring."""
    if size > largest:
        raise TooLargeError(
            f"an item of {size} bytes exceeds max object size (max_object_size), which is {largest} bytes"
        )
    raise TooLargeError(f"an item of {size} bytes, with what stands before it, exceeds the ring of {ring_bytes} bytes")


class Writer:
    """Which items there are, and which handles to them are out."""

    def __init__(self, ring: SingleWriterShmRingBuffer, max_object_size: int, readers: int) -> None:
        segment = ring.segment
        segment.agree_on_readers(readers, writes=True)
        self._ring, self._segment, self._headers, self._placement = ring, segment, ring.headers, ring.placement
        self._largest, self._most = max_object_size, min(ring.data_buffer_size, LARGEST_CHUNK)
        self._header_bytes = ring.MD_SIZE
        self.tickets = Tickets([segment.cells(reader) for reader in range(readers)])
        self.key_index: dict[str, tuple[int, int]] = {}
        """What is handed out: key to address and id."""
        self.id_index: dict[int, str] = {}
        """Live chunks, and the key of each."""
        self.issued = self.tickets.counts
        """Live chunks, and how many handles to each are out."""
        self.epochs: dict[int, int] = {}
        self.withdrawn: set[int] = set()
        """Live chunks that are not handed out any more."""
        self.protected: set[int] = set()
        """Live chunks that were touched and not looked up yet."""
        self.epoch = segment.block.generation * LAPS
        self.seals = Seals(segment.block.secret)
        self._last: dict[str, tuple[int, int]] = {}
        """What is handed out: cell and number of the last handle."""

    # Handing out

    def touch(self, key: str) -> bool:
        """Protect what is stored under the key until it is looked up or released; no count changes."""
        if key not in self.key_index:
            return False
        self.protected.add(self.key_index[key][1])
        return True

    def release(self) -> None:
        """No protection outlives the walk for which it was asked (SHM-8)."""
        self.protected.clear()

    def get_cached(self, key: str) -> tuple[int, int]:
        """One handle more is out: its address and id. Raises `NotStoredError`, `StoreFullError`."""
        if key not in self.key_index:
            raise NotStoredError(f"nothing is stored under the key '{key}'")
        if self.tickets.full:
            self.tickets.settle_acknowledged()
        if self.tickets.full:
            self._refuse_without_cell()
        place = self.key_index[key]
        self._issue(key, place[1])
        return place

    def signature(self, key: str) -> bytes:
        """Of the handle that was issued last for this key. Raises `NotStoredError`."""
        if key not in self._last:
            raise NotStoredError(f"no handle is out for the key '{key}'")
        address, identity = self.key_index[key]
        cell, number = self._last[key]
        return self.seals.signature(key, address, identity, self.epochs[identity], cell, number)

    def is_out(self, handle: Handle) -> bool:
        """Whether the handle is neither acknowledged by all nor revoked."""
        same = self.id_index.get(handle.identity) == handle.key and self.epochs.get(handle.identity) == handle.epoch
        return same and self.tickets.chunk(handle.number) == handle.identity

    def _refuse_without_cell(self) -> NoReturn:
        raise StoreFullError(f"{len(self.tickets)} handles are out, and there are no more cells")

    def _issue(self, key: str, identity: int) -> None:
        """The handle and its ticket come into being together (SHM-3)."""
        self._last[key] = self.tickets.issue(identity)
        self.protected.discard(identity)

    # Storing

    def put(self, key: str, item: Serialized, copy: Copy) -> tuple[int, int]:
        """Store an item as `serialize` gives it and issue a handle: address and id.

        `copy` is called with the four of the item, and with the memory from the prefix on, behind which it writes.
        Raises `AlreadyStoredError`, `TooLargeError`, `StoreFullError`; after the last, unreferenced chunks may be
        gone, and the one in the way is not handed out any more (SHM-7, SHM-8).
        """
        if not self._segment.is_usable:
            raise NotTheWriterError("only the process that created the store writes it, until it is closed")
        if key in self.key_index:
            self.refuse_twice(key)
        _, data_bytes, _, metadata_bytes = item
        exact = PREFIX_BYTES + metadata_bytes + data_bytes
        total = -(-(self._header_bytes + exact) // ALIGNMENT) * ALIGNMENT
        if exact > self._largest or total > self._most:
            refuse_large(exact, self._largest, self._most)
        self.tickets.settle_acknowledged()
        address = self._make_room(total)
        if address is None:
            self._drain()
            raise StoreFullError("the oldest chunk is in use, so there is no room for the item")
        if self.tickets.full:
            self._refuse_without_cell()
        identity = self._written(key, address, total, item, copy)
        if identity == 0:  # SHM-5: the epoch goes up where ids begin again
            self.epoch += 1
        # SHM-4: the chunk is in every index from the same step on
        self.key_index[key] = handle = (address, identity)
        self.id_index[identity], self.epochs[identity], self.issued[identity] = key, self.epoch, 0
        self._issue(key, identity)
        return handle

    def refuse_twice(self, key: str) -> NoReturn:
        """Raises `AlreadyStoredError`."""
        raise AlreadyStoredError(f"Key '{key}' already exists in the storage.")

    def payload(self, identity: int) -> memoryview:
        """Metadata and data of a live chunk, where they lie."""
        with self._ring.access_buf(self._ring.metadata[identity]) as (chunk, _):
            _, _, data_bytes, metadata_bytes, _ = PREFIX.unpack_from(chunk)
            return chunk[PREFIX_BYTES : PREFIX_BYTES + metadata_bytes + data_bytes]

    def _written(self, key: str, address: int, total: int, item: Serialized, copy: Copy) -> int:
        """The chunk, in the order of publication; not entered into any index yet. Its id."""
        segment, placement = self._segment, self._placement
        end, place = placement.end, address % placement.capacity
        identity = placement.take(address, total)
        epoch = self.epoch + 1 if identity == 0 else self.epoch
        first = place + self._header_bytes
        data, data_bytes, metadata, metadata_bytes = item
        try:
            self._headers.begin(place, identity, total)
            view = segment.data[first : first + PREFIX_BYTES + metadata_bytes + data_bytes]
            copy(data, data_bytes, metadata, metadata_bytes, view)
            tag = self.seals.tag(key, place, identity, epoch, data_bytes, metadata_bytes)
            PREFIX.pack_into(segment.data, first, epoch, tag, data_bytes, metadata_bytes, 0)
            segment.barrier()
        except BaseException:
            placement.give_up_newest(end)
            self._headers.strike_out(place)
            raise
        return identity

    # Settling and freeing

    def may_go(self, identity: int) -> bool:
        """No handle to the chunk is out, and none is about to be issued (SHM-2)."""
        return self.issued[identity] == 0 and identity not in self.protected

    def free_unused(self) -> tuple[int, ...]:
        """Free unreferenced chunks, the oldest first, up to the first referenced one (SHM-6); returns their ids."""
        self.tickets.settle_acknowledged()
        gone = []
        while self._oldest_may_go():
            gone.append(self._drop_oldest())
        return tuple(gone)

    def clear(self) -> None:
        """Hand nothing out any more; a reader with a handle still reads its chunk (X-4)."""
        for key in tuple(self.key_index):
            self._withdraw(key)
        self.protected.clear()
        self.free_unused()

    def forget(self, key: str) -> None:
        """Hand this item out no more; a reader with a handle still reads it. Does nothing if it is not stored."""
        if key in self.key_index:
            self.protected.discard(self.key_index[key][1])
            self._withdraw(key)

    def _make_room(self, total: int) -> int | None:
        """Chunks go until there is room, whose address it returns, or one may not go (SHM-8)."""
        while (address := self._placement.address_for(total)) is None and self._oldest_may_go():
            self._drop_oldest()
        return address

    def _oldest_may_go(self) -> bool:
        oldest = self._placement.id_start
        return oldest in self._placement.starts and self.may_go(oldest)

    def _drop_oldest(self) -> int:
        """The ring has one chunk less, and so has every index (SHM-4, SHM-6)."""
        identity = self._placement.id_start
        self._headers.leave_oldest(self._placement)
        key = self.id_index.pop(identity)
        if self.key_index.get(key, (0, -1))[1] == identity:
            del self.key_index[key]
            self._last.pop(key, None)
        del self.issued[identity], self.epochs[identity]
        self.withdrawn.discard(identity)
        self.protected.discard(identity)
        return identity

    def _drain(self) -> None:
        """Issue no more handles to the oldest chunk, which blocks a put: so it becomes free (SHM-8)."""
        oldest = self._placement.oldest
        if oldest is not None and oldest not in self.protected:
            key = self.id_index[oldest]
            if self.key_index.get(key, (0, -1))[1] == oldest:
                self._withdraw(key)

    def _withdraw(self, key: str) -> None:
        """Hand the chunk out no more; a reader with a handle may still read it."""
        _, identity = self.key_index.pop(key)
        self._last.pop(key, None)
        self.withdrawn.add(identity)
