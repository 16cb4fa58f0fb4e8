"""What real systems did: the normative variant with some transitions replaced."""

from __future__ import annotations

from cachespec.kernel import ABSENT, DONE, FAILED, TOO_LARGE
from cachespec.lru.configuration import NOBODY, Config, Key
from cachespec.lru.normative import NORMATIVE_LRU
from cachespec.lru.operations import Clear, Evict, Put, Touch
from cachespec.lru.state import CLEARING, IDLE, PUTTING, Cache, Result
from cachespec.lru.transitions import (
    begin_or_store,
    evict_oldest,
    finished,
    recent,
    stored,
    without,
)


def put_until_pinned(config: Config, cache: Cache, op: Put) -> Result:
    """Released: the loop starts without asking whether the pins leave room."""
    if op.size > config.capacity:
        return cache, TOO_LARGE
    return begin_or_store(config, cache, op.key, op.size)


def evict_until_pinned(config: Config, cache: Cache, op: Evict) -> Result:
    """Released: "all items are pinned" comes in the middle of the loop; what was evicted until then is gone."""
    if cache.doing != PUTTING:
        return cache, ABSENT
    if cache.order.oldest_outside(cache.pinned, NOBODY) == NOBODY:
        return finished(cache), FAILED
    return begin_or_store(config, evict_oldest(cache), cache.putting, cache.putting_size)


RELEASED = NORMATIVE_LRU.era(
    "M3",
    "lru-2026-06",
    {Put: put_until_pinned, Evict: evict_until_pinned},
    {
        Put: "does not check first whether the pinned keys leave room",
        Evict: "an error in the eviction loop leaves the cache partly evicted",
    },
)


def touch_anything(config: Config, cache: Cache, op: Touch) -> Result:
    """C-MIR-10: an absent key enters the recency order as a ghost."""
    return recent(cache, op.key), DONE if cache.entries.has(op.key) else ABSENT


def evict_whoever_is_oldest(config: Config, cache: Cache, op: Evict) -> Result:
    """C-MIR-10: when the oldest is a ghost, nothing is freed, the ghost stays, and the loop goes on for ever."""
    victim = cache.order.oldest(NOBODY) if cache.doing == CLEARING else cache.order.oldest_outside(cache.pinned, NOBODY)
    if cache.doing == IDLE:
        return cache, ABSENT
    if victim == NOBODY:
        return finished(cache), FAILED
    evicted = without(cache, victim) if cache.entries.has(victim) else cache
    if cache.doing == CLEARING:
        return clear_or_continue(evicted)
    return begin_or_store(config, evicted, cache.putting, cache.putting_size)


def clear_or_continue(cache: Cache) -> Result:
    """The loop of `clear` runs while there are entries; a ghost newer than all of them survives it."""
    if cache.entries.length > 0:
        return cache._replace(doing=CLEARING), DONE
    return finished(cache)._replace(hits=0, total=0, reported_hits=0, reported_total=0), DONE


def clear_by_popping(config: Config, cache: Cache, op: Clear) -> Result:
    """C-MIR-10: `clear` pops the oldest until no entry is left, and meets ghosts as eviction does."""
    return clear_or_continue(cache)


GHOST = RELEASED.era(
    "M2",
    "lru-2025-11",
    {Touch: touch_anything, Evict: evict_whoever_is_oldest, Clear: clear_by_popping},
    {
        Touch: "C-MIR-10: an absent key enters the recency order",
        Evict: "C-MIR-10: a ghost key is chosen and frees nothing",
        Clear: "C-MIR-10: clearing fails at the ghost key",
    },
)


def put_counting_twice(config: Config, cache: Cache, op: Put) -> Result:
    """Cachetools up to 7.1.6: a growing entry counts with its old and its new size, so too much is evicted."""
    if op.size > config.capacity:
        return cache, TOO_LARGE
    return store_counting_twice(config, cache, op.key, op.size)


def store_counting_twice(config: Config, cache: Cache, key: Key, size: int) -> Result:
    """The test of the loop ignores that the key's own bytes will be given back."""
    grows = not cache.entries.has(key) or cache.entries.get(key, 0) < size
    if grows and cache.used + size > config.capacity:
        return cache._replace(doing=PUTTING, putting=key, putting_size=size), DONE
    return finished(stored(cache, key, size)), DONE


def evict_counting_twice(config: Config, cache: Cache, op: Evict) -> Result:
    """The same test at every turn."""
    if cache.doing != PUTTING:
        return cache, ABSENT
    if cache.order.oldest_outside(cache.pinned, NOBODY) == NOBODY:
        return finished(cache), FAILED
    return store_counting_twice(config, evict_oldest(cache), cache.putting, cache.putting_size)


STALE_GROWTH = RELEASED.era(
    "stale-growth",
    "lru-cachetools-7.1.6",
    {Put: put_counting_twice, Evict: evict_counting_twice},
    {Put: "A3: also counts the old size of a growing entry", Evict: "A3: likewise at every turn"},
)
