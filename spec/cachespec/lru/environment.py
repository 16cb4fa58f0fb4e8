"""Which calls a scope makes in a state."""

from __future__ import annotations

from collections.abc import Iterable

from cachespec.kernel import Operation, distinct
from cachespec.lru.configuration import Config
from cachespec.lru.operations import Clear, Contains, Get, Lookup, Pin, Pop, Put, Stat, Touch
from cachespec.lru.state import Cache


def alphabet(config: Config, cache: Cache) -> Iterable[Operation]:
    """Every call in the scope: each key at each of its sizes, within the look-ups and pins that it allows."""
    for key, size in enumerate(config.sizes):
        grown = config.grown[key] if config.grown else size
        yield Contains(key)
        yield Touch(key)
        yield from (Put(key, choice) for choice in distinct((size, grown)))
        yield Pop(key)
        if cache.total < config.lookups:
            yield Lookup(key)
            yield Get(key)
        if cache.pinned.length < config.pins:
            yield Pin(key)
    yield Clear()
    if config.lookups > 0:
        yield Stat()
