"""KV cache groups as 0.20.2 and 0.33.0 have them: any kinds, and states that are found at block boundaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cachespec.kernel import REFUSED, Transition
from cachespec.layer_groups.configuration import Config, Request
from cachespec.layer_groups.era_drafts import Hits, LookUp, found_for, found_in_0_20, found_in_0_33
from cachespec.layer_groups.era_rules import (
    Registering,
    adopted,
    all_extended,
    allocated,
    begun,
    drop_at_the_end,
    estimate_all,
    extended,
    failed,
    is_of_this_step,
    registered_to,
    registered_to_alignment,
    written_before,
)
from cachespec.layer_groups.operations import AllocateSlots
from cachespec.layer_groups.prefixes import first_needed
from cachespec.layer_groups.state import NO_PROGRESS, Pool, Result, scheduled
from cachespec.layer_groups.tables import drop, row_of


def give_back_early(config: Config, pool: Pool, request: Request) -> Pool:
    """C-KV-22: behind the window of the scheduled tokens, while steps in flight may still read there."""
    tokens = scheduled(pool.progress.get(request, NO_PROGRESS))
    for group in range(len(config.kinds)):
        gone = min(first_needed(config, group, tokens), row_of(pool, request, group).length)
        for turn in range(gone):
            pool = written_before(config, pool, request, group, gone - 1 - turn)
            pool = drop_at_the_end(pool, request, group, gone - 1 - turn)
    return pool


def give_back_processed(config: Config, pool: Pool, request: Request) -> Pool:
    """After #47728: behind the window of the executed tokens.

    0.33.0 queues all blocks of a group together: those that cannot be found in front, the last one of them first.
    """
    tokens = pool.progress.get(request, NO_PROGRESS).computed
    for group in range(len(config.kinds)):
        gone = min(first_needed(config, group, tokens), row_of(pool, request, group).length)
        for position in range(gone):
            if not pool.registered.has(pool.tables.get((request, group, position), pool.null)):
                pool = drop(pool, request, group, position)
        for turn in range(gone):
            pool = drop(pool, request, group, gone - 1 - turn)
    return pool


def group_by_group(config: Config, pool: Pool, op: AllocateSlots, hits: Hits, start: int) -> tuple[Pool, bool]:
    """C-KV-12: blocks for what is loaded into one group are taken before the hits of the next are touched."""
    whole = True
    for group in range(len(config.kinds)):
        if whole:
            pool = adopted(config, pool, op.request, group, hits, start)
        if whole and op.external > 0:
            pool, whole = extended(config, pool, op.request, group, start)
    return pool, whole


def hits_first(config: Config, pool: Pool, op: AllocateSlots, hits: Hits, start: int) -> tuple[Pool, bool]:
    """After #44409: the hits of all groups, then blocks for what is loaded into each."""
    for group in range(len(config.kinds)):
        pool = adopted(config, pool, op.request, group, hits, start)
    return all_extended(config, pool, op.request, start) if op.external > 0 else (pool, True)


class Rules(NamedTuple):
    """In what the later managers differ."""

    look_up: LookUp
    """What a new request finds."""
    behind: Callable[[Config, Pool, Request], Pool]
    """How a running request gives back what is behind its windows."""
    beginning: Callable[[Config, Pool, AllocateSlots, Hits, int], tuple[Pool, bool]]
    """How a new request gets its hits, and blocks for what is loaded; False if there are too few blocks."""
    needed: Callable[[Config, Pool, Request, Hits, int, int], int]
    """How many blocks are said to be needed."""
    waits: Callable[[Config, Pool, Request, Hits], bool]
    """Whether a new request waits for the next step."""
    registering: Registering
    """Which blocks carry their keys from now on."""


def allocating(rules: Rules) -> Transition[Config, Pool, AllocateSlots]:
    """`allocate_slots` by these rules."""

    def allocate_slots(config: Config, pool: Pool, op: AllocateSlots) -> Result:
        found, hits = found_for(config, pool, op, rules.look_up)
        progress = begun(pool, op, found)
        start, end = scheduled(progress), scheduled(progress) + op.tokens
        fresh = not pool.progress.has(op.request)
        pool = rules.behind(config, pool, op.request)
        if rules.waits(config, pool, op.request, hits):
            return pool, REFUSED
        if rules.needed(config, pool, op.request, hits, start, end) > pool.free.length:
            return pool, REFUSED
        pool, whole = rules.beginning(config, pool, op, hits, start) if fresh else (pool, True)
        if whole:
            pool, whole = all_extended(config, pool, op.request, end)
        if not whole:
            return failed(pool, op, progress)
        return allocated(rules.registering(config, pool, op.request, end), op, progress, end)

    return allocate_slots


IN_0_20 = Rules(found_in_0_20, give_back_early, group_by_group, estimate_all, is_of_this_step, registered_to)
IN_0_33 = Rules(found_in_0_33, give_back_processed, hits_first, estimate_all, is_of_this_step, registered_to_alignment)
IN_THE_SAME_STEP = IN_0_20._replace(waits=lambda config, pool, request, hits: False)
"""C-KV-23: a state counts as computed as soon as it is registered."""
