"""A cache by recency, limited in bytes: the structure under every processor cache of the engine.

Source: semantics.md A3; released as `LRUCache` on top of cachetools. The eviction loop is modelled turn by turn: a
`Put` that finds no room stays in progress, and `Evict` is one turn of its loop, so that a loop that never ends is a
cycle of states rather than a time-out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from cachespec.kernel import (
    ABSENT,
    DONE,
    FAILED,
    HIT,
    MISS,
    NORMATIVE,
    REFUSED,
    TOO_LARGE,
    Check,
    Code,
    Component,
    Containers,
    Demand,
    Kind,
    Map,
    Name,
    Observation,
    Operation,
    Outcome,
    Progress,
    Queue,
    Request,
    Safety,
    Script,
    Served,
    Service,
    Step,
    Variant,
    variants,
)

Key = Annotated[int, Name("key")]

NOBODY = -1


class Config(NamedTuple):
    """Which keys there are and how many bytes each may take."""

    capacity: int
    """Bytes."""
    sizes: tuple[int, ...]
    """Bytes of each key; its position is the key."""
    grown: tuple[int, ...] = ()
    """A second size in bytes of each key; empty where no key changes its size."""
    lookups: int = 1
    """How many counted look-ups a run makes at the most: the counters are part of the state."""
    pins: int = 0
    """How many keys are pinned at the same time at the most."""


def invalid(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    if config.capacity <= 0:
        return f"capacity must be positive, not {config.capacity}"
    if not config.sizes or min((*config.sizes, *config.grown)) < 0:
        return "sizes must be given, none of them negative"
    if config.grown and len(config.grown) != len(config.sizes):
        return f"grown has {len(config.grown)} sizes for {len(config.sizes)} keys"
    if config.lookups < 0 or config.pins < 0:
        return "lookups and pins must not be negative"
    return None


# Operations ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contains(Operation):
    """`key in cache`: pure."""

    key: Key


@dataclass(frozen=True, slots=True)
class Lookup(Operation):
    """`cache[key]`: a hit is counted and becomes the most recent; a miss is an error and is not counted."""

    key: Key


@dataclass(frozen=True, slots=True)
class Get(Operation):
    """`cache.get(key)`: counted; a hit becomes the most recent."""

    key: Key


@dataclass(frozen=True, slots=True)
class Put(Operation):
    """`cache[key] = value`: stored as the most recent, after evicting what room it takes."""

    key: Key
    size: int


@dataclass(frozen=True, slots=True)
class Evict(Operation):
    """One turn of the eviction loop of the call in progress."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("cache", "cache")


@dataclass(frozen=True, slots=True)
class Touch(Operation):
    """`cache.touch(key)`: what is present becomes the most recent."""

    key: Key


@dataclass(frozen=True, slots=True)
class Pop(Operation):
    """`cache.pop(key, None)`: removed if present, silently nothing otherwise."""

    key: Key


@dataclass(frozen=True, slots=True)
class Pin(Operation):
    """`cache.pin(key)`: what is present cannot be evicted any more."""

    key: Key


@dataclass(frozen=True, slots=True)
class Clear(Operation):
    """`cache.clear()`: everything goes, pinned or not, and the counters start again."""


@dataclass(frozen=True, slots=True)
class Stat(Operation):
    """`cache.stat(delta=True)`: hits and total since the previous call; returns (hits, total)."""


# State --------------------------------------------------------------------------------------------------------------

IDLE, PUTTING, CLEARING = 0, 1, 2


class Cache(NamedTuple):
    """Entries and their order are separate, as released, so that they can disagree where a rule is wrong."""

    entries: Map[Key, int]
    order: Queue[Key]
    used: int
    pinned: Map[Key, int]
    hits: int = 0
    total: int = 0
    reported_hits: int = 0
    reported_total: int = 0
    doing: int = IDLE
    putting: Key = NOBODY
    putting_size: int = 0


class View(NamedTuple):
    """What properties and observations read; order is oldest first."""

    entries: tuple[tuple[int, int], ...]
    order: tuple[int, ...]
    used: int
    pinned: tuple[int, ...]
    hits: int
    total: int
    reported_hits: int
    reported_total: int
    in_progress: bool


Result = tuple[Cache, Outcome]


def initial(config: Config, containers: Containers) -> Cache:
    """Empty, nothing counted."""
    return Cache(entries=containers.map(), order=containers.queue(), used=0, pinned=containers.map())


def view(config: Config, cache: Cache) -> View:
    """The same for every variant."""
    return View(
        entries=tuple(cache.entries.items()),
        order=tuple(key for key, _ in cache.order.items()),
        used=cache.used,
        pinned=tuple(key for key, _ in cache.pinned.items()),
        hits=cache.hits,
        total=cache.total,
        reported_hits=cache.reported_hits,
        reported_total=cache.reported_total,
        in_progress=cache.doing != IDLE,
    )


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """Keys from the oldest to the most recent, their sizes, and the counters."""
    sizes = dict(view.entries)
    return {
        "order": view.order,
        "sizes": tuple(sizes.get(key, 0) for key in view.order),
        "used": view.used,
        "hits": view.hits,
        "total": view.total,
    }


# Transitions --------------------------------------------------------------------------------------------------------


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
    """The key holds so many bytes and is the most recent; a pin stays."""
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


def alphabet(config: Config, cache: Cache) -> Iterable[Operation]:
    """Every call in the scope: each key at each of its sizes, within the look-ups and pins that it allows."""
    grown = config.grown or config.sizes
    for key, size in enumerate(config.sizes):
        yield Contains(key)
        yield Touch(key)
        yield from (Put(key, choice) for choice in sorted({size, grown[key]}))
        yield Pop(key)
        if cache.total < config.lookups:
            yield Lookup(key)
            yield Get(key)
        if cache.pinned.length < config.pins:
            yield Pin(key)
    yield Clear()
    if config.lookups > 0:
        yield Stat()


# Properties ---------------------------------------------------------------------------------------------------------


def order_is_entries(config: Config, view: View) -> bool:
    return sorted(view.order) == [key for key, _ in view.entries]


def bytes_are_counted(config: Config, view: View) -> bool:
    return view.used == sum(size for _, size in view.entries) <= config.capacity


def pinned_is_present(config: Config, view: View) -> bool:
    return set(view.pinned) <= {key for key, _ in view.entries}


def counters_agree(config: Config, view: View) -> bool:
    return view.hits <= view.total and view.reported_hits <= view.hits and view.reported_total <= view.total


def report_is_the_difference(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if type(op) is not Stat:
        return True
    counted = (before.hits - before.reported_hits, before.total - before.reported_total)
    return outcome.values == counted and (after.reported_hits, after.reported_total) == (after.hits, after.total)


def membership_stays(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return type(op) not in (Touch, Contains) or sorted(before.order) == sorted(after.order)


def evicted_are_oldest(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """What left, apart from the key that was put, is where the unpinned order began."""
    if type(op) not in (Put, Evict):
        return True
    kept = {key for key, _ in after.entries}
    candidates = [key for key, _ in before.entries if key not in before.pinned]
    by_age = [key for key in before.order if key in candidates]
    left = [key for key in by_age if key not in kept]
    newcomer = op.key if isinstance(op, Put) else NOBODY
    oldest = [key for key in by_age if key != newcomer or key in left]
    return left == oldest[: len(left)] and all(key in kept for key in before.pinned)


def oversize_changes_nothing(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return outcome.code not in (Code.TOO_LARGE, Code.REFUSED) or before == after


SAFETY: tuple[Safety[Config, View], ...] = (
    Safety("LRU-1", "the order holds exactly the entries", order_is_entries, lambda c, v: len(v.order) > 1),
    Safety(
        "LRU-2",
        "the bytes counted are the bytes held, and within the capacity",
        bytes_are_counted,
        lambda c, v: v.used == c.capacity,
    ),
    Safety("LRU-3", "what is pinned is present", pinned_is_present, lambda c, v: bool(v.pinned)),
    Safety("LRU-4", "hits are among the look-ups, reports among the counts", counters_agree, lambda c, v: v.hits > 0),
)

STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "LRU-4/report",
        "a report is what was counted since the previous one",
        report_is_the_difference,
        lambda c, b, op, o, a: type(op) is Stat and o.values[:1] > (0,),
    ),
    Step(
        "LRU-5",
        "touching and asking never change what is in the cache",
        membership_stays,
        lambda c, b, op, o, a: type(op) is Touch and b.order != a.order,
    ),
    Step(
        "LRU-7",
        "what is evicted is the oldest that is not pinned",
        evicted_are_oldest,
        lambda c, b, op, o, a: type(op) in (Put, Evict) and len(a.entries) < len(b.entries) + 1 and len(b.order) > 1,
    ),
    Step(
        "LRU-8",
        "what cannot fit changes nothing",
        oversize_changes_nothing,
        lambda c, b, op, o, a: o.code is Code.TOO_LARGE and bool(b.entries),
    ),
)

PROGRESS: tuple[Progress[Config, View], ...] = (
    Progress("LRU-6", "a call that evicts returns", lambda c, v: v.in_progress),
)


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """Keys of the same sizes."""
    grown = config.grown or config.sizes
    classes: dict[tuple[int, int], list[int]] = {}
    for key, size in enumerate(config.sizes):
        classes.setdefault((size, grown[key]), []).append(key)
    return {"key": tuple(tuple(members) for members in classes.values())}


NORMATIVE_LRU: Variant[Config, Cache, View] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Cache,
    initial=initial,
    transitions={
        Contains: contains,
        Lookup: lookup,
        Get: get,
        Put: put,
        Evict: evict,
        Touch: touch,
        Pop: pop,
        Pin: pin,
        Clear: clear,
        Stat: stat,
    },
    view=view,
    alphabet=alphabet,
    continuation=continuation,
)


# Eras ---------------------------------------------------------------------------------------------------------------


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
        Put: "whether the pinned entries leave room is not asked first",
        Evict: "an error in the middle of the loop leaves the cache half evicted",
    },
)


def touch_anything(config: Config, cache: Cache, op: Touch) -> Result:
    """C-MIR-10: a key that is absent enters the order as a ghost."""
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
        Touch: "C-MIR-10: a key that is absent enters the order",
        Evict: "C-MIR-10: a ghost is chosen and nothing is freed",
        Clear: "C-MIR-10: clearing meets the ghost",
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
    {Put: "A3: the stale size of a growing entry is counted too", Evict: "A3: likewise at every turn"},
)

# Service ------------------------------------------------------------------------------------------------------------


def configure(demand: Demand) -> Config:
    """The sizes of the workload are bytes."""
    return Config(capacity=demand.capacity, sizes=demand.sizes, lookups=0)


def admit(config: Config, request: Request) -> Script:
    """Each content is looked up and, where it is absent, stored."""
    hits = []
    for content in request.contents:
        outcome = yield Get(content)
        hits.append(outcome.code is Code.HIT)
        if outcome.code is Code.MISS:
            yield Put(content, config.sizes[content])
    return Served(tuple(hits))


CHECKS: tuple[Check, ...] = (
    Check("LRU-1", "the order is as long as there are entries", lambda c, s: s.order.length == s.entries.length),
    Check(
        "LRU-2",
        "the bytes counted are the bytes held, and within the capacity",
        lambda c, s: s.used == s.entries.total <= c.capacity,
    ),
    Check("LRU-3", "no more is pinned than is present", lambda c, s: s.pinned.total <= s.used),
    Check("LRU-4", "hits are among the look-ups", lambda c, s: s.hits <= s.total),
)


COMPONENT: Component[Config, Cache, View] = Component(
    name="lru",
    summary="a cache by recency, limited in bytes",
    config=Config,
    invalid=invalid,
    operations=(Contains, Lookup, Get, Put, Evict, Touch, Pop, Pin, Clear, Stat),
    variants=variants(NORMATIVE_LRU, RELEASED, GHOST, STALE_GROWTH),
    observe=observe,
    interchangeable=interchangeable,
    safety=SAFETY,
    steps=STEPS,
    progress=PROGRESS,
    service=Service(configure=configure, admit=admit, checks=CHECKS),
)
