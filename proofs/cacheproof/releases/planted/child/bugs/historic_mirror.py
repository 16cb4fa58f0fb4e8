"""Historic bugs in the mirrored processor cache."""

from __future__ import annotations

from typing import Any

from .declaring import PUT_BACK, Place

LRU = "vllm.multimodal.cache.lru"
SENDER = Place(f"{LRU}:LruKeyReplicatedSenderCache")
RECEIVER = Place(f"{LRU}:LruKeyReplicatedReceiverCache")
CACHE = Place("vllm.utils.cache:LRUCache")
BOTH = Place("vllm.multimodal.cache.base:BaseMultiModalCache")


@CACHE.broken("touch", since=PUT_BACK, fixed="#28525", reported="#26195")
def request_evicts_its_own_items(released: Any, cache: Any, key: Any) -> Any:
    """The items of a request are not touched before the first is stored, so one can evict another."""


@RECEIVER.broken("get_and_update_item", since=PUT_BACK, fixed="#57833")
def known_key_hides_a_new_item(released: Any, cache: Any, item: Any, key: str) -> Any:
    """P1 ignores an item that is sent again under a key that it knows."""
    there = item is not None and key in cache._cache
    return cache._cache.get(key) if there else released(item, key)


@SENDER.broken("invalidate", since=PUT_BACK, fixed="#46747", reported="#31404")
def missed_item_stays_known(released: Any, cache: Any, key: str) -> Any:
    """P0 keeps an entry that P1 misses, so each retry misses it again."""


@BOTH.changed(
    "cache_if_fits",
    "if cache.put_if_fits(key, value): return True",
    "cache.put(key, value)\nreturn True",
    fixed="#52835",
)
def item_larger_than_the_cache_is_an_error() -> None:
    """An item that is larger than the whole cache ends the request instead of being sent uncached."""


@SENDER.broken("get_and_update_item", since=PUT_BACK, fixed="#16593", reported="#16599")
def hit_is_no_use_at_the_sender(released: Any, cache: Any, item: Any, key: str) -> Any:
    """A hit makes an item the newest at P1 and not at P0."""
    order = list(cache._cache.order)
    sent = released(item, key)
    if item is None:
        for other in order[order.index(key) + 1 :]:
            cache._cache.touch(other)
    return sent


@SENDER.broken("get_and_update_item", since=PUT_BACK, fixed="#31927", needs="adapters in the mirror")
def adapter_is_in_the_keys_of_one_side(released: Any, cache: Any, item: Any, key: str) -> Any:
    """P0 has the name of the adapter in its keys, and P1 has not."""
    return released(item, key)
