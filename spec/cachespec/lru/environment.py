"""Which calls a scope makes in a state."""

from __future__ import annotations

from collections.abc import Iterable

from cachespec.kernel import Operation
from cachespec.lru.configuration import Config
from cachespec.lru.operations import Clear, Contains, Get, Lookup, Pin, Pop, Put, Stat, Touch
from cachespec.lru.state import Cache


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
