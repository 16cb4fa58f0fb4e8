"""What a caller of the processor caches did wrong, or what went wrong between the two sides."""

from __future__ import annotations

from collections.abc import Sequence

from cacheimpl.errors import CacheError


class ProcessorCacheError(CacheError):
    """Any of these."""


class ItemNotCachedError(ProcessorCacheError, AssertionError):
    """Nothing was given for an item that is not cached. As released, an assertion; here, nothing has changed.

    On P0 this happens to a request that is larger than the cache and evicts what it is about to use (C-MIR-9): process
    these items, and ask again.
    """

    def __init__(self, mm_hashes: Sequence[str]) -> None:
        super().__init__(f"not cached, and not given: {', '.join(mm_hashes)}")
        self.mm_hashes = list(mm_hashes)


class MultiModalCacheMissError(ProcessorCacheError, RuntimeError):
    """P1 lacks items that P0 sent nothing for: the two have come apart.

    P0 has to `invalidate` all of them, and the client to send the request again with its items.
    """

    def __init__(self, mm_hashes: Sequence[str]) -> None:
        super().__init__(f"not at the receiver, and sent without data: {', '.join(mm_hashes)}; retry with the data")
        self.mm_hashes = list(mm_hashes)


class NotThereError(ProcessorCacheError, KeyError):
    """A key that is absent, where it must be there."""

    __str__ = Exception.__str__  # and not in quotation marks, as a `KeyError` says it


class InvalidItemError(ProcessorCacheError, TypeError):
    """What is no item, has no size, or has a key that cannot be one."""


class InvalidSettingError(ProcessorCacheError, ValueError):
    """A configuration that lacks what is read of it, or has what cannot be."""


class TooLargeError(ProcessorCacheError, ValueError):
    """A value is larger than the whole cache. Nothing has changed."""


class AllPinnedError(ProcessorCacheError, RuntimeError):
    """What is pinned leaves too little room, or there is nothing but pinned entries to take. Nothing has changed."""


class EndlessEvictionError(ProcessorCacheError, RuntimeError):
    """The released call never returns: the oldest in the order has no entry, so evicting it frees nothing (C-MIR-10).

    Only `GhostLRUCache` raises it, in the place of going on for ever. What was evicted before that is gone, as it is in
    the engine that hangs; to reproduce such an engine is to end its process here.
    """


class CannotPinError(ProcessorCacheError, ValueError):
    """What is absent cannot be pinned (LRU-3)."""


class NotAlikeError(ProcessorCacheError, ValueError):
    """As many items must be given as hashes."""
