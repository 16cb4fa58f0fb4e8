"""Bugs in the cache by recency."""

from __future__ import annotations

from typing import Any

from .declaring import Place

CACHE = Place("vllm.utils.cache:LRUCache", "vllm.utils:LRUCache")


@CACHE.broken("touch")
def touch_does_nothing(released: Any, cache: Any, key: Any) -> Any:
    """A touch does not change the order."""


@CACHE.broken("popitem")
def newest_goes(released: Any, cache: Any, remove_pinned: Any = None) -> Any:
    """The newest key is evicted instead of the oldest."""
    key = next(key for key in reversed(list(cache.order)) if remove_pinned or key not in cache.pinned_items)
    return key, cache.pop(key)


@CACHE.broken("popitem")
def pinned_goes(released: Any, cache: Any, remove_pinned: Any = None) -> Any:
    """A pinned key is evicted like any other."""
    return released(remove_pinned=True)


@CACHE.broken("__init__")
def one_byte_more(released: Any, cache: Any, capacity: Any, getsizeof: Any = None) -> Any:
    """The capacity is one byte more than it was set to."""
    return released(capacity + 1, getsizeof)


@CACHE.broken("__init__")
def all_are_alike(released: Any, cache: Any, capacity: Any, getsizeof: Any = None) -> Any:
    """Every value counts as one byte."""
    return released(capacity, lambda value: 1)


@CACHE.broken("put")
def size_stays(released: Any, cache: Any, key: Any, value: Any) -> Any:
    """A replaced value keeps the size of the old one."""
    if key not in cache:
        return released(key, value)
    vars(cache)["_Cache__data"][key] = value
    return cache.touch(key)


@CACHE.broken("get")
def get_is_no_use(released: Any, cache: Any, key: Any, default: Any = None) -> Any:
    """A key that is read does not become the newest."""
    order = vars(cache)["_LRUCache__order"]
    before = list(order)
    value = released(key, default)
    for one in before:
        if one in order:
            order.move_to_end(one)
    return value


@CACHE.broken("get")
def misses_do_not_count(released: Any, cache: Any, key: Any, default: Any = None) -> Any:
    """A miss does not count as a query."""
    total, there = cache._total, key in cache
    value = released(key, default)
    if not there:
        cache._total = total
    return value


@CACHE.broken("_unpin")
def pins_stay(released: Any, cache: Any, key: Any) -> Any:
    """A pinned key that is removed and stored again is still pinned."""


@CACHE.broken("pin")
def absent_is_pinned(released: Any, cache: Any, key: Any) -> Any:
    """An absent key can be pinned."""
    cache.pinned_items.add(key)


@CACHE.broken("clear")
def counters_stay(released: Any, cache: Any) -> Any:
    """Clearing does not reset the counts of hits and queries."""
    counted = cache._hits, cache._total
    released()
    cache._hits, cache._total = counted


@CACHE.broken("stat")
def told_again(released: Any, cache: Any, *, delta: bool = False) -> Any:
    """The counts since the last report start at the beginning."""
    return released(delta=False)


@CACHE.broken("put")
def room_first(released: Any, cache: Any, key: Any, value: Any) -> Any:
    """A value that never fits empties the cache before it is rejected."""
    if value > cache.maxsize:
        cache.clear()
    return released(key, value)


@CACHE.broken("pop")
def one_more_goes(released: Any, cache: Any, key: Any, default: Any = None) -> Any:
    """Removing a key also evicts the oldest other key."""
    value = released(key, default)
    if value is not None and len(cache):
        oldest = next(iter(cache.order))
        cache.__delitem__(oldest)
    return value
