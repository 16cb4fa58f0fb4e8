"""What a caller or the other side of the mirror did wrong. Whatever is raised, the state is as it was."""

from __future__ import annotations

from cacheimpl.errors import CacheError


class MirrorError(CacheError):
    """Any misuse."""


class NotJoinedError(MirrorError):
    """`submit` without a partition at P1: the sender has to join first (MIR-12)."""


class SizeMismatchError(MirrorError, ValueError):
    """An item claims another size than the entry of its key has: both sides count the same bytes, or none do."""


class InvalidItemError(MirrorError, ValueError):
    """A key that is no text, or a size that is no integer or negative; or a request without items."""


class InvalidCapacityError(MirrorError, ValueError):
    """A capacity or a number of partitions that is no integer or not positive."""


class BadMessageError(MirrorError, ValueError):
    """What came over the wire is none of the messages of this protocol."""


class MissingPayloadError(MirrorError, LookupError):
    """A message that is in its turn has neither a payload for an item nor is the item there (MIR-2).

    Two sides of this protocol never come here; the sender of such a message speaks another one.
    """

    def __init__(self, keys: tuple[str, ...]) -> None:
        super().__init__(f"neither in the message nor in the cache: {', '.join(keys)}")
        self.keys = keys
