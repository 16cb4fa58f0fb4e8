"""The cache by recency as released, on request only: it does not ask first whether what is pinned leaves room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from cacheimpl.processor_cache.errors import AllPinnedError, EndlessEvictionError
from cacheimpl.processor_cache.lru_cache import LRUCache

K = TypeVar("K")
V = TypeVar("V")


class ReleasedLRUCache(LRUCache[K, V]):
    """As 0.33.0 (`lru` M3): `AllPinnedError` in the middle of an eviction leaves the cache half evicted."""

    def _check_pins(self, key: K, size: float) -> None:
        """No caller asks."""


class GhostLRUCache(ReleasedLRUCache[K, V]):
    """As 0.11.0 and 0.20.2 (`lru` M2): the order may hold ghosts, keys that were touched and have no entry (C-MIR-10).

    `order` has them too. Where the oldest that is not pinned is a ghost, evicting it frees nothing, and the released
    loop goes on for ever; here the call raises `EndlessEvictionError`.
    """

    def __init__(self, capacity: float, getsizeof: Callable[[V], float] | None = None) -> None:
        super().__init__(capacity, getsizeof)
        self._order: OrderedDict[K, None] = OrderedDict()

    @property
    def order(self) -> Mapping[K, None]:
        """Keys, the oldest first, ghosts among them; a copy."""
        return MappingProxyType(dict(self._order))

    def touch(self, key: K) -> None:
        """The newest in the order, whether it is there or not."""
        if self._has(key):
            self._recent(key)
        else:
            self._newest_in_order(key)

    def popitem(self, remove_pinned: bool = False) -> tuple[K, V | None]:  # type: ignore[override]  # noqa: FBT001, FBT002  # as released
        """The oldest is removed that is not pinned; a ghost stays, and None comes with it. Raises `AllPinnedError`."""
        oldest = next((key for key in self._order if remove_pinned or key not in self.pinned_items), None)
        if oldest is None:
            raise AllPinnedError("there is no entry that may be removed")
        value: Any = self._entries[oldest].value if oldest in self._entries else None
        if oldest in self._entries:
            self._remove(oldest)
        return oldest, value

    def clear(self) -> None:
        """The oldest go until no entry is left; ghosts that are newer stay. Raises `EndlessEvictionError`."""
        while self._entries:
            oldest = next(iter(self._order))
            self._check_entry(oldest)
            self._remove(oldest)
        super().clear()

    def _recent(self, key: K) -> None:
        super()._recent(key)
        self._newest_in_order(key)

    def _newest_in_order(self, key: K) -> None:
        self._order[key] = None
        self._order.move_to_end(key)

    def _next_to_go(self) -> K:
        for key in self._order:
            if key not in self.pinned_items:
                self._check_entry(key)
                return key
        return super()._next_to_go()

    def _check_entry(self, oldest: K) -> None:
        """Raises `EndlessEvictionError` for a ghost."""
        if oldest not in self._entries:
            raise EndlessEvictionError(f"the oldest in the order is {oldest!r}, which has no entry, and so never goes")

    def _remove(self, key: K) -> None:
        super()._remove(key)
        del self._order[key]
