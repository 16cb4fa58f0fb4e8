"""Misuse of the encoder cache manager. A call that raises changes nothing."""

from __future__ import annotations

from cacheimpl.errors import CacheError


class EncoderCacheError(CacheError):
    """Base of all errors of the encoder cache manager."""


class AlreadyCachedError(EncoderCacheError):
    """`allocate` for a cached content: it would be charged twice."""


class NoRoomError(EncoderCacheError, AssertionError):
    """`allocate` without free slots: call `can_allocate` first. In the releases, an assertion."""


class SizeMismatchError(EncoderCacheError, ValueError):
    """An input claims another size than the entry of its content has, or than it claimed when it was cached."""


class UnknownInputError(EncoderCacheError, IndexError):
    """The request has no input of this index."""


class InvalidRequestError(EncoderCacheError, TypeError):
    """A request lacks its id, its inputs, or the hash or size of an input."""


class InvalidDeviceError(EncoderCacheError, ValueError):
    """torch does not know the device, or does not support it on this machine."""


class InvalidCountError(EncoderCacheError, ValueError):
    """A count is no integer, negative, or too large: two counts must add up in 64 bits."""


class RequestMismatchError(EncoderCacheError, ValueError):
    """A request id is used for another request while the first one still holds encoder outputs."""
