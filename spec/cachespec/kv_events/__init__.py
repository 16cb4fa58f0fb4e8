"""KV cache events: what a manager reports of the blocks that can be found, and what a subscriber then knows.

A router sends a request to the engine that has the longest prefix of it. It knows from events which prefixes there
are: blocks stored, blocks removed, all cleared. The manager of `kv_blocks` is a part of this component, unchanged.
Here is what its calls tell.

Read `state`, `telling` and `transitions` in this order, then `properties`.
"""

from __future__ import annotations

from cachespec.kernel import Component, variants
from cachespec.kv_events.configuration import Config, config_of, interchangeable, malformed, unknown
from cachespec.kv_events.eras import K1, K1B, K2, NORMATIVE_KV_EVENTS
from cachespec.kv_events.operations import OPERATIONS, TakeEvents
from cachespec.kv_events.properties import PROGRESS, SAFETY, STEPS
from cachespec.kv_events.state import (
    CLEARED,
    GROUPING,
    OBSERVABLES,
    REMOVED,
    STORED,
    Event,
    Publisher,
    View,
    observe,
)

COMPONENT: Component[Config, Publisher, View] = Component(
    name="kv_events",
    summary="KV cache events: what a manager reports of the blocks that can be found",
    config=Config,
    malformed=malformed,
    operations=OPERATIONS,
    variants=variants(NORMATIVE_KV_EVENTS, K1, K1B, K2),
    observe=observe,
    observables=OBSERVABLES,
    grouping=GROUPING,
    interchangeable=interchangeable,
    config_of=config_of,
    unknown=unknown,
    safety=SAFETY,
    steps=STEPS,
    progress=PROGRESS,
)

__all__ = [
    "CLEARED",
    "COMPONENT",
    "K1",
    "K1B",
    "K2",
    "NORMATIVE_KV_EVENTS",
    "REMOVED",
    "STORED",
    "Config",
    "Event",
    "Publisher",
    "TakeEvents",
    "View",
]
