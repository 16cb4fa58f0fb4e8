"""What a caller of the KV cache manager did wrong. Whatever is raised, the state is as it was."""

from __future__ import annotations

from cacheimpl.errors import CacheError


class KVCacheManagerError(CacheError):
    """Any misuse."""


class InvalidCountError(KVCacheManagerError, ValueError):
    """A count is not an integer, or not one that can be: slots for no tokens, a pool without blocks."""


class InvalidRequestError(KVCacheManagerError, TypeError):
    """What is given as a request has no id, no tokens, or tokens that are no integers."""


class InvalidSettingError(KVCacheManagerError, TypeError):
    """What is given as a configuration, as rules or as a hash function is none."""


class TooManyTokensError(KVCacheManagerError, ValueError):
    """The request would have more tokens than the longest that the engine admits."""


class AlreadyAllocatedError(KVCacheManagerError, ValueError):
    """Hits are brought along for a request that has a table already (C-KV-5, C-KV-20)."""


class StaleCountError(KVCacheManagerError, ValueError):
    """The tokens that are said to be computed are fewer than before, or more than there are slots for."""


class StaleBlocksError(KVCacheManagerError, ValueError):
    """A block that is brought along does not hold the beginning of this request, or not any more (KV-7)."""


class ForeignBlockError(KVCacheManagerError, ValueError):
    """A block is not one of this pool, or no block at all."""


class UnknownRequestError(KVCacheManagerError, KeyError):
    """The request has no table."""


class RequestMismatchError(KVCacheManagerError, ValueError):
    """A request id is used for another request, with other tokens, while the first one has a table."""


class NotRunningError(KVCacheManagerError, AssertionError):
    """The common prefix is asked for a request that does not run. As released, an assertion."""


class FreeQueueError(KVCacheManagerError, RuntimeError):
    """A block is taken out of the free queue that is not in it, or put in that is."""


class NoFreeBlocksError(KVCacheManagerError, ValueError):
    """The free queue has fewer blocks. As released, a `ValueError`."""


class UnsupportedError(KVCacheManagerError, NotImplementedError):
    """The configuration asks for what there is not: several block sizes, cross-attention, parallel contexts."""
