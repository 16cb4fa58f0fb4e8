"""Hits that end within a block: the block is shared, and copied before a request writes into it.

Full attention and a state-space layer have one pool and one prefix cache. A prompt can be found up to its last hash
block, not only up to its last whole block. A request behind such a hit writes into the block that it ends in, so the
worker copies it first. This component says how long both blocks are held for the copy, and when a prefix can be found.

Read `operations`, `state`, `prefixes`, `tables`, `worker` and `transitions` in this order, then `properties`.
"""

from __future__ import annotations

from cachespec.kernel import Component, variants
from cachespec.partial_hits.configuration import FULL, STATE, Config, interchangeable, malformed
from cachespec.partial_hits.environment import unknown
from cachespec.partial_hits.eras import K2, NORMATIVE_PARTIAL_HITS
from cachespec.partial_hits.operations import (
    OPERATIONS,
    AllocateSlots,
    Dispatch,
    Execute,
    FreeRequest,
    GetComputedBlocks,
    ResetPrefixCache,
)
from cachespec.partial_hits.properties import SAFETY, STEPS
from cachespec.partial_hits.state import GROUPING, OBSERVABLES, Copy, Pool, Progress, View, Write, observe

COMPONENT: Component[Config, Pool, View] = Component(
    name="partial_hits",
    summary="prefix hits that end within a block, and copy-on-write",
    config=Config,
    malformed=malformed,
    operations=OPERATIONS,
    variants=variants(NORMATIVE_PARTIAL_HITS, K2),
    observe=observe,
    observables=OBSERVABLES,
    grouping=GROUPING,
    interchangeable=interchangeable,
    unknown=unknown,
    safety=SAFETY,
    steps=STEPS,
)

__all__ = [
    "COMPONENT",
    "FULL",
    "K2",
    "NORMATIVE_PARTIAL_HITS",
    "STATE",
    "AllocateSlots",
    "Config",
    "Copy",
    "Dispatch",
    "Execute",
    "FreeRequest",
    "GetComputedBlocks",
    "Pool",
    "Progress",
    "ResetPrefixCache",
    "View",
    "Write",
]
