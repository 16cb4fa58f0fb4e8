"""Choices of caches that no era has by itself."""

from __future__ import annotations

from cachespec.kernel import ABSENT, Outcome, Rule, Transition
from cachespec.lru.configuration import Config
from cachespec.lru.eras import STALE_GROWTH
from cachespec.lru.operations import Evict, Get, Lookup, Put
from cachespec.lru.state import Cache, Result


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


RULES: tuple[Rule[Config, Cache], ...] = (
    Rule("entries", "every entry counts as 1: the capacity is a number of entries", wraps={Put: counting_entries}),
    Rule(
        "first-in-first-out",
        "a hit leaves the order of eviction as it is",
        wraps={Get: keeping_the_order, Lookup: keeping_the_order},
    ),
    Rule(
        "lookups-all-counted",
        "a look-up of an absent key is counted, as `get` counts it",
        wraps={Lookup: counting_every_lookup},
    ),
    Rule(
        "grown-counted-twice",
        "an entry that grows counts with its old and its new size while room is made (C-LRU-2)",
        replaces={kind: STALE_GROWTH.transitions[kind] for kind in (Put, Evict)},
    ),
)
