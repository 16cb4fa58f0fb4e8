"""What a caller of the encoder arena did wrong. Whatever is raised, the arena is as it was."""

from __future__ import annotations

from cacheimpl.errors import CacheError


class ArenaError(CacheError):
    """Any misuse."""


class NoSlotsError(ArenaError):
    """Fewer slots are free than the outputs have rows. Slots being scattered is never the reason."""


class AlreadyStoredError(ArenaError, ValueError):
    """An output of this identifier is stored with another length, or is given twice."""


class InvalidSettingError(ArenaError, ValueError):
    """A buffer that cannot be: of sizes that are no counts, or of a type or a device that there is not."""


class NotStoredError(ArenaError, LookupError):
    """No output of this identifier is stored: it never was, or it was drained."""


class OutputMismatchError(ArenaError, ValueError):
    """Outputs have another width, type or device than the buffer, or their lengths do not add up to their rows."""


class ChunkError(ArenaError, IndexError):
    """A chunk is not inside of the output that it is of, or does not fit in the size that was asked for."""
