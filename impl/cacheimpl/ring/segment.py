"""One shared-memory segment: its layout, which process writes which part, and how it is made, found and removed.

    [superblock][a row of acknowledgement cells for each reader][data of the ring]

The writer writes superblock and data; a reader writes its own row of cells and nothing else. The byte 0 of the file is
locked by the writer as long as it lives, the byte 1 + r by reader r: so a segment without a living writer is known as
stale by every process.

The writer holds the name against others, so its segment is unlinked by itself (`close`) or by the next writer of that
name, never by the exit of a process. Python's resource tracker would unlink it when any process ends that had it open,
so it is not told of it. Only a segment without a name of its own is left to the tracker by its writer, as no later
writer takes its name over.

*Order.* `barrier` is a system call on the segment's file. It is made between any two groups of stores, or of loads, of
which one must not be seen without the other; both sides make it, and in it the kernel takes the same lock.
"""

from __future__ import annotations

import errno
import mmap
import os
import secrets
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import F_OFD_GETLK, fcntl
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from cacheimpl.ring.errors import (
    ClosedError,
    ForeignSegmentError,
    InvalidNameError,
    NoSpaceError,
    NoWriterYetError,
    ReaderTakenError,
    WriterAliveError,
)
from cacheimpl.ring.locks import FIRST, FileLocks

if sys.platform != "linux":
    raise ImportError("locks of open files and /dev/shm are those of Linux")

FOLDER = Path("/dev/shm")  # noqa: S108  # where Linux keeps POSIX shared memory, by name
MAGIC = b"cacheim1"
WRITER = 0
"""The byte that the writer locks; reader r locks the one r + 1 further on."""
CELL = 8
"""Bytes of an acknowledgement cell."""
_HEAD = struct.Struct("<8sIIQQIIQ32s")
LONGEST_NAME = 250
"""Bytes: what the file system takes, less what Python puts before a name."""
ANONYMOUS = "cacheimpl-"
"""What the name of a segment begins with that was given none."""
_AGREED = struct.Struct("<I")
_AGREED_AT = 136
_FIRST_CELL = 4096
_GATE = Lock()


class Superblock(NamedTuple):
    """What a reader has to know of a segment."""

    generation: int
    """Of this writer: drawn at random for each, so that what an earlier one issued is known as such."""
    header_bytes: int
    """In front of every chunk's data."""
    data_bytes: int
    id_modulus: int
    readers: int
    """Rows of cells that there are."""
    handles: int
    """Cells in a row."""
    secret: bytes
    """32 bytes that sign handles and chunks."""

    @property
    def first_data(self) -> int:
        """Where the data begins: behind the cells, at the beginning of a page."""
        behind = _FIRST_CELL + self.readers * self.handles * CELL
        return -(-behind // mmap.PAGESIZE) * mmap.PAGESIZE


def superblock(data_bytes: int, header_bytes: int, id_modulus: int, readers: int, handles: int) -> Superblock:
    """Of a new segment."""
    generation = secrets.randbits(31) + 1
    return Superblock(generation, header_bytes, data_bytes, id_modulus, readers, handles, secrets.token_bytes(32))


class Segment:
    """A segment as one process has it mapped, writer or reader; `create` and `attach` make them."""

    def __init__(self, shared_memory: SharedMemory, locks: FileLocks, block: Superblock, *, tracked: bool) -> None:
        self.shared_memory, self.block = shared_memory, block
        self._locks, self._tracked, self._process = locks, tracked, os.getpid()
        whole = block.first_data + block.data_bytes
        # A mapping of its own lives as long as a view of it; that of `SharedMemory` refuses to be closed then.
        self.memory = memoryview(locks.mapped(whole))
        self.data = self.memory[block.first_data : whole]

    @classmethod
    def create(cls, name: str | None, block: Superblock) -> Segment:
        """A new segment. One of this name whose writer is dead is replaced.

        It has its name only when it is complete and locked: a process that dies in between leaves nothing. Raises
        `WriterAliveError`, `ForeignSegmentError`, `NoSpaceError`.
        """
        chosen = name or f"{ANONYMOUS}{secrets.token_hex(8)}"
        locks = FileLocks(FOLDER / chosen, made_file(block))
        try:
            taken = locks.take(WRITER)
            assert taken, "no other process knows the file"
            while not locks.give_name():
                remove_stale(chosen)
            with untracked(name is not None):
                shared_memory = SharedMemory(name=chosen)
            return cls(shared_memory, locks, block, tracked=name is None)
        except BaseException:
            locks.close()
            raise

    @classmethod
    def attach(cls, name: str) -> Segment:
        """The segment of this name, as a reader has it. Raises `NoWriterYetError`, `ForeignSegmentError`."""
        try:
            with untracked():
                found = SharedMemory(name=name)
        except FileNotFoundError:
            raise NoWriterYetError(f"there is no segment '{name}'") from None
        locks: FileLocks | None = None
        try:
            locks, block = FileLocks(FOLDER / found.name), read_superblock(found.buf)
            segment = cls(found, locks, block, tracked=False)
            segment.require(block)
        except BaseException as error:
            if locks is not None:
                locks.close()
            found.close()
            if isinstance(error, FileNotFoundError):
                raise NoWriterYetError(f"the segment '{name}' is gone, or being replaced") from error
            raise
        return segment

    def require(self, block: Superblock) -> None:
        """What is mapped has to have this superblock. Raises `NoWriterYetError`."""
        if read_superblock(self.memory) != block:
            raise NoWriterYetError(f"the segment '{self.name}' is being replaced")

    @property
    def name(self) -> str:
        """Under which others find it."""
        return self.shared_memory.name

    @property
    def is_usable(self) -> bool:
        """Whether this process opened it, and has not closed it: in a forked child its locks are closed."""
        return self._locks.descriptor >= 0

    def barrier(self) -> None:
        """What this process stored or loaded before is over before anything that it stores or loads afterwards.

        The system call looks at the locks of the file, for which the kernel takes its own lock of that file: whoever
        comes later with this call sees what was stored before it.
        """
        try:
            fcntl(self._locks.descriptor, F_OFD_GETLK, FIRST)
        except ValueError:  # there is no descriptor any more
            raise ClosedError(f"the segment '{self.name}' is not open in this process") from None

    def cells(self, reader: int) -> memoryview:
        """[handles] int64: the row of this reader, whose memory is reserved. Raises `NoSpaceError`."""
        row = self.block.handles * CELL
        first = _FIRST_CELL + reader * row
        reserve(self._locks.descriptor, first, row)
        return self.memory[first : first + row].cast("q")

    def agree_on_readers(self, readers: int, *, writes: bool) -> None:
        """The writer says how many readers it waits for; a reader that expects another number is refused.

        Raises `ReaderTakenError`, `ClosedError`.
        """
        if not self.is_usable:
            raise ClosedError(f"the segment '{self.name}' is not open in this process")
        if not 0 < readers <= self.block.readers:
            raise ReaderTakenError(f"the segment has cells for 1 to {self.block.readers} readers, not for {readers}")
        if writes:
            _AGREED.pack_into(self.memory, _AGREED_AT, readers)
        elif (agreed := _AGREED.unpack_from(self.memory, _AGREED_AT)[0]) not in (0, readers):
            raise ReaderTakenError(f"the writer waits for {agreed} readers, and not for {readers}")

    def writer_is_alive(self) -> bool:
        """Whether the process that made the segment lives and has not closed it."""
        return self.is_usable and self._locks.is_taken(WRITER)

    def readers_alive(self, readers: int) -> tuple[bool, ...]:
        """For each reader, whether a living process reads under its number."""
        return tuple(self._locks.is_taken(WRITER + 1 + reader) for reader in range(readers))

    def claim_reader(self, readers: int, wanted: int | None = None) -> int:
        """The number under which this process reads: the wanted one, or the first free one.

        Raises `ReaderTakenError`. What the dead one of that number acknowledged stays acknowledged.
        """
        for reader in range(readers) if wanted is None else (wanted,):
            if self._locks.take(WRITER + 1 + reader):
                return reader
        asked = "every number of a reader" if wanted is None else f"the reader number {wanted}"
        raise ReaderTakenError(f"{asked} of the segment '{self.name}' is taken by a living process")

    def close(self) -> None:
        """Unmap it; the writer removes it. To close twice does nothing, and a forked child removes nothing.

        Views of the data stay mapped as long as they are used.
        """
        usable = self.is_usable and self._process == os.getpid()
        self.data = self.memory = memoryview(b"")
        writes = usable and WRITER in self._locks.held
        if writes and self._locks.is_still_named():
            self._unlink()
        self._locks.close()
        self.shared_memory.close()

    def _unlink(self) -> None:
        if self._tracked:
            self.shared_memory.unlink()  # and the tracker forgets it
        else:
            (FOLDER / self.name).unlink(missing_ok=True)


def made_file(block: Superblock) -> int:
    """A descriptor of a new file without a name, with this superblock; its data is reserved. Raises `NoSpaceError`."""
    free = os.statvfs(FOLDER)
    # Looked at first: a reservation that fails takes all memory that is left for a moment, from others too.
    if block.data_bytes > free.f_bavail * free.f_frsize:
        raise no_space(block.data_bytes)
    descriptor = os.open(FOLDER, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(descriptor, block.first_data + block.data_bytes)
        reserve(descriptor, 0, _FIRST_CELL)
        reserve(descriptor, block.first_data, block.data_bytes)
        os.pwrite(descriptor, _HEAD.pack(MAGIC, block.header_bytes, block.readers, *_numbers(block), block.secret), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def reserve(descriptor: int, first: int, nbytes: int) -> None:
    """Shared memory for these bytes of a file, now: a store that finds none ends its process with SIGBUS.

    Raises `NoSpaceError`.
    """
    try:
        os.posix_fallocate(descriptor, first, nbytes)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise no_space(nbytes) from error


def no_space(nbytes: int) -> NoSpaceError:
    """The error of a segment for which too little shared memory is left."""
    return NoSpaceError(errno.ENOSPC, f"{FOLDER} has no room for {nbytes} bytes")


def _numbers(block: Superblock) -> tuple[int, ...]:
    return (block.data_bytes, block.id_modulus, block.handles, 0, block.generation)


def read_superblock(memory: Any) -> Superblock:
    """Of a segment that is mapped. Raises `ForeignSegmentError`."""
    if len(memory) < _FIRST_CELL:
        raise ForeignSegmentError("a segment that is too small to be one of a ring")
    magic, header, readers, data, modulus, handles, _, generation, secret = _HEAD.unpack_from(memory, 0)
    if magic != MAGIC:
        raise ForeignSegmentError("a segment that is none of a ring, or of another version")
    return Superblock(generation, header, data, modulus, readers, handles, secret)


# What dead writers left ---------------------------------------------------------------------------------------------


def stale_segments() -> tuple[str, ...]:
    """The names of segments of rings whose writer is dead."""
    return tuple(sorted(path.name for path in FOLDER.iterdir() if _is_stale(path)))


def _is_stale(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return False
        locks = FileLocks(path)
    except OSError:
        return False
    try:
        return not locks.is_taken(WRITER)
    finally:
        locks.close()


def check_name(name: object) -> None:
    """Raises `InvalidNameError` for what can be no name of a segment."""
    if not isinstance(name, str) or name in ("", ".", "..") or "\0" in name or "/" in name:
        raise InvalidNameError(f"the name of a segment is a text without a slash, and not {name!r}")
    if len(name.encode()) > LONGEST_NAME:
        raise InvalidNameError(f"the name of a segment has {LONGEST_NAME} bytes or less, and not {len(name.encode())}")


def remove_stale(name: str) -> None:
    """Remove the segment of a dead writer; readers that have it mapped read on in it.

    Raises `WriterAliveError`, `ForeignSegmentError`. Where there is none, nothing happens.
    """
    check_name(name)
    path = FOLDER / name
    try:
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
        locks = FileLocks(path)
    except FileNotFoundError:
        return
    try:
        if magic != MAGIC:
            raise ForeignSegmentError(f"the segment '{name}' is none of a ring, or of another version")
        if not locks.take(WRITER):
            raise WriterAliveError(f"the segment '{name}' has a writer that is alive")
        if locks.is_still_named():
            path.unlink()
    finally:
        locks.close()


# Python's resource tracker ------------------------------------------------------------------------------------------


@contextmanager
def untracked(off: bool = True) -> Iterator[None]:  # noqa: FBT001, FBT002  # a switch of one statement
    """Shared memory that is opened meanwhile is not told to the resource tracker, as it is by default.

    To tell it and take it back would take it back for the writer too, where both share one tracker.
    """
    if not off:
        yield
        return
    with _GATE:
        register = resource_tracker.register

        def register_others(name: str, rtype: str) -> None:
            if rtype != "shared_memory":
                register(name, rtype)

        resource_tracker.register = register_others  # type: ignore[assignment]  # for the time of one call
        try:
            yield
        finally:
            resource_tracker.register = register
