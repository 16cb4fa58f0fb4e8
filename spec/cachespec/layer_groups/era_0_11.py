"""KV cache groups as 0.11.0 has them: full attention and at most one other kind, without states that can be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from cachespec.kernel import REFUSED, Transition
from cachespec.layer_groups.configuration import (
    CHUNK,
    CROSS,
    STATE,
    Config,
    Group,
    Position,
    Request,
    blocks_for,
    span_of,
)
from cachespec.layer_groups.era_drafts import Hits, LookUp, found_for, found_in_0_11
from cachespec.layer_groups.era_rules import (
    allocated,
    begun,
    drop_at_the_end,
    evictable,
    failed,
    registered_to,
    written_before,
)
from cachespec.layer_groups.operations import AllocateSlots
from cachespec.layer_groups.prefixes import first_needed, slots_of
from cachespec.layer_groups.state import Pool, Progress, Result, scheduled
from cachespec.layer_groups.tables import append, lengthen, passed, row_of, touch


def gone_before(config: Config, pool: Pool, request: Request, group: Group, tokens: int) -> Position:
    """The first position that stays: a chunk keeps the last registered block, and states stay all."""
    if config.kinds[group] == STATE:
        return 0
    first, registered = first_needed(config, group, tokens), row_of(pool, request, group).cached
    return min(first, registered - 1) if config.kinds[group] == CHUNK and registered > 0 else first


def give_back(config: Config, pool: Pool, request: Request, tokens: int) -> Pool:
    """C-KV-22: behind the window of the scheduled tokens, while steps in flight may still read there."""
    for group in range(len(config.kinds)):
        gone = min(gone_before(config, pool, request, group, tokens), row_of(pool, request, group).length)
        for turn in range(max(0, gone)):
            pool = written_before(config, pool, request, group, gone - 1 - turn)
            pool = drop_at_the_end(pool, request, group, gone - 1 - turn)
    return pool


def estimate_all(config: Config, pool: Pool, request: Request, hits: Hits, end: int, rules: Rules) -> int:
    """What all groups need, each by its positions."""
    needed, fresh = 0, not pool.progress.has(request)
    for group in range(len(config.kinds)):
        slots = blocks_for(config, group, end)
        if config.kinds[group] == CROSS:
            slots = rules.named(config, group, fresh=fresh)
        needed = needed + slots - len(hits[group]) - row_of(pool, request, group).length
        needed = needed + evictable(pool, hits[group])
    return needed


def with_hits(pool: Pool, request: Request, hits: Hits) -> Pool:
    """The hits of all groups, as they were found; a running request has none."""
    if pool.progress.has(request):
        return pool
    for group in range(len(hits)):
        for block in hits[group]:
            pool = append(pool if block == pool.null else touch(pool, block), request, group, block)
        pool = passed(pool, request, group, len(hits[group]))
    return pool


def extended(config: Config, pool: Pool, request: Request, end: int) -> tuple[Pool, bool]:
    """Each table in turn has a block at every position; False if one of them finds too few free blocks."""
    for group in range(len(config.kinds)):
        missing = slots_of(config, group, end) - row_of(pool, request, group).length
        if missing > pool.free.length:
            return pool, False
        for _ in range(missing):
            pool = lengthen(pool, request, group)
    return pool, True


class Named(Protocol):
    """The cross-attention blocks for which room is asked."""

    def __call__(self, config: Config, group: Group, *, fresh: bool) -> int:
        """For a new request, or for a running one."""
        ...


class Rules(NamedTuple):
    """What a mended manager does otherwise."""

    look_up: LookUp
    """What a new request finds."""
    settled: Callable[[Progress], int]
    """The tokens behind whose window blocks are given back."""
    named: Named
    """The cross-attention blocks for which room is asked."""


def named_at_first(config: Config, group: Group, *, fresh: bool) -> int:
    """C-KV-24: a running request names no encoder tokens, so its blocks count as blocks too many."""
    return blocks_for(config, group, span_of(config, group)) if fresh else 0


def allocating(rules: Rules) -> Transition[Config, Pool, AllocateSlots]:
    """`allocate_slots` by these rules."""

    def allocate_slots(config: Config, pool: Pool, op: AllocateSlots) -> Result:
        """The hits of all groups first, then each group's new blocks; what is loaded counts as what is computed."""
        found, hits = found_for(config, pool, op, rules.look_up)
        progress = begun(pool, op, found)
        end = scheduled(progress) + op.tokens
        pool = give_back(config, pool, op.request, rules.settled(progress))
        if estimate_all(config, pool, op.request, hits, end, rules) > pool.free.length:
            return pool, REFUSED
        pool, whole = extended(config, with_hits(pool, op.request, hits), op.request, end)
        if not whole:
            return failed(pool, op, progress)
        return allocated(registered_to(config, pool, op.request, end), op, progress, end)

    return allocate_slots


IN_0_11 = Rules(found_in_0_11, scheduled, named_at_first)
