"""Misuse of the KV cache manager. A call that raises changes nothing."""

from __future__ import annotations

from cacheimpl.errors import CacheError
from cacheimpl.kv_cache_manager.unsupported import Unsupported


class KVCacheManagerError(CacheError):
    """Base of all errors of the KV cache manager."""


class InvalidCountError(KVCacheManagerError, ValueError):
    """A count is not an integer or out of range: slots for no tokens, a pool without blocks."""


class InvalidRequestError(KVCacheManagerError, TypeError):
    """A request has no id, no tokens, or tokens that are not integers."""


class InvalidSettingError(KVCacheManagerError, TypeError):
    """A configuration, rules or a hash function of the wrong type."""


class TooManyTokensError(KVCacheManagerError, ValueError):
    """The request would exceed `max_model_len`."""


class AlreadyAllocatedError(KVCacheManagerError, ValueError):
    """Hits are given for a request that has a table already (C-KV-5, C-KV-20)."""


class StaleCountError(KVCacheManagerError, ValueError):
    """The count of computed tokens exceeds the allocated slots; or it went down, in `commit` or the early shape."""


class StaleBlocksError(KVCacheManagerError, ValueError):
    """A block that is given as a hit does not hold this request's prefix, or no longer does (KV-7)."""


class SharedBlocksError(KVCacheManagerError, ValueError):
    """Tokens are to be computed again in blocks that other requests hold."""


class ForeignBlockError(KVCacheManagerError, ValueError):
    """A block is not of this pool, or no block at all."""


class UnknownRequestError(KVCacheManagerError, KeyError):
    """The request has no table."""


class RequestMismatchError(KVCacheManagerError, ValueError):
    """A request id is used for another request, with other tokens, while the first one has a table."""


class NotRunningError(KVCacheManagerError, AssertionError):
    """The common prefix of a request that does not run. In the releases, an assertion."""


class FreeQueueError(KVCacheManagerError, RuntimeError):
    """A block is removed from the free queue twice, or added twice."""


class NoFreeBlocksError(KVCacheManagerError, ValueError):
    """The free queue has too few blocks. As released, a `ValueError`."""


class UnsupportedError(KVCacheManagerError, NotImplementedError):
    """The configuration or a call asks for what the manager does not serve, such as attention sinks."""

    def __init__(self, what: Unsupported, text: str) -> None:
        super().__init__(what, text)
        self.what = what

    def __str__(self) -> str:
        """The text: where, and which value."""
        return str(self.args[1])
