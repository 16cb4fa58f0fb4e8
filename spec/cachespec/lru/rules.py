"""Choices of caches that no era has by itself."""

from __future__ import annotations

from cachespec.kernel import ABSENT, Outcome, Rule, Transition
from cachespec.lru.configuration import Config
from cachespec.lru.eras import STALE_GROWTH
from cachespec.lru.operations import Clear, Contains, Evict, Get, Lookup, Pop, Put
from cachespec.lru.state import Cache, Result
from cachespec.lru.transitions import recent


def counting_entries(own: Transition[Config, Cache, Put]) -> Transition[Config, Cache, Put]:
    """Whatever its size, an entry takes one of the capacity."""

    def put(config: Config, cache: Cache, op: Put) -> Result:
        return own(config, cache, Put(op.key, 1))

    return put


def keeping_the_order(own: Transition[Config, Cache, Get]) -> Transition[Config, Cache, Get]:
    """A hit leaves the order as it is."""

    def look_up(config: Config, cache: Cache, op: Get) -> Result:
        after, outcome = own(config, cache, op)
        return after._replace(order=cache.order), outcome

    return look_up


def counting_every_lookup(own: Transition[Config, Cache, Lookup]) -> Transition[Config, Cache, Lookup]:
    """A key that is absent is counted too."""

    def look_up(config: Config, cache: Cache, op: Lookup) -> tuple[Cache, Outcome]:
        after, outcome = own(config, cache, op)
        return (after._replace(total=after.total + 1) if outcome == ABSENT else after), outcome

    return look_up


def counting_as_lookup(own: Transition[Config, Cache, Pop]) -> Transition[Config, Cache, Pop]:
    """Taking a key out is a look-up too: a hit if it was there."""

    def pop(config: Config, cache: Cache, op: Pop) -> Result:
        hits = cache.hits + (1 if cache.entries.has(op.key) else 0)
        return own(config, cache._replace(hits=hits, total=cache.total + 1), op)

    return pop


def refreshing(own: Transition[Config, Cache, Contains]) -> Transition[Config, Cache, Contains]:
    """A key that was asked for is the most recent."""

    def contains(config: Config, cache: Cache, op: Contains) -> Result:
        after, outcome = own(config, cache, op)
        return (recent(after, op.key) if after.entries.has(op.key) else after), outcome

    return contains


def keeping_counters(own: Transition[Config, Cache, Clear]) -> Transition[Config, Cache, Clear]:
    """What was counted stays counted."""

    def clear(config: Config, cache: Cache, op: Clear) -> Result:
        after, outcome = own(config, cache, op)
        counted = after._replace(hits=cache.hits, total=cache.total)
        return counted._replace(reported_hits=cache.reported_hits, reported_total=cache.reported_total), outcome

    return clear


RULES: tuple[Rule[Config, Cache], ...] = (
    Rule(
        "entries",
        "every entry counts as 1: the capacity is a number of entries",
        wraps={Put: counting_entries},
        gives_up=("LRU-8/stored",),
    ),
    Rule(
        "first-in-first-out",
        "a hit leaves the order of eviction as it is",
        wraps={Get: keeping_the_order, Lookup: keeping_the_order},
        gives_up=("LRU-7/recency",),
    ),
    Rule(
        "lookups-all-counted",
        "a look-up of an absent key is counted, as `get` counts it",
        wraps={Lookup: counting_every_lookup},
        gives_up=("LRU-4/count",),
    ),
    Rule(
        "pops-counted",
        "`pop` counts as a look-up",
        wraps={Pop: counting_as_lookup},
        gives_up=("LRU-4/count",),
    ),
    Rule(
        "clear-keeps-counters",
        "`clear` leaves the counters as they are",
        wraps={Clear: keeping_counters},
        gives_up=("LRU-4/count",),
    ),
    Rule(
        "contains-refreshes",
        "a key for which `contains` is asked becomes the most recent",
        wraps={Contains: refreshing},
        gives_up=("LRU-5", "LRU-7/recency"),
    ),
    Rule(
        "grown-counted-twice",
        "an entry that grows counts with its old and its new size while room is made (C-LRU-2)",
        replaces={kind: STALE_GROWTH.transitions[kind] for kind in (Put, Evict)},
        gives_up=("LRU-7/needed", "LRU-8"),
    ),
)
