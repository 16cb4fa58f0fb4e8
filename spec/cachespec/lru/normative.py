"""The normative variant."""

from __future__ import annotations

from cachespec.kernel import NORMATIVE, Variant
from cachespec.lru.configuration import Config
from cachespec.lru.environment import alphabet
from cachespec.lru.operations import Clear, Contains, Evict, Get, Lookup, Pin, Pop, Put, Stat, Touch
from cachespec.lru.state import Cache, View, initial, view
from cachespec.lru.transitions import (
    clear,
    contains,
    continuation,
    evict,
    get,
    lookup,
    pin,
    pop,
    put,
    stat,
    touch,
)

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
