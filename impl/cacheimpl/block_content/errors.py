"""What a caller of the contents of blocks did wrong. Whatever is raised, the table is as it was."""

from __future__ import annotations

from cacheimpl.errors import CacheError


class BlockContentError(CacheError, ValueError):
    """Any misuse: sizes that cannot be, lengths beyond the tokens, rows that there are not."""


class WrongTensorError(BlockContentError, TypeError):
    """An operand of another type or shape, or on another device, than it must be; or none at all."""
