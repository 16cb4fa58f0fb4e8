"""The eras of KV cache events, each without one of their faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from cacheproof.catalogue.mends import Change, Mend, transitions
from cacheproof.catalogue.mends.kv_blocks import forgetting_what_is_not, registering_in_order
from cacheproof.model.finding import Subject
from cachespec import kv_blocks
from cachespec.kernel import Operation, Outcome, Transition
from cachespec.kv_blocks import AllocateSlots, EvictBlock, Pool, Withdraw
from cachespec.kv_blocks.configuration import NOTHING
from cachespec.kv_blocks.operations import ResetPrefixCache
from cachespec.kv_events.configuration import Config
from cachespec.kv_events.environment import taken_at_any_time
from cachespec.kv_events.state import STORED
from cachespec.kv_events.telling import Queue, cleared, come, gone, taken_and_registered
from cachespec.kv_events.transitions import BY_BLOCK, Tellings, following

EVERY = ("K1", "K1b", "K2")
PoolTransition = Transition[Any, Pool, Any]


def era_by(tellings: Tellings, changed: Mapping[type[Operation], PoolTransition] | None = None) -> Change:
    """The era with another way to tell, and with changed transitions of its pool."""

    def change(subject: Subject) -> Subject:
        pool = kv_blocks.COMPONENT.variants[subject.variant.tag]
        return transitions(following({**pool.transitions, **(changed or {})}, tellings))(subject)

    return change


def around_pool(kind: type[Operation], changed: Any, tellings: Tellings) -> Change:
    """The era with another transition of its pool, which gets the pool's own one first."""

    def change(subject: Subject) -> Subject:
        own = kv_blocks.COMPONENT.variants[subject.variant.tag].transitions[kind]
        return era_by(tellings, {kind: partial(changed, own)})(subject)

    return change


# C-KV-28: copies ----------------------------------------------------------------------------------------------------


def gone_and_come(config: Config, before: Pool, op: Any, outcome: Outcome, after: Pool) -> Queue:
    """What is reallocated and registered, told by hash."""
    return (*gone(config, before, op, outcome, after), *come(config, before, op, outcome, after))


BY_HASH_AT_ONCE: Tellings = {AllocateSlots: gone_and_come, EvictBlock: gone, ResetPrefixCache: cleared}


# C-KV-29: events that no step takes ---------------------------------------------------------------------------------


def taking_at_any_time(subject: Subject) -> Subject:
    """Events are taken whether a request runs or not."""
    pool = kv_blocks.COMPONENT.variants[subject.variant.tag]
    return replace(subject, variant=replace(subject.variant, alphabet=partial(taken_at_any_time, pool.alphabet)))


# C-KV-30: behind an evicted block -----------------------------------------------------------------------------------


def of_what_is_reached(config: Config, before: Pool, op: Any, outcome: Outcome, after: Pool) -> Queue:
    """The era's own events, without those of blocks that are forgotten again."""
    events = taken_and_registered(config, before, op, outcome, after)
    return tuple(
        event
        for event in events
        if event.kind != STORED or event.parent == NOTHING or after.prefix_map.has(event.parent)
    )


MENDS = (
    Mend("C-KV-6", EVERY, around_pool(Withdraw, forgetting_what_is_not, {**BY_BLOCK, Withdraw: gone})),
    Mend("C-KV-28", EVERY, era_by(BY_HASH_AT_ONCE)),
    Mend("C-KV-29", EVERY, taking_at_any_time),
    Mend(
        "C-KV-30",
        ("K1b", "K2"),
        around_pool(AllocateSlots, registering_in_order, {**BY_BLOCK, AllocateSlots: of_what_is_reached}),
    ),
)
