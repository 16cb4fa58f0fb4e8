"""KV cache events that are sent as arrays: for subscribers of 0.11.0 and 0.20.2, which read by position."""

from __future__ import annotations

from cacheimpl.kv_cache_manager import events


class BlockStored(events.BlockStored, frozen=True, array_like=True):
    """Consecutive blocks of one request were registered."""


class BlockRemoved(events.BlockRemoved, frozen=True, array_like=True):
    """A block is no longer registered."""


class AllBlocksCleared(events.AllBlocksCleared, frozen=True, array_like=True):
    """No block is registered any more."""


ARRAYS = events.Form(BlockStored, BlockRemoved, AllBlocksCleared)
