"""The normative publisher, and those of the releases. The first managers, until 0.7.3, tell nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

from cachespec import kv_blocks
from cachespec.kernel import NORMATIVE, Containers, Operation, Variant, with_fields
from cachespec.kv_blocks import AllocateSlots, EvictBlock
from cachespec.kv_events.configuration import Config, pool_config
from cachespec.kv_events.environment import taken_at_any_time, taken_by_steps
from cachespec.kv_events.operations import POOL_OPERATIONS, TakeEvents
from cachespec.kv_events.state import Publisher, View, initial, view, view_with
from cachespec.kv_events.transitions import BY_BLOCK, TRANSITIONS, following

POOL = kv_blocks.NORMATIVE_KV_BLOCKS

NORMATIVE_KV_EVENTS: Variant[Config, Publisher, View] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Publisher,
    initial=initial,
    transitions=TRANSITIONS,
    view=view,
    alphabet=partial(taken_at_any_time, POOL.alphabet),
)

TOLD_EARLY = "blocks are told when scheduled, before their step is executed; KVE-6 judges the consequences"
BY_COPY = "each block is told for itself, though a hash can have several (C-KV-28)"


def initial_of(
    state: type[Publisher], pool: Variant[Any, Any, Any], config: Config, containers: Containers
) -> Publisher:
    """The pool of a release as it begins."""
    return state(pool=pool.start(pool_config(config), containers), queue=(), known=containers.map())


def view_of(pool: Variant[Any, Any, Any], config: Config, publisher: Publisher) -> View:
    """The view of the release's pool, and what is told of it."""
    return view_with(pool.view(pool_config(config), publisher.pool), config, publisher)


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
        initial=partial(initial_of, state, pool),
        transitions=following(pool.transitions, BY_BLOCK),
        view=partial(view_of, pool),
        alphabet=partial(taken_by_steps, pool.alphabet),
        differences={**differences, **told, TakeEvents: "called when a step ends only (C-KV-29)"},
        start_differs=pool.start_differs,
        exempt={"KVE-6/executed": TOLD_EARLY},
    )


K1 = released(kv_blocks.K1)
K1B = released(kv_blocks.K1B)
K2 = released(kv_blocks.K2)
