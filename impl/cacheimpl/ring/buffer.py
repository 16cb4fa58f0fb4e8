"""`SingleWriterShmRingBuffer`: the ring with the methods and attributes of the field, on a segment of shared memory."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.shared_memory import SharedMemory

from cacheimpl.counts import whole
from cacheimpl.ring.errors import (
    ClosedError,
    InvalidArgumentError,
    InvalidSizeError,
    NotTheWriterError,
    UnknownAddressError,
)
from cacheimpl.ring.headers import HEADER, LARGEST_CHUNK, Headers
from cacheimpl.ring.placement import Placement
from cacheimpl.ring.segment import Segment, check_name, superblock

MayGo = Callable[[int, memoryview], bool]


LARGEST = 2**62
"""Bytes, at most: addresses of the second lap fit in 64 bits."""


def check_function(what: str, given: object) -> None:
    """Raises `InvalidArgumentError` for what cannot be called."""
    if not callable(given):
        raise InvalidArgumentError(f"{what} must be a function, not {given!r}")


class SingleWriterShmRingBuffer:
    """A ring of chunks that one process writes and others read.

    In memory a chunk is `[4 bytes id][4 bytes size, header included][data]`. Normatively, so not as in every release:
    ids go on after `clear`; an id that a live chunk has is not given to another; the header of a chunk that is gone is
    struck out before its place is used again; a dead writer's segment of the same name is replaced, a living one's is
    refused.
    """

    ID_NBYTES = 4
    SIZE_NBYTES = 4
    LEAST_ADDRESS = 0

    def __init__(
        self,
        data_buffer_size: int,
        name: str | None = None,
        create: bool = False,  # noqa: FBT001, FBT002  # the field's signature
        *,
        header_bytes: int = ID_NBYTES + SIZE_NBYTES,
        id_modulus: int = 2**31,
        max_readers: int = 64,
        max_handles: int = 16384,
    ) -> None:
        """`data_buffer_size` in bytes; a reader (`create` is false) needs the name, and no keyword.

        Memory for the data is reserved. Each of the `max_readers` rows has `max_handles` cells of 8 bytes, and takes
        memory from the time at which a store counts with its reader. Raises `WriterAliveError`, `ForeignSegmentError`,
        `NoSpaceError`, `NoWriterYetError`, `InvalidSizeError`.
        """
        least = self.ID_NBYTES + self.SIZE_NBYTES
        header_bytes = whole("header_bytes", header_bytes, InvalidSizeError, least=least, most=LARGEST)
        what = f"data_buffer_size, with a header of {header_bytes} bytes for each chunk,"
        data_buffer_size = whole(what, data_buffer_size, InvalidSizeError, least=header_bytes + 1, most=LARGEST)
        id_modulus = whole("id_modulus", id_modulus, InvalidSizeError, least=1, most=2**31)
        max_readers = whole("max_readers", max_readers, InvalidSizeError, least=1, most=2**16)
        max_handles = whole("max_handles", max_handles, InvalidSizeError, least=1, most=2**31)
        if name is not None:
            check_name(name)
        self.is_writer, self.data_buffer_size = create, data_buffer_size
        _OPEN.add(self)
        if create:
            block = superblock(data_buffer_size, header_bytes, id_modulus, max_readers, max_handles)
            self.segment = Segment.create(name, block)
        elif name is None:
            raise UnknownAddressError("a reader has to say which segment it reads: `name`")
        else:
            self.segment = Segment.attach(name)
            self._check_size()
        self.MD_SIZE = self.segment.block.header_bytes
        self.ID_MAX = self.segment.block.id_modulus
        self.placement = Placement(data_buffer_size, self.ID_MAX)
        self.headers = Headers(self.segment)

    def _check_size(self) -> None:
        """Places are residues by the size, so all have to know the same."""
        found = self.segment.block.data_bytes
        if found != self.data_buffer_size:
            self.segment.close()
            raise InvalidSizeError(f"the segment has {found} bytes of data, and not {self.data_buffer_size}")

    # What the field's tests and callers read

    @property
    def shared_memory(self) -> SharedMemory:
        """The segment as Python has it; the data begins at `DATA_OFFSET`."""
        return self.segment.shared_memory

    @property
    def DATA_OFFSET(self) -> int:  # noqa: N802  # the field's name
        """Bytes before the data."""
        return self.segment.block.first_data

    @property
    def metadata(self) -> dict[int, int]:
        """Live chunks: id to address, laps included. The writer's."""
        return self.placement.starts

    @property
    def monotonic_id_start(self) -> int:
        """The id of the oldest live chunk, if there is one."""
        return self.placement.id_start

    @property
    def monotonic_id_end(self) -> int:
        """The id of the next chunk."""
        return self.placement.id_end

    @property
    def data_buffer_start(self) -> int:
        """Where the oldest live chunk begins."""
        return self.placement.start

    @property
    def data_buffer_end(self) -> int:
        """Behind the newest live chunk; more than `data_buffer_size` where that is in the second lap."""
        return self.placement.end

    def handle(self) -> tuple[int, str]:
        """What a reader in another process makes its ring of: `SingleWriterShmRingBuffer(*handle)`."""
        return self.data_buffer_size, self.segment.name

    def int2byte(self, integer: int) -> bytes:
        """4 bytes, the lowest first, with a sign."""
        number = whole("integer", integer, InvalidSizeError, least=-(2**31), most=2**31 - 1)
        return number.to_bytes(self.ID_NBYTES, "little", signed=True)

    def byte2int(self, byte_data: bytes | memoryview) -> int:
        """The number of which these are the bytes."""
        if not isinstance(byte_data, bytes | bytearray | memoryview):
            raise InvalidArgumentError(f"byte_data must be bytes, not {type(byte_data).__name__}")
        return int.from_bytes(byte_data, "little", signed=True)

    # Chunks

    def allocate_buf(self, size: int) -> tuple[int, int]:
        """A chunk for so many bytes: its address, laps included, and its id; the header is written.

        Raises `RingFullError` (a `MemoryError`), `InvalidSizeError`, `NotTheWriterError`, and then nothing has changed.
        """
        self._as_writer()
        most = min(self.data_buffer_size, LARGEST_CHUNK) - self.MD_SIZE
        size = whole("size, the bytes of a chunk,", size, InvalidSizeError, least=1, most=most)
        address, identity = self.placement.reserve(size + self.MD_SIZE)
        self.headers.begin(address % self.data_buffer_size, identity, size + self.MD_SIZE)
        return address, identity

    @contextmanager
    def access_buf(self, address: int) -> Iterator[tuple[memoryview, tuple[int, int]]]:
        """The data of the chunk at an address, and the id and size that are in front of it, whatever they are.

        The caller compares the id: afterwards too, if it copies (SHM-10). What is no size shows no data. Raises
        `UnknownAddressError` where no header has room.
        """
        place = whole("address", address, UnknownAddressError, least=self.LEAST_ADDRESS) % self.data_buffer_size
        first, end = place + self.MD_SIZE, self.data_buffer_size
        if first > end:
            raise UnknownAddressError(f"no chunk begins at {address}: its header would reach across the end")
        data = self._data()
        identity, size = HEADER.unpack_from(data, place)
        sensible = self.MD_SIZE <= size <= end - place
        with memoryview(data[first : place + size if sensible else first]) as view:
            yield view, (identity, size)

    def free_buf(self, is_free_fn: MayGo, nbytes: int | None = None) -> tuple[int, ...]:
        """Chunks go, the oldest first, while `is_free_fn(id, data)` holds and less than `nbytes` (all) are free.

        Returns their ids. What is free may lie in two halves on either side of the end of the data.
        """
        self._as_writer()
        check_function("is_free_fn", is_free_fn)
        want, freed = self.data_buffer_size, 0
        if nbytes is not None:
            want = whole("nbytes", nbytes, InvalidSizeError, least=0)
        gone: list[int] = []
        while freed < want and (oldest := self.placement.oldest) is not None:
            address = self.placement.starts[oldest]
            with self.access_buf(address) as (data, _):
                if not is_free_fn(oldest, data):
                    break
            gone.append(oldest)
            freed += self.drop_oldest()
        return tuple(gone)

    def drop_oldest(self) -> int:
        """The oldest chunk gives its bytes back; returns how many. Raises `UnknownAddressError` where there is none.

        It can be read until something is put in its place.
        """
        self._as_writer()
        if self.placement.oldest is None:
            raise UnknownAddressError("the ring has no chunk, and so no oldest one")
        return self.headers.leave_oldest(self.placement)

    def strike_out(self, address: int) -> None:
        """No chunk begins at this address any more; one did. Raises `UnknownAddressError`."""
        self._as_writer()
        number = whole("address", address, UnknownAddressError, least=0)
        if number not in self.placement.starts.values():
            raise UnknownAddressError(f"no chunk begins at the address {number}")
        self.headers.strike_out(number % self.data_buffer_size)

    def clear(self, is_free_fn: MayGo | None = None) -> None:
        """Every chunk goes, or those that may, up to the first that may not; ids go on (C-SHM-7).

        The ring does not know its readers. Without a function the caller vouches that no process reads (C-SHM-12).
        """
        if is_free_fn is not None:
            check_function("is_free_fn", is_free_fn)
        self.free_buf(is_free_fn or (lambda identity, data: True))

    def close(self) -> None:
        """Give the segment back; the writer removes it. To close twice does nothing."""
        if hasattr(self, "segment"):
            self.segment.close()

    def __del__(self) -> None:
        self.close()

    def _as_writer(self) -> None:
        if not self.is_writer or not self.segment.is_usable:
            raise NotTheWriterError("only the process that created the ring writes it, until it is closed")

    def _data(self) -> memoryview:
        if not self.segment.is_usable:
            raise ClosedError("the ring is not open in this process")
        return self.segment.data


_OPEN: weakref.WeakSet[SingleWriterShmRingBuffer] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Before modules are gone, which a close needs."""
    for ring in tuple(_OPEN):
        ring.close()
