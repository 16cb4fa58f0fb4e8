"""A whole call of the cache by recency, on the frozen containers: every property of the specification holds of it."""

from __future__ import annotations

from icontract import ensure, require

from cachespec import lru
from cachespec.kernel import Operation
from cachespec.kernel.containers import FrozenMap, FrozenQueue

Entries = tuple[tuple[int, int], ...]
"""Keys with their bytes, oldest first."""


def few(entries: Entries, pinned: tuple[bool, ...]) -> bool:
    """At most two distinct keys, no negative size, and for each whether it is pinned."""
    if len(entries) > 2 or len(pinned) != len(entries):
        return False
    return all(size >= 0 for _, size in entries) and (len(entries) < 2 or entries[0][0] != entries[1][0])


def cache_of(entries: Entries, pinned: tuple[bool, ...]) -> lru.Cache:
    """A cache that holds just these."""
    return lru.Cache(
        entries=FrozenMap.of(entries),
        order=FrozenQueue((key, 1) for key, _ in entries),
        used=sum(size for _, size in entries),
        pinned=FrozenMap.of(entry for entry, kept in zip(entries, pinned, strict=True) if kept),
    )


def every_property_holds(entries: Entries, pinned: tuple[bool, ...], room: int, operation: Operation) -> bool:
    """One call on a cache with so many bytes of room: safety afterwards, and every property of the step."""
    before = cache_of(entries, pinned)
    config = lru.Config(capacity=before.used + room, sizes=())
    after, outcome = lru.NORMATIVE_LRU.call(config, before, operation)
    seen, shown = lru.NORMATIVE_LRU.view(config, before), lru.NORMATIVE_LRU.view(config, after)
    safe = all(one.holds(config, shown) for one in lru.COMPONENT.safety)
    return safe and all(one.holds(config, seen, operation, outcome, shown) for one in lru.COMPONENT.steps)


@require(lambda entries, pinned, room, size: few(entries, pinned) and room >= 0 and size >= 0)
@ensure(lambda result: result)
def put_keeps_every_property(entries: Entries, pinned: tuple[bool, ...], room: int, key: int, size: int) -> bool:
    """`cache[key] = value`, with all the evictions that it takes."""
    return every_property_holds(entries, pinned, room, lru.Put(key, size))


@require(lambda entries, pinned, room: few(entries, pinned) and room >= 0)
@ensure(lambda result: result)
def touch_keeps_every_property(entries: Entries, pinned: tuple[bool, ...], room: int, key: int) -> bool:
    """`cache.touch(key)`, present or not."""
    return every_property_holds(entries, pinned, room, lru.Touch(key))


@require(lambda entries, pinned, room: few(entries, pinned) and room >= 0)
@ensure(lambda result: result)
def pop_keeps_every_property(entries: Entries, pinned: tuple[bool, ...], room: int, key: int) -> bool:
    """`cache.pop(key, None)`, present or not."""
    return every_property_holds(entries, pinned, room, lru.Pop(key))


LEDGER = {
    "put_keeps_every_property": "caches of at most 2 entries, any sizes and pins",
    "touch_keeps_every_property": "caches of at most 2 entries, any sizes and pins",
    "pop_keeps_every_property": "caches of at most 2 entries, any sizes and pins",
}
