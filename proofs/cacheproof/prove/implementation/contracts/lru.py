"""The caches by recency, normative and of two eras, beside the specification: one call from any small cache."""

from __future__ import annotations

from collections.abc import Callable

from icontract import ensure, require

from cacheimpl.processor_cache.eras import GhostLRUCache, ReleasedLRUCache
from cacheimpl.processor_cache.errors import AllPinnedError, EndlessEvictionError, NotThereError, TooLargeError
from cacheimpl.processor_cache.lru_cache import Entry, LRUCache
from cacheproof.prove.contract import Beside
from cacheproof.prove.implementation.side_by_side import AnyVariant
from cachespec import lru
from cachespec.kernel import ABSENT, DONE, FAILED, HIT, MISS, REFUSED, TOO_LARGE, Code, Operation, Outcome
from cachespec.kernel.containers import FrozenMap, FrozenQueue

Sizes = tuple[int, int]
"""Bytes of the keys 0 and 1, which are there, 0 first."""

KEYS = (0, 1, 2)
"""Two present keys, and an absent one."""


def chosen(key: int) -> int:
    """The same key, and known: the implementation keeps keys in a dictionary."""
    return next((known for known in KEYS if key == known), KEYS[-1])


def cache_of(kind: type[LRUCache[int, int]], sizes: Sizes, room: int, pinned: tuple[int, ...]) -> LRUCache[int, int]:
    """A cache of ours that holds exactly these keys, with this capacity in bytes; a value is its own size."""
    cache = kind(0, getsizeof=lambda value: value)
    cache.maxsize, cache.currsize = sum(sizes) + room, sum(sizes)
    for key, size in enumerate(sizes):
        cache._entries[key] = Entry(size, size)  # noqa: SLF001  # any state, and not only those from empty
        if isinstance(cache, GhostLRUCache):
            cache._order[key] = None  # noqa: SLF001  # likewise
    cache.pinned_items.update(pinned)
    return cache


def specified(sizes: Sizes, pinned: tuple[int, ...]) -> lru.Cache:
    """The same in the specification."""
    return lru.Cache(
        entries=FrozenMap.of(enumerate(sizes)),
        order=FrozenQueue((key, 1) for key, _ in enumerate(sizes)),
        used=sum(sizes),
        pinned=FrozenMap.of((key, sizes[key]) for key in pinned),
    )


def same(mine: LRUCache[int, int], its: lru.Cache) -> bool:
    """Order, sizes, bytes, pins and counters."""
    hits, total = mine.stat()
    entries = tuple((key, mine.size_of(key)) for key in sorted(mine))
    return (
        tuple(mine.order) == tuple(key for key, _ in its.order.items())
        and entries == tuple(its.entries.items())
        and mine.currsize == its.used
        and sorted(mine.pinned_items) == [key for key, _ in its.pinned.items()]
        and (hits, total) == (its.hits, its.total)
    )


def agree(
    sizes: Sizes,
    room: int,
    operation: Operation,
    call: Callable[[LRUCache[int, int]], Outcome],
    *,
    pinned: tuple[int, ...] = (),
    kind: type[LRUCache[int, int]] = LRUCache,
    variant: AnyVariant = lru.NORMATIVE_LRU,
) -> bool:
    """One call on both: the same answer, and the same state afterwards."""
    mine = cache_of(kind, sizes, room, pinned)
    its, outcome = variant.call(lru.Config(sum(sizes) + room, ()), specified(sizes, pinned), operation)
    return call(mine) == outcome and same(mine, its)


def put_of(key: int, size: int, refused: Outcome = REFUSED) -> Callable[[LRUCache[int, int]], Outcome]:
    """`cache[key] = value`, and the outcome that its exceptions stand for."""

    def put(cache: LRUCache[int, int]) -> Outcome:
        try:
            cache[key] = size
        except TooLargeError:
            return TOO_LARGE
        except AllPinnedError:
            return refused
        except EndlessEvictionError:
            return Outcome(Code.DIVERGED)
        return DONE

    return put


def if_there(key: int, call: Callable[[LRUCache[int, int]], object]) -> Callable[[LRUCache[int, int]], Outcome]:
    """The call returns nothing of interest; the presence of the key is read before."""

    def asked(cache: LRUCache[int, int]) -> Outcome:
        there = key in cache
        call(cache)
        return DONE if there else ABSENT

    return asked


def lookup_of(key: int) -> Callable[[LRUCache[int, int]], Outcome]:
    """`cache[key]`, which raises for an absent key."""

    def lookup(cache: LRUCache[int, int]) -> Outcome:
        try:
            return HIT if cache[key] == cache.size_of(key) else DONE
        except NotThereError:
            return ABSENT

    return lookup


def pin_of(key: int) -> Callable[[LRUCache[int, int]], Outcome]:
    """`cache.pin(key)`, which raises for an absent key."""

    def pin(cache: LRUCache[int, int]) -> Outcome:
        try:
            cache.pin(key)
        except ValueError:
            return ABSENT
        return DONE

    return pin


def cleared(cache: LRUCache[int, int]) -> Outcome:
    """`cache.clear()`."""
    cache.clear()
    return DONE


@require(lambda sizes, room, size, key: min(*sizes, room, size) >= 0 and 0 <= key <= 2)
@ensure(lambda result: result)
def put(sizes: Sizes, room: int, key: int, size: int) -> bool:
    """`cache[key] = value`, with all the evictions that it takes."""
    known = chosen(key)
    return agree(sizes, room, lru.Put(known, size), put_of(known, size))


@require(lambda sizes, room, size: min(*sizes, room, size) >= 0)
@ensure(lambda result: result)
def put_beside_a_pin(sizes: Sizes, room: int, size: int) -> bool:
    """The same if the oldest entry is pinned: it stays, or the call is refused and changes nothing."""
    return agree(sizes, room, lru.Put(2, size), put_of(2, size), pinned=(0,))


@require(lambda sizes, room, key: min(*sizes, room) >= 0 and 0 <= key <= 2)
@ensure(lambda result: result)
def lookup(sizes: Sizes, room: int, key: int) -> bool:
    """`cache[key]`: only a hit is counted."""
    known = chosen(key)
    return agree(sizes, room, lru.Lookup(known), lookup_of(known))


@require(lambda sizes, room, key: min(*sizes, room) >= 0 and 0 <= key <= 2)
@ensure(lambda result: result)
def get(sizes: Sizes, room: int, key: int) -> bool:
    """`cache.get(key)`: every look-up is counted."""
    known = chosen(key)
    return agree(sizes, room, lru.Get(known), lambda cache: MISS if cache.get(known) is None else HIT)


@require(lambda sizes, room, key: min(*sizes, room) >= 0 and 0 <= key <= 2)
@ensure(lambda result: result)
def touch(sizes: Sizes, room: int, key: int) -> bool:
    """`cache.touch(key)`, present or not."""
    known = chosen(key)
    return agree(sizes, room, lru.Touch(known), if_there(known, lambda cache: cache.touch(known)))


@require(lambda sizes, room, key: min(*sizes, room) >= 0 and 0 <= key <= 2)
@ensure(lambda result: result)
def pop(sizes: Sizes, room: int, key: int) -> bool:
    """`cache.pop(key, None)`, present or not."""
    known = chosen(key)
    return agree(sizes, room, lru.Pop(known), if_there(known, lambda cache: cache.pop(known)))


@require(lambda sizes, room, key: min(*sizes, room) >= 0 and 0 <= key <= 2)
@ensure(lambda result: result)
def pin(sizes: Sizes, room: int, key: int) -> bool:
    """`cache.pin(key)`: only a present key can be pinned."""
    known = chosen(key)
    return agree(sizes, room, lru.Pin(known), pin_of(known), pinned=(1,))


@require(lambda sizes, room, key: min(*sizes, room) >= 0 and 0 <= key <= 2)
@ensure(lambda result: result)
def contains(sizes: Sizes, room: int, key: int) -> bool:
    """`key in cache` changes nothing."""
    known = chosen(key)
    return agree(sizes, room, lru.Contains(known), lambda cache: HIT if known in cache else MISS)


@require(lambda sizes, room: min(*sizes, room) >= 0)
@ensure(lambda result: result)
def clear(sizes: Sizes, room: int) -> bool:
    """`cache.clear()`: entries, order, pins and bytes together."""
    return agree(sizes, room, lru.Clear(), cleared, pinned=(1,))


@require(lambda sizes, room, size: min(*sizes, room, size) >= 0)
@ensure(lambda result: result)
def put_as_released(sizes: Sizes, room: int, size: int) -> bool:
    """M3: an error in the middle of an eviction leaves the cache partly evicted."""
    call = put_of(2, size, FAILED)
    return agree(sizes, room, lru.Put(2, size), call, pinned=(1,), kind=ReleasedLRUCache, variant=lru.RELEASED)


@require(lambda sizes, room, key: min(*sizes, room) >= 0 and 0 <= key <= 2)
@ensure(lambda result: result)
def touch_leaving_a_ghost(sizes: Sizes, room: int, key: int) -> bool:
    """M2: an absent key enters the order."""
    known = chosen(key)
    call = if_there(known, lambda cache: cache.touch(known))
    return agree(sizes, room, lru.Touch(known), call, kind=GhostLRUCache, variant=lru.GHOST)


STATES = "2 entries of any sizes, any room"
SIZES = {"sizes": (3, 4), "room": 2}
LEDGER = {
    "put": Beside(f"{STATES}, 3 keys", LRUCache.put, {**SIZES, "key": 2, "size": 5}, 20),
    "put_beside_a_pin": Beside(f"{STATES}, the oldest pinned", LRUCache.put, {**SIZES, "size": 5}, 8),
    "lookup": Beside(f"{STATES}, 3 keys", LRUCache.__getitem__, {**SIZES, "key": 0}, 3),
    "get": Beside(f"{STATES}, 3 keys", LRUCache.get, {**SIZES, "key": 0}, 3),
    "touch": Beside(f"{STATES}, 3 keys", LRUCache.touch, {**SIZES, "key": 0}, 3),
    "pop": Beside(f"{STATES}, 3 keys", LRUCache.pop, {**SIZES, "key": 0}, 3),
    "pin": Beside(f"{STATES}, 3 keys, the newest pinned", LRUCache.pin, {**SIZES, "key": 0}, 3),
    "contains": Beside(f"{STATES}, 3 keys", LRUCache.__contains__, {**SIZES, "key": 0}, 3),
    "clear": Beside(f"{STATES}, the newest pinned", LRUCache.clear, SIZES),
    "put_as_released": Beside(f"{STATES}, the newest pinned", LRUCache.put, {**SIZES, "size": 5}, 8),
    "touch_leaving_a_ghost": Beside(f"{STATES}, 3 keys", GhostLRUCache.touch, {**SIZES, "key": 2}, 3),
}
