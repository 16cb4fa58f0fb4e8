"""A worker's side: it looks, copies, looks again, and acknowledges in a row of cells that only it writes.

It writes nothing else, so it needs no lock, and can be killed at any point: a handle that it has not acknowledged stays
out until P0 hears of the end of its request and revokes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from cacheimpl.object_store.errors import ForgedHandleError, StaleHandleError
from cacheimpl.object_store.handles import PREFIX, Handle, Seals, ticket_of
from cacheimpl.ring.buffer import SingleWriterShmRingBuffer
from cacheimpl.ring.errors import NoWriterYetError
from cacheimpl.ring.headers import HEADER
from cacheimpl.ring.segment import Segment


class Attachment(NamedTuple):
    """A segment and this reader's row in it."""

    segment: Segment
    cells: memoryview
    """[handles] int64: for each cell the number of the last handle acknowledged there."""
    seals: Seals
    """Of the writer whose segment it is."""


class Looked(NamedTuple):
    """A chunk that a handle names, as it was found."""

    attachment: Attachment
    handle: Handle
    place: int
    head: bytes
    """Header and prefix."""
    description: memoryview
    """Metadata, as it lies in the memory."""
    data: memoryview
    """Data, as it lies in the memory."""
    payload: memoryview
    """Both of them."""


class Reader:
    """One reader: a number that no other living process has, and the segments that it has attached."""

    def __init__(self, ring: SingleWriterShmRingBuffer, readers: int, reader: int | None = None) -> None:
        """Raises `ReaderTakenError`."""
        self._ring, self._readers, self._wanted = ring, readers, reader
        self._current = self._joined(ring.segment)
        self._former: Attachment | None = None

    def _joined(self, segment: Segment) -> Attachment:
        segment.agree_on_readers(self._readers, writes=False)
        self._wanted = segment.claim_reader(self._readers, self._wanted)
        return Attachment(segment, segment.cells(self._wanted), Seals(segment.block.secret))

    @property
    def number(self) -> int:
        """Under which it reads."""
        assert self._wanted is not None
        return self._wanted

    @property
    def attachment(self) -> Attachment:
        """The segment that it reads at present."""
        return self._current

    def verified(self, key: object, address: object, identity: object, signature: object) -> Handle:
        """The handle, if its writer issued it. Raises `ForgedHandleError`, `StaleHandleError`."""
        handle, signed = ticket_of(key, address, identity, signature)
        self._attached(handle.generation).seals.verify(handle, signed)
        return handle

    def _attached(self, generation: int) -> Attachment:
        """The segment of the writer that issued a handle: the present one, the one before, or one that is new.

        The segment of a dead writer does not change, so its handles can be read as long as it is mapped.
        Raises `StaleHandleError`; `ReaderTakenError` where another process reads the new one under this number.
        """
        if self._current.segment.block.generation == generation:
            return self._current
        if self._former is not None and self._former.segment.block.generation == generation:
            return self._former
        try:
            found = Segment.attach(self._ring.segment.name)
        except NoWriterYetError:
            raise StaleHandleError("the writer that issued the handle is gone, and its segment with it") from None
        if found.block.generation != generation:
            found.close()
            raise StaleHandleError("another writer issued the handle, whose segment is gone")
        try:
            joined = self._joined(found)
        except BaseException:
            found.close()
            raise
        self.close()
        self._former, self._current = self._current, joined
        self._ring.segment = found
        return joined

    def look(self, handle: Handle) -> Looked:
        """The chunk that the handle names. Raises `StaleHandleError` before a byte of data is read (SHM-10)."""
        attachment = self._attached(handle.generation)
        segment, header = attachment.segment, self._ring.MD_SIZE
        place = handle.address % segment.block.data_bytes
        first = place + header + PREFIX.size
        head = segment.data[place:first].tobytes()
        if len(head) < header + PREFIX.size:
            raise ForgedHandleError("no chunk begins where the handle says")
        identity, size = HEADER.unpack_from(head)
        epoch, tag, data_bytes, metadata_bytes, zero = PREFIX.unpack_from(head, header)
        end = first + metadata_bytes + data_bytes
        named = (identity, epoch, zero) == (handle.identity, handle.epoch, 0) and end <= place + size
        seals, key = attachment.seals, handle.key
        if not named or tag != seals.tag(key, place, handle.identity, epoch, data_bytes, metadata_bytes):
            raise StaleHandleError(
                f"Data for address:id '{handle.address}:{handle.identity}' has been modified or is invalid."
            )
        middle, data = first + metadata_bytes, segment.data
        return Looked(attachment, handle, place, head, data[first:middle], data[middle:end], data[first:end])

    def copied(self, looked: Looked, part: memoryview) -> memoryview:
        """A private copy of a part of the chunk, verified: every byte of it is of the chunk that the handle names.

        Only such a copy may be decoded: until the second look, the bytes may be those of another request's item.
        Raises `StaleHandleError` (SHM-10, C-SHM-14).
        """
        copy = memoryview(bytearray(part))
        self.look_again(looked)
        return copy

    def look_again(self, looked: Looked) -> None:
        """Whether what was read meanwhile was read from that chunk. Raises `StaleHandleError` (SHM-10, C-SHM-14)."""
        looked.attachment.segment.barrier()
        data = looked.attachment.segment.data
        if data[looked.place : looked.place + len(looked.head)].tobytes() != looked.head:
            raise StaleHandleError("the chunk was replaced while it was read: its handle had been revoked")

    def acknowledge(self, looked: Looked) -> None:
        """This reader is done with the handle: one store of 8 bytes, into its own cell (SHM-9).

        A cell only goes up, so what is late changes nothing. To acknowledge twice is to acknowledge once (C-SHM-6).
        """
        cells, handle = looked.attachment.cells, looked.handle
        looked.attachment.segment.barrier()
        cells[handle.cell] = max(cells[handle.cell], handle.number)

    @contextmanager
    def reading(self, handle: Handle) -> Iterator[Looked]:
        """The chunk where it lies; acknowledged when the block ends, and not if it fails.

        Raises `StaleHandleError`, at the end too: then nothing that was read may be used.
        """
        looked = self.look(handle)
        try:
            yield looked
        except Exception:
            self.look_again(looked)
            raise
        self.look_again(looked)
        self.acknowledge(looked)

    def close(self) -> None:
        """Leave the segment before; the present one belongs to the ring."""
        if self._former is not None:
            self._former.segment.close()
            self._former = None
