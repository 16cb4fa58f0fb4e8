"""Refactorings of the mirrored processor cache that change nothing that it does."""

from __future__ import annotations

from typing import Any

from .declaring import PUT_BACK, Place

SENDER = Place("vllm.multimodal.cache.lru:LruKeyReplicatedSenderCache")


@SENDER.broken("invalidate", since=PUT_BACK)
def absent_entry_is_not_popped(released: Any, cache: Any, key: str) -> None:
    """An entry is looked for before it is dropped."""
    if cache.is_cached_item(key):
        released(key)
