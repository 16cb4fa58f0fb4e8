"""The normative publisher, and those of the releases. The first managers, until 0.7.3, tell nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

from cachespec import kv_blocks
from cachespec.kernel import NORMATIVE, Operation, Variant, with_fields
from cachespec.kv_blocks import AllocateSlots, EvictBlock
from cachespec.kv_events.configuration import Config
from cachespec.kv_events.environment import taken_at_any_time, taken_by_steps
from cachespec.kv_events.operations import POOL_OPERATIONS, TakeEvents
from cachespec.kv_events.state import Publisher, View, initial, view
from cachespec.kv_events.transitions import BY_BLOCK, TRANSITIONS, following

POOL = kv_blocks.NORMATIVE_KV_BLOCKS

NORMATIVE_KV_EVENTS: Variant[Config, Publisher, View] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Publisher,
    initial=partial(initial, Publisher, POOL),
    transitions=TRANSITIONS,
    view=partial(view, POOL),
    alphabet=partial(taken_at_any_time, POOL.alphabet),
)

TOLD_EARLY = "blocks are told when scheduled, before their step is executed; KVE-6 judges the consequences"
BY_COPY = "each block is told for itself, though a hash can have several (C-KV-28)"


def released(pool: Variant[Any, Any, Any]) -> Variant[Config, Publisher, View]:
    """A released manager of blocks, which tells of each block, when a step ends."""
    state = with_fields(Publisher, pool=pool.state)
    differences = {kind: why for kind, why in pool.differences.items() if kind in POOL_OPERATIONS}
    told: dict[type[Operation], str] = {
        kind: f"{differences[kind]}; {BY_COPY}" if kind in differences else BY_COPY
        for kind in (AllocateSlots, EvictBlock)
        if kind in pool.transitions
    }
    return Variant(
        tag=pool.tag,
        title=pool.title,
        state=state,
        initial=partial(initial, state, pool),
        transitions=following(pool.transitions, BY_BLOCK),
        view=partial(view, pool),
        alphabet=partial(taken_by_steps, pool.alphabet),
        differences={**differences, **told, TakeEvents: "called when a step ends only (C-KV-29)"},
        start_differs=pool.start_differs,
        exempt={"KVE-6/executed": TOLD_EARLY},
    )


K1 = released(kv_blocks.K1)
K1B = released(kv_blocks.K1B)
K2 = released(kv_blocks.K2)
