"""KV cache groups: layers of different kinds share one pool of blocks, and one prefix cache.

A group is layers of one kind: full attention, sliding window, chunked local attention, state space or cross attention.
A request has a table for each group. A hit is a prefix that all groups have, and each kind needs other blocks for it;
what is behind a window goes back while the request runs.

Read `operations`, `state` and `transitions` in this order, then `properties` and `steps`; `environment` says which
calls a scope makes.
"""

from __future__ import annotations

from cachespec.kernel import Component, variants
from cachespec.layer_groups.configuration import (
    CHUNK,
    CROSS,
    FULL,
    STATE,
    UNSPECIFIED,
    WINDOW,
    Config,
    interchangeable,
    malformed,
)
from cachespec.layer_groups.environment import unknown
from cachespec.layer_groups.eras import K1, K1B, K2, NORMATIVE_LAYER_GROUPS, SAME_STEP
from cachespec.layer_groups.operations import (
    OPERATIONS,
    AllocateSlots,
    Commit,
    FreeRequest,
    GetComputedBlocks,
    NewStep,
    ResetPrefixCache,
)
from cachespec.layer_groups.properties import SAFETY, STEPS
from cachespec.layer_groups.service import SERVICE
from cachespec.layer_groups.state import GROUPING, OBSERVABLES, Pool, Progress, Row, View, observe

COMPONENT: Component[Config, Pool, View] = Component(
    name="layer_groups",
    summary="groups of layers of different kinds in one pool of blocks",
    config=Config,
    malformed=malformed,
    unspecified=UNSPECIFIED,
    operations=OPERATIONS,
    variants=variants(NORMATIVE_LAYER_GROUPS, K1, K1B, K2, SAME_STEP),
    observe=observe,
    observables=OBSERVABLES,
    grouping=GROUPING,
    interchangeable=interchangeable,
    unknown=unknown,
    safety=SAFETY,
    steps=STEPS,
    service=SERVICE,
)

__all__ = [
    "CHUNK",
    "COMPONENT",
    "CROSS",
    "FULL",
    "K1",
    "K1B",
    "K2",
    "NORMATIVE_LAYER_GROUPS",
    "SAME_STEP",
    "STATE",
    "WINDOW",
    "AllocateSlots",
    "Commit",
    "Config",
    "FreeRequest",
    "GetComputedBlocks",
    "NewStep",
    "Pool",
    "Progress",
    "ResetPrefixCache",
    "Row",
    "View",
]
