"""Locks on bytes of a file that the kernel gives back when their holder dies, however it dies.

They belong to an open file and not to a process (`F_OFD_SETLK` of `fcntl`), so that closing another descriptor of the
same file in the same process does not release them; and a forked child closes its copy at once, so that it does not
keep them when its parent has died. No call waits for a lock: it takes it, or reports it as taken. Linux only.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
import weakref
from fcntl import F_OFD_GETLK, F_OFD_SETLK, F_UNLCK, F_WRLCK, fcntl
from pathlib import Path

FLOCK = struct.Struct("hhqqi0q")
"""`struct flock` of Linux on 64 bits: type, from where, first byte, how many, process (0 where it is an open file)."""

_OPEN: weakref.WeakSet[FileLocks] = weakref.WeakSet()


class FileLocks:
    """One open file, and the bytes of it that are locked through it."""

    def __init__(self, path: Path, descriptor: int | None = None) -> None:
        """The file of this path, or of a descriptor, that will be given it. Raises FileNotFoundError."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        self.descriptor = os.open(path, flags) if descriptor is None else descriptor
        self._path = path
        self.held: set[int] = set()
        _OPEN.add(self)

    def take(self, byte: int) -> bool:
        """Lock this byte; False if another process has it."""
        try:
            fcntl(self.descriptor, F_OFD_SETLK, _request(F_WRLCK, byte))
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        self.held.add(byte)
        return True

    def give_back(self, byte: int) -> None:
        """Unlock this byte."""
        fcntl(self.descriptor, F_OFD_SETLK, _request(F_UNLCK, byte))
        self.held.discard(byte)

    def is_taken(self, byte: int) -> bool:
        """Whether a living process has this byte, through this open file or another."""
        if byte in self.held:
            return True
        found = fcntl(self.descriptor, F_OFD_GETLK, _request(F_WRLCK, byte))
        kind: int = FLOCK.unpack(found)[0]
        return kind != F_UNLCK

    def give_name(self) -> bool:
        """The file, which has no name yet, gets its path; False where another has it."""
        folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # with a folder Python uses the call that follows the link
            os.link(f"/proc/self/fd/{self.descriptor}", self._path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError:
            return False
        finally:
            os.close(folder)
        return True

    def is_still_named(self) -> bool:
        """Whether the path leads to this file, and not to another one or none."""
        try:
            named = self._path.lstat()
        except FileNotFoundError:
            return False
        own = os.fstat(self.descriptor)
        return (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)

    def mapped(self, length: int) -> mmap.mmap:
        """The file in the memory, through another open file: a mapping keeps its own, and with it whatever is locked.

        Raises FileNotFoundError where the path does not lead to this file any more.
        """
        other = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if not os.path.sameopenfile(self.descriptor, other):
                raise FileNotFoundError(errno.ENOENT, "replaced by another", str(self._path))
            return mmap.mmap(other, length)
        finally:
            os.close(other)

    def close(self) -> None:
        """Give everything back. To close twice does nothing."""
        descriptor, self.descriptor = self.descriptor, -1
        self.held.clear()
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            self.close()


def _request(kind: int, byte: int) -> bytes:
    return FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0)


FIRST = _request(F_WRLCK, 0)
"""The request that asks for the holder of the first byte."""


def _close_in_child() -> None:
    """What was inherited from the parent is the parent's: a lock must not outlive it in a child."""
    for locks in tuple(_OPEN):
        locks.close()


os.register_at_fork(after_in_child=_close_in_child)
