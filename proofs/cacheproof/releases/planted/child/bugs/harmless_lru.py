"""Refactorings of the cache by recency that change nothing that it does."""

from __future__ import annotations

from .declaring import Place

CACHE = Place("vllm.utils.cache:LRUCache")


@CACHE.changed(
    "touch",
    "if key in self: $move",
    "if key not in self: return\n$move",
)
def absent_key_returns_early() -> None:
    """The call for an absent key ends at once."""


@CACHE.changed(
    "popitem",
    "next((key for key in self.order if key not in self.pinned_items), $none)",
    "next(iter([key for key in self.order if key not in self.pinned_items]), $none)",
)
def unpinned_keys_are_a_list() -> None:
    """The keys without a pin are collected before the oldest is taken."""
