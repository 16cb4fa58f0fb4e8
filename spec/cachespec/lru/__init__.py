"""A cache by recency, limited in bytes: the structure under every processor cache of the engine.

Released as `LRUCache`, on top of the package cachetools. The eviction loop is modelled turn by turn: a `Put` that finds
no room stays in progress, and `Evict` is one turn of its loop, so that a loop that never ends is a cycle of states
rather than a time-out.

Read `operations`, `state` and `transitions` in this order, then `properties` and `eras`.
"""

from __future__ import annotations

from cachespec.kernel import Component, variants
from cachespec.lru.configuration import NOBODY, Config, Key, interchangeable, malformed
from cachespec.lru.eras import GHOST, RELEASED, STALE_GROWTH
from cachespec.lru.normative import NORMATIVE_LRU
from cachespec.lru.operations import OPERATIONS, Clear, Contains, Evict, Get, Lookup, Pin, Pop, Put, Stat, Touch
from cachespec.lru.properties import PROGRESS, SAFETY, STEPS
from cachespec.lru.rules import RULES
from cachespec.lru.service import SERVICE
from cachespec.lru.state import CLEARING, GROUPING, IDLE, OBSERVABLES, PUTTING, Cache, Result, View, observe
from cachespec.lru.transitions import cannot_fit, clear, evict_oldest, lacks_room, recent

__all__ = [
    "CLEARING",
    "COMPONENT",
    "GHOST",
    "IDLE",
    "NOBODY",
    "NORMATIVE_LRU",
    "PUTTING",
    "RELEASED",
    "STALE_GROWTH",
    "Cache",
    "Clear",
    "Config",
    "Contains",
    "Evict",
    "Get",
    "Key",
    "Lookup",
    "Pin",
    "Pop",
    "Put",
    "Result",
    "Stat",
    "Touch",
    "View",
    "cannot_fit",
    "clear",
    "evict_oldest",
    "lacks_room",
    "recent",
]

COMPONENT: Component[Config, Cache, View] = Component(
    name="lru",
    summary="an LRU cache limited in bytes",
    config=Config,
    malformed=malformed,
    operations=OPERATIONS,
    variants=variants(NORMATIVE_LRU, RELEASED, GHOST, STALE_GROWTH),
    observe=observe,
    observables=OBSERVABLES,
    grouping=GROUPING,
    interchangeable=interchangeable,
    safety=SAFETY,
    steps=STEPS,
    progress=PROGRESS,
    service=SERVICE,
    rules=RULES,
)
