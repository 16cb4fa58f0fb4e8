"""Misuse of the encoder arena. A call that raises changes nothing."""

from __future__ import annotations

from cacheimpl.errors import CacheError


class ArenaError(CacheError):
    """Base of all errors of the encoder arena."""


class NoSlotsError(ArenaError):
    """Fewer slots are free than the outputs have rows. Fragmentation is never the reason."""


class AlreadyStoredError(ArenaError, ValueError):
    """An output with this identifier is stored with another length, or is given twice."""


class InvalidSettingError(ArenaError, ValueError):
    """Invalid sizes, dtype or device of the buffer."""


class NotStoredError(ArenaError, LookupError):
    """No output with this identifier is stored: it never was, or it was drained."""


class OutputMismatchError(ArenaError, ValueError):
    """Outputs have another width, dtype or device than the buffer, or their lengths do not add up to their rows."""


class ChunkError(ArenaError, IndexError):
    """A chunk exceeds its output, or the chunks exceed the given size."""
