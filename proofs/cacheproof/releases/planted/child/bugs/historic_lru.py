"""Historic bugs in the cache by recency."""

from __future__ import annotations

from .declaring import Place

CACHE = Place("vllm.utils.cache:LRUCache")


@CACHE.changed(
    "touch",
    "if key in self: self._LRUCache__order.move_to_end(key)",
    "self._LRUCache__order[key] = None\nself._LRUCache__order.move_to_end(key)",
    fixed="#43595",
    reported="#43941",
)
def touch_of_an_absent_key_leaves_a_ghost() -> None:
    """A touched key that is absent enters the order of eviction without an entry, and eviction hangs at it."""
