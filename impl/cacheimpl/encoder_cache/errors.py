"""What a caller of the encoder cache manager did wrong. Whatever is raised, the state is as it was."""

from __future__ import annotations

from cacheimpl.errors import CacheError


class EncoderCacheError(CacheError):
    """Any misuse."""


class AlreadyCachedError(EncoderCacheError):
    """`allocate` for a content that is resident: it would be charged twice."""


class NoRoomError(EncoderCacheError, AssertionError):
    """`allocate` without free slots: nobody asked, or the grant is used up. As released, an assertion."""


class SizeMismatchError(EncoderCacheError, ValueError):
    """An input claims another size than the entry of its content has, or than it claimed when it was cached."""


class UnknownInputError(EncoderCacheError, IndexError):
    """The request has no input of this index."""


class InvalidRequestError(EncoderCacheError, TypeError):
    """What is given as a request lacks its id, its inputs, or the hash or the size of one."""


class InvalidDeviceError(EncoderCacheError, ValueError):
    """A device that torch does not know, or has no support for here."""


class InvalidCountError(EncoderCacheError, ValueError):
    """A count is not an integer, negative, or too large to add another to it in 64 bits."""


class RequestMismatchError(EncoderCacheError, ValueError):
    """A request id is used for another request while the first one still holds encoder outputs."""
