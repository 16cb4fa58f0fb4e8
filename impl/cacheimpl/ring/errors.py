"""What a caller of the shared-memory ring did wrong, or found."""

from __future__ import annotations

from cacheimpl.errors import CacheError


class RingError(CacheError):
    """Any misuse."""


class NotTheWriterError(RingError, AssertionError):
    """Only the process that created the ring writes it, no reader and no forked child. As released, an assertion."""


class InvalidSizeError(RingError, ValueError, AssertionError):
    """A size that is no integer, not positive, or more than the ring can ever hold."""


class InvalidNameError(RingError, ValueError):
    """What can be no name of a segment: a text without a slash, that names a file."""


class InvalidArgumentError(RingError, TypeError):
    """What is no function, no bytes, or no ring, where it must be one."""


class RingFullError(RingError, MemoryError):
    """No room behind the newest chunk, nor at the beginning; or every id belongs to a live chunk. Nothing changed."""


class UnknownAddressError(RingError, ValueError):
    """No chunk can begin at this address."""


class WriterAliveError(RingError, FileExistsError):
    """A segment of this name has a writer that is alive: it is neither taken over nor removed."""


class ForeignSegmentError(RingError, FileExistsError):
    """What has this name was not made by this package, or by another version of it: it is left alone."""


class NoSpaceError(RingError, OSError):
    """Too little shared memory is left for the segment. Used without this check, it would end the process (SIGBUS)."""


class NoWriterYetError(RingError, FileNotFoundError):
    """There is no segment of this name, or it is just being replaced."""


class ReaderTakenError(RingError, ValueError):
    """Another process that is alive reads under this number, or every number is taken."""


class ClosedError(RingError, ValueError):
    """The segment was closed, or belongs to the process that this one was forked from."""
