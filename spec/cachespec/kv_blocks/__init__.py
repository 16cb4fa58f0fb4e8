"""The KV cache manager: which blocks hold whose keys and values, and which prefixes can be found again.

KV memory is a pool of blocks of equal size. A request has a table of blocks; full blocks are shared by content through
the prefix map; what nobody holds waits in the free queue until it is taken, and can be found until then. Everything
here is accounting on the scheduler's side; the bytes are the workers'.

Read `operations`, `state` and `transitions` in this order, then `properties`; `environment` says which calls a scope
makes.
"""

from __future__ import annotations

from cachespec.kernel import NORMATIVE, Component, Variant, variants
from cachespec.kv_blocks.configuration import Config, interchangeable, invalid
from cachespec.kv_blocks.environment import calls, unknown
from cachespec.kv_blocks.operations import (
    AllocateSlots,
    AppendSlots,
    Commit,
    CommonPrefix,
    EvictBlock,
    FreeRequest,
    GetComputedBlocks,
    ResetPrefixCache,
    Withdraw,
)
from cachespec.kv_blocks.properties import SAFETY, STEPS
from cachespec.kv_blocks.state import Holding, Pool, View, initial, observe, view
from cachespec.kv_blocks.transitions import TRANSITIONS, get_computed_blocks

NORMATIVE_KV_BLOCKS: Variant[Config, Pool, View] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Pool,
    initial=initial,
    transitions=TRANSITIONS,
    view=view,
    alphabet=lambda config, pool: calls(
        config, view(config, pool), lambda op: get_computed_blocks(config, pool, op)[1]
    ),
)

COMPONENT: Component[Config, Pool, View] = Component(
    name="kv_blocks",
    summary="KV blocks shared by prefix, taken from the free queue when memory is needed",
    config=Config,
    invalid=invalid,
    operations=(
        GetComputedBlocks,
        AllocateSlots,
        AppendSlots,
        Commit,
        FreeRequest,
        Withdraw,
        EvictBlock,
        ResetPrefixCache,
        CommonPrefix,
    ),
    variants=variants(NORMATIVE_KV_BLOCKS),
    observe=observe,
    interchangeable=interchangeable,
    unknown=unknown,
    safety=SAFETY,
    steps=STEPS,
)

__all__ = [
    "COMPONENT",
    "NORMATIVE_KV_BLOCKS",
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
    "View",
    "Withdraw",
]
