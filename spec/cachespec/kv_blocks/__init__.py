"""The KV cache manager: which blocks hold whose keys and values, and which prefixes can be found again.

KV memory is a pool of blocks of equal size. A request has a table of blocks; full blocks are shared by content through
the prefix map; what nobody holds waits in the free queue until it is taken, and can be found until then. Everything
here is accounting on the scheduler's side; the bytes are the workers'.

Read `operations`, `state` and `transitions` in this order, then `properties`; `environment` says which calls a scope
makes.
"""

from __future__ import annotations

from cachespec.kernel import Component, variants
from cachespec.kv_blocks.configuration import UNSPECIFIED, Config, interchangeable, malformed
from cachespec.kv_blocks.environment import unknown
from cachespec.kv_blocks.eras import (
    K0,
    K0_LATE_TOUCH,
    K0_ONE_TOKEN,
    K0_TOUCH_FIRST,
    K0_UNLIMITED,
    K0B,
    K1,
    K1_SHORT,
    K1B,
    K2,
    NORMATIVE_KV_BLOCKS,
)
from cachespec.kv_blocks.operations import (
    OPERATIONS,
    AllocateGroups,
    AllocateSlots,
    AppendSlots,
    Commit,
    CommonPrefix,
    EvictBlock,
    FreeRequest,
    GetComputedBlocks,
    ResetPrefixCache,
    RollBack,
    Withdraw,
)
from cachespec.kv_blocks.properties import SAFETY, STEPS
from cachespec.kv_blocks.rules import RULES
from cachespec.kv_blocks.service import SERVICE
from cachespec.kv_blocks.state import GROUPING, OBSERVABLES, OWN_NAMES, Holding, Pool, View, observe

COMPONENT: Component[Config, Pool, View] = Component(
    name="kv_blocks",
    summary="KV blocks shared by prefix and reallocated from the free queue",
    config=Config,
    malformed=malformed,
    unspecified=UNSPECIFIED,
    operations=OPERATIONS,
    variants=variants(
        NORMATIVE_KV_BLOCKS,
        K0,
        K0B,
        K1,
        K1B,
        K2,
        K0_UNLIMITED,
        K0_TOUCH_FIRST,
        K0_LATE_TOUCH,
        K0_ONE_TOKEN,
        K1_SHORT,
    ),
    observe=observe,
    observables=OBSERVABLES,
    grouping=GROUPING,
    interchangeable=interchangeable,
    unknown=unknown,
    safety=SAFETY,
    steps=STEPS,
    service=SERVICE,
    rules=RULES,
    own_names=OWN_NAMES,
)

__all__ = [
    "COMPONENT",
    "K0",
    "K0B",
    "K1",
    "K1B",
    "K2",
    "NORMATIVE_KV_BLOCKS",
    "AllocateGroups",
    "AllocateSlots",
    "AppendSlots",
    "Commit",
    "CommonPrefix",
    "Config",
    "EvictBlock",
    "FreeRequest",
    "GetComputedBlocks",
    "Holding",
    "Pool",
    "ResetPrefixCache",
    "RollBack",
    "View",
    "Withdraw",
]
