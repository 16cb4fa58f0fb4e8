"""P0's side: the books and the only hand that writes chunks. As `writer` and `accounting` of the specification.

*The order of publication.* To put an item: (1) the headers of chunks that are gone and in the way are struck out; (2)
barrier; (3) header, metadata and data; (4) barrier; (5) the prefix, which makes the chunk one; (6) barrier; (7) only
now is there a handle. The first two are the ring's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from cacheimpl.object_store.errors import AlreadyStoredError, NotStoredError, StoreFullError, TooLargeError
from cacheimpl.object_store.handles import LAPS, PREFIX, Chunk, Handle, prefix_of
from cacheimpl.object_store.tickets import Tickets
from cacheimpl.ring.buffer import SingleWriterShmRingBuffer
from cacheimpl.ring.errors import NotTheWriterError

ALIGNMENT = 64
"""A chunk has a multiple of so many bytes, header included, so that all begin at one."""

Fill = Callable[[memoryview], None]


class Writer:
    """Which items there are, and which handles to them are out."""

    def __init__(self, ring: SingleWriterShmRingBuffer, max_object_size: int, readers: int) -> None:
        segment = ring.segment
        segment.agree_on_readers(readers, writes=True)
        self._ring, self._largest = ring, max_object_size
        self.tickets = Tickets([segment.cells(reader) for reader in range(readers)])
        self.key_index: dict[str, tuple[int, int]] = {}
        """What is handed out: key to address and id."""
        self.id_index: dict[int, str] = {}
        """Live chunks, and the key of each."""
        self.issued: dict[int, int] = {}
        """Live chunks, and how many handles to each are out."""
        self.epochs: dict[int, int] = {}
        self.withdrawn: set[int] = set()
        """Live chunks that are not handed out any more."""
        self.protected: set[int] = set()
        """Live chunks that were touched and not looked up yet."""
        self.epoch = segment.block.generation * LAPS
        self._last: dict[str, Handle] = {}

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

    def get_cached(self, key: str) -> Handle:
        """One handle more is out. Raises `NotStoredError`, `StoreFullError`."""
        if key not in self.key_index:
            raise NotStoredError(f"nothing is stored under the key '{key}'")
        if self.tickets.full:
            self.settle_acknowledged()
        self._require_cell()
        return self._issue(key, *self.key_index[key])

    def last_handle(self, key: str) -> Handle:
        """The handle that was issued last for this key. Raises `NotStoredError`."""
        if key not in self._last:
            raise NotStoredError(f"no handle is out for the key '{key}'")
        return self._last[key]

    def is_out(self, handle: Handle) -> bool:
        """Whether the handle is neither acknowledged by all nor revoked."""
        same = self.id_index.get(handle.identity) == handle.key and self.epochs.get(handle.identity) == handle.epoch
        return same and self.tickets.chunk(handle.number) == handle.identity

    def _require_cell(self) -> None:
        if self.tickets.full:
            raise StoreFullError(f"{len(self.tickets)} handles are out, and there are no more cells")

    def _issue(self, key: str, address: int, identity: int) -> Handle:
        """The handle and its ticket come into being together (SHM-3)."""
        cell, number = self.tickets.issue(identity)
        self.issued[identity] += 1
        self.protected.discard(identity)
        self._last[key] = Handle(key, address, identity, self.epochs[identity], cell, number)
        return self._last[key]

    # Storing

    def put(self, key: str, data_bytes: int, metadata_bytes: int, fill: Fill) -> Handle:
        """Store an item of so many bytes, which `fill` writes behind the prefix, and issue a handle.

        Raises `AlreadyStoredError`, `TooLargeError`, `StoreFullError`; after the last, chunks that nobody needs may be
        gone, and the one in the way is not handed out any more (SHM-7, SHM-8).
        """
        if not self._ring.is_writer or not self._ring.segment.is_usable:
            raise NotTheWriterError("only the process that created the store writes it, until it is closed")
        if key in self.key_index:
            self.refuse_twice(key)
        header, exact = self._ring.MD_SIZE, PREFIX.size + metadata_bytes + data_bytes
        total = -(-(header + exact) // ALIGNMENT) * ALIGNMENT
        if exact > self._largest or total > self._ring.data_buffer_size:
            raise TooLargeError(f"an item of {exact} bytes exceeds {self._largest} bytes, or the ring")
        self.settle_acknowledged()
        self._make_room(total)
        if not self._ring.placement.has_room(total):
            self._drain()
            raise StoreFullError("somebody needs the oldest chunk, so there is no room for the item")
        self._require_cell()
        handle = self._written(key, total, data_bytes, metadata_bytes, fill)
        self._enter(handle)
        return self._issue(key, handle.address, handle.identity)

    def refuse_twice(self, key: str) -> NoReturn:
        """Raises `AlreadyStoredError`."""
        raise AlreadyStoredError(f"Key '{key}' already exists in the storage.")

    def payload(self, identity: int) -> memoryview:
        """Metadata and data of a live chunk, where they lie."""
        with self._ring.access_buf(self._ring.metadata[identity]) as (chunk, _):
            prefix = Chunk(*PREFIX.unpack_from(chunk)[:5])
            return chunk[PREFIX.size : PREFIX.size + prefix.metadata_bytes + prefix.data_bytes]

    def _written(self, key: str, total: int, data_bytes: int, metadata_bytes: int, fill: Fill) -> Handle:
        """The chunk, in the order of publication; not entered into any index yet."""
        ring, end = self._ring, self._ring.placement.end
        address, identity = ring.allocate_buf(total - ring.MD_SIZE)
        epoch = self.epoch + 1 if identity == 0 else self.epoch
        handle = Handle(key, address, identity, epoch, 0, 0)
        try:
            with ring.access_buf(address) as (chunk, _):
                fill(chunk[: PREFIX.size + metadata_bytes + data_bytes])
                ring.segment.barrier()
                place = address % ring.data_buffer_size
                secret = ring.segment.block.secret
                chunk[: PREFIX.size] = prefix_of(secret, handle, place, data_bytes, metadata_bytes)
            ring.segment.barrier()
        except BaseException:
            ring.strike_out(address)
            ring.placement.give_up_newest(end)
            raise
        return handle

    def _enter(self, handle: Handle) -> None:
        """A chunk is in every index from the same step on (SHM-4); the epoch goes up where ids begin again (SHM-5)."""
        identity, self.epoch = handle.identity, handle.epoch
        self.key_index[handle.key] = (handle.address, identity)
        self.id_index[identity] = handle.key
        self.epochs[identity] = handle.epoch
        self.issued[identity] = 0

    # Settling and freeing

    def settle(self, number: int) -> bool:
        """A handle that all acknowledged, or that is revoked, does not count any more (SHM-3, SHM-11)."""
        identity = self.tickets.settle(number)
        if identity is not None:
            self.issued[identity] -= 1
        return identity is not None

    def settle_acknowledged(self) -> None:
        """Every handle that all readers have acknowledged, each in its own cell."""
        for number in self.tickets.acknowledged():
            self.settle(number)

    def may_go(self, identity: int) -> bool:
        """No handle to the chunk is out, and none is about to be issued (SHM-2)."""
        return self.issued[identity] == 0 and identity not in self.protected

    def free_unused(self) -> tuple[int, ...]:
        """Chunks that nobody needs go, from the oldest on (SHM-6); returns their ids."""
        self.settle_acknowledged()
        gone = []
        while self._oldest_may_go():
            gone.append(self._drop_oldest())
        return tuple(gone)

    def clear(self) -> None:
        """Nothing is found any more; whoever has a handle still reads what it was issued for (X-4)."""
        for key in tuple(self.key_index):
            self._withdraw(key)
        self.protected.clear()
        self.free_unused()

    def _make_room(self, total: int) -> None:
        """Chunks go until there is room or one may not go (SHM-8)."""
        while not self._ring.placement.has_room(total) and self._oldest_may_go():
            self._drop_oldest()

    def _oldest_may_go(self) -> bool:
        oldest = self._ring.placement.oldest
        return oldest is not None and self.may_go(oldest)

    def _drop_oldest(self) -> int:
        """The ring has one chunk less, and so has every index (SHM-4, SHM-6)."""
        identity = self._ring.placement.id_start
        self._ring.drop_oldest()
        key = self.id_index.pop(identity)
        if self.key_index.get(key, (0, -1))[1] == identity:
            del self.key_index[key]
            self._last.pop(key, None)
        del self.issued[identity], self.epochs[identity]
        self.withdrawn.discard(identity)
        self.protected.discard(identity)
        return identity

    def _drain(self) -> None:
        """The oldest chunk stands in the way; nobody gets another handle to it, so it will go (SHM-8)."""
        oldest = self._ring.placement.oldest
        if oldest is not None and oldest not in self.protected:
            key = self.id_index[oldest]
            if self.key_index.get(key, (0, -1))[1] == oldest:
                self._withdraw(key)

    def _withdraw(self, key: str) -> None:
        """Not handed out any more; whoever has a handle may still read it."""
        _, identity = self.key_index.pop(key)
        self._last.pop(key, None)
        self.withdrawn.add(identity)
