"""The normative transitions. Each says which properties it serves."""

from __future__ import annotations

from cachespec.kernel import ABSENT, DONE, HIT, MISS, REFUSED, TOO_LARGE, Code, Operation, Outcome
from cachespec.lru.configuration import NOBODY, Config, Key
from cachespec.lru.operations import Clear, Contains, Evict, Get, Lookup, Pin, Pop, Put, Stat, Touch
from cachespec.lru.state import IDLE, PUTTING, Cache, Result


def recent(cache: Cache, key: Key) -> Cache:
    """The key becomes the most recent."""
    return cache._replace(order=cache.order.push(key, 1))


def without(cache: Cache, key: Key) -> Cache:
    """LRU-1, LRU-2, LRU-3: an entry leaves entries, order, pins and the byte count together."""
    return cache._replace(
        entries=cache.entries.remove(key),
        order=cache.order.remove(key),
        used=cache.used - cache.entries.get(key, 0),
        pinned=cache.pinned.remove(key),
    )


def stored(cache: Cache, key: Key, size: int) -> Cache:
    """The key holds `size` bytes and is the most recent; a pin stays."""
    pinned = cache.pinned.set(key, size) if cache.pinned.has(key) else cache.pinned
    return recent(cache, key)._replace(
        entries=cache.entries.set(key, size),
        used=cache.used - cache.entries.get(key, 0) + size,
        pinned=pinned,
    )


def lacks_room(config: Config, cache: Cache, key: Key, size: int) -> bool:
    """The test of the eviction loop: what the key holds already counts as free."""
    return cache.used - cache.entries.get(key, 0) + size > config.capacity


def cannot_fit(config: Config, cache: Cache, key: Key, size: int) -> bool:
    """Whether the pinned entries alone leave too little room."""
    return cache.pinned.total - cache.pinned.get(key, 0) + size > config.capacity


def evict_oldest(cache: Cache) -> Cache:
    """The body of the eviction loop. LRU-6: an entry goes at every turn. LRU-7: it is the oldest that is not pinned."""
    return without(cache, cache.order.oldest_outside(cache.pinned, NOBODY))


def contains(config: Config, cache: Cache, op: Contains) -> Result:
    """LRU-5: a question changes nothing."""
    return cache, HIT if cache.entries.has(op.key) else MISS


def lookup(config: Config, cache: Cache, op: Lookup) -> Result:
    """LRU-4: only a hit is counted."""
    if not cache.entries.has(op.key):
        return cache, ABSENT
    return recent(cache, op.key)._replace(hits=cache.hits + 1, total=cache.total + 1), HIT


def get(config: Config, cache: Cache, op: Get) -> Result:
    """LRU-4: every look-up is counted, hits apart."""
    counted = cache._replace(total=cache.total + 1)
    if not cache.entries.has(op.key):
        return counted, MISS
    return recent(counted, op.key)._replace(hits=cache.hits + 1), HIT


def put(config: Config, cache: Cache, op: Put) -> Result:
    """LRU-8: what can never fit changes nothing. Where room lacks, the call continues with `Evict`."""
    if op.size > config.capacity:
        return cache, TOO_LARGE
    if cannot_fit(config, cache, op.key, op.size):
        return cache, REFUSED
    return begin_or_store(config, cache, op.key, op.size)


def begin_or_store(config: Config, cache: Cache, key: Key, size: int) -> Result:
    """Store at once where there is room; otherwise the put is in progress."""
    if lacks_room(config, cache, key, size):
        return cache._replace(doing=PUTTING, putting=key, putting_size=size), DONE
    return finished(stored(cache, key, size)), DONE


def finished(cache: Cache) -> Cache:
    """No call is in progress."""
    return cache._replace(doing=IDLE, putting=NOBODY, putting_size=0)


def evict(config: Config, cache: Cache, op: Evict) -> Result:
    """One turn: evict the oldest, and store as soon as there is room."""
    if cache.doing != PUTTING:
        return cache, ABSENT
    return begin_or_store(config, evict_oldest(cache), cache.putting, cache.putting_size)


def touch(config: Config, cache: Cache, op: Touch) -> Result:
    """LRU-1, LRU-5: a key that is absent stays out of the order (C-MIR-10)."""
    if not cache.entries.has(op.key):
        return cache, ABSENT
    return recent(cache, op.key), DONE


def pop(config: Config, cache: Cache, op: Pop) -> Result:
    """What is absent is silently nothing."""
    if not cache.entries.has(op.key):
        return cache, ABSENT
    return without(cache, op.key), DONE


def pin(config: Config, cache: Cache, op: Pin) -> Result:
    """LRU-3: only what is present can be pinned."""
    if not cache.entries.has(op.key):
        return cache, ABSENT
    return cache._replace(pinned=cache.pinned.set(op.key, cache.entries.get(op.key, 0))), DONE


def holds_any(cache: Cache) -> bool:
    """The test of the clearing loop; its measure is the length of the order."""
    return cache.order.length > 0


def clear(config: Config, cache: Cache, op: Clear) -> Result:
    """LRU-1, LRU-2: entries, order, pins, bytes and counters start again together."""
    while holds_any(cache):
        cache = without(cache, cache.order.oldest(NOBODY))
    return cache._replace(hits=0, total=0, reported_hits=0, reported_total=0), DONE


def stat(config: Config, cache: Cache, op: Stat) -> Result:
    """LRU-4: what was counted since the previous report; the mark moves."""
    hits, total = cache.hits - cache.reported_hits, cache.total - cache.reported_total
    return cache._replace(reported_hits=cache.hits, reported_total=cache.total), Outcome(Code.DONE, (hits, total))


def continuation(config: Config, cache: Cache) -> Operation | None:
    """A call in progress goes on with the next turn of its loop."""
    return Evict() if cache.doing != IDLE else None
