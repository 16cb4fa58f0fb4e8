"""The cache by recency as released, on request only: it does not ask first whether what is pinned leaves room.

The era of ghosts (0.11.0, C-MIR-10) is not here: a key that was touched before it was stored is the oldest for ever,
and the call that evicts it never ends.
"""

from __future__ import annotations

from typing import TypeVar

from cacheimpl.processor_cache.lru_cache import LRUCache

K = TypeVar("K")
V = TypeVar("V")


class ReleasedLRUCache(LRUCache[K, V]):
    """As 0.20.2 and 0.33.0 (`lru` M3): `AllPinnedError` in the middle of an eviction leaves the cache half evicted."""

    def _check_pins(self, key: K, size: float) -> None:
        """Nobody asks."""
