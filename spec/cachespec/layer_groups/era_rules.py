"""What the released managers do otherwise: they register when they schedule, and count on estimates."""

from __future__ import annotations

from collections.abc import Callable

from cachespec.kernel import ABSENT, DONE, FAILED, STALE, Code, Outcome
from cachespec.layer_groups.configuration import (
    CROSS,
    STATE,
    Block,
    Config,
    Group,
    Position,
    Request,
    alignment,
    blocks_for,
    caches,
    is_drafting,
    key_of,
    size_of,
)
from cachespec.layer_groups.era_drafts import Hits
from cachespec.layer_groups.era_retention import is_reachable
from cachespec.layer_groups.operations import AllocateSlots, Commit, FreeRequest, NewStep
from cachespec.layer_groups.prefixes import first_needed, register, slots_of
from cachespec.layer_groups.state import NO_PROGRESS, Pool, Progress, Result, scheduled
from cachespec.layer_groups.tables import append, is_null_next, lengthen, passed, row_of, touch
from cachespec.layer_groups.transitions import execute, execute_all, is_flying, release, scheduled_to

Reachable = Callable[[Config, Request, Group, Position], bool]
"""Whether a hit can need the request's block."""

Registering = Callable[[Config, Pool, Request, int], Pool]
"""Which blocks carry their keys from now on, if the request has slots up to a token."""


def failed(pool: Pool, op: AllocateSlots, progress: Progress) -> Result:
    """An assertion failed; what was done before stays done, and the engine is gone."""
    return pool._replace(ended=1, progress=pool.progress.set(op.request, progress)), FAILED


# Estimates ----------------------------------------------------------------------------------------------------------


def evictable(pool: Pool, hits: tuple[Block, ...]) -> int:
    """The hits that no request holds: they leave the free queue."""
    count = 0
    for block in hits:
        count = count + (1 if block != pool.null and not pool.references.has(block) else 0)
    return count


def estimate_of_state(config: Config, pool: Pool, request: Request, group: Group, hits: Hits, end: int) -> int:
    """C-KV-14: at most one block, also where a block for what is loaded is taken beside it."""
    length = row_of(pool, request, group).length
    more = blocks_for(config, group, end) - len(hits[group]) - length
    return (1 if more > 0 else min(more, 0)) + evictable(pool, hits[group])


def estimate(config: Config, pool: Pool, request: Request, group: Group, hits: Hits, start: int, end: int) -> int:
    """From 0.20.2 on: what one group needs."""
    length = row_of(pool, request, group).length
    if config.kinds[group] == CROSS:
        return slots_of(config, group, end) if length == 0 else 0
    if config.kinds[group] == STATE:
        return estimate_of_state(config, pool, request, group, hits, end)
    skipped = first_needed(config, group, start) if length == 0 else 0
    new = blocks_for(config, group, end) - max(skipped, len(hits[group]) + length)
    return max(0, new) + evictable(pool, hits[group][skipped:])


def estimate_all(config: Config, pool: Pool, request: Request, hits: Hits, start: int, end: int) -> int:
    """What all groups need."""
    needed = 0
    for group in range(len(config.kinds)):
        needed = needed + estimate(config, pool, request, group, hits, start, end)
    return needed


def is_of_this_step(config: Config, pool: Pool, request: Request, hits: Hits) -> bool:
    """A state of the hit is one that the current step computes: the request waits for the next step (C-KV-23)."""
    for group in range(len(config.kinds)):
        last = len(hits[group]) - 1
        if config.kinds[group] == STATE and last >= 0 and pool.this_step.has(key_of(config, request, group, last)):
            return True
    return False


# Tables -------------------------------------------------------------------------------------------------------------


def adopted(config: Config, pool: Pool, request: Request, group: Group, hits: Hits, start: int) -> Pool:
    """The hits of one group that it needs behind `start`; null blocks for the others."""
    first = first_needed(config, group, start)
    for position in range(max(first, len(hits[group]))):
        block = hits[group][position] if position < len(hits[group]) else pool.null
        if position < first or block == pool.null:
            pool = append(pool, request, group, pool.null)
        else:
            pool = append(touch(pool, block), request, group, block)
    return passed(pool, request, group, row_of(pool, request, group).length)


def extended(config: Config, pool: Pool, request: Request, group: Group, tokens: int) -> tuple[Pool, bool]:
    """One table gets slots for `tokens`; False if too few blocks are free, and then none is taken."""
    length = slots_of(config, group, tokens)
    missing = length - row_of(pool, request, group).length
    if min(missing, 1 if config.kinds[group] == STATE else missing) > pool.free.length:
        return nulls_before(config, pool, request, group, length), False
    while row_of(pool, request, group).length < length:
        if is_null_next(config, pool, request, group, length):
            pool = append(pool, request, group, pool.null)
        else:
            pool = lengthen(pool, request, group)
    return pool, True


def nulls_before(config: Config, pool: Pool, request: Request, group: Group, length: int) -> Pool:
    """What a state-space group does before it takes a block."""
    while is_null_next(config, pool, request, group, length):
        pool = append(pool, request, group, pool.null)
    return pool


def all_extended(config: Config, pool: Pool, request: Request, tokens: int) -> tuple[Pool, bool]:
    """Each table in turn; False if one of them finds too few free blocks."""
    for group in range(len(config.kinds)):
        pool, whole = extended(config, pool, request, group, tokens)
        if not whole:
            return pool, False
    return pool, True


def written_before(config: Config, pool: Pool, request: Request, group: Group, position: Position) -> Pool:
    """History: a step in flight still writes, or loads, into a block that is given back too early (C-KV-22)."""
    progress = pool.progress.get(request, NO_PROGRESS)
    block, last = pool.tables.get((request, group, position), pool.null), (position + 1) * size_of(config, group)
    loading = progress.computed == progress.loaded > progress.found
    flying = (progress.found if loading else progress.computed) < last <= scheduled(progress)
    behind = last in progress.ends or (loading and last == progress.loaded)
    if block == pool.null or not (behind if config.kinds[group] == STATE else flying):
        return pool
    return pool._replace(bytes=pool.bytes.set(block, key_of(config, request, group, position)))


# Registration -------------------------------------------------------------------------------------------------------


def register_some(config: Config, pool: Pool, request: Request, group: Group, first: Position, last: Position) -> Pool:
    """Positions from `first` to before `last` carry their keys from now on; the KV is written later (C-KV-6)."""
    for position in range(first, last):
        block = pool.tables.get((request, group, position), pool.null)
        if block != pool.null:
            key = key_of(config, request, group, position)
            pool = register(config, pool, block, key)
            if config.kinds[group] == STATE:
                pool = pool._replace(this_step=pool.this_step.set(key, 1))
    return pool


def registered_to(config: Config, pool: Pool, request: Request, end: int) -> Pool:
    """Each group registers the full blocks among the tokens before `end`."""
    if not caches(config):
        return pool
    for group in range(len(config.kinds)):
        full, row = end // size_of(config, group), row_of(pool, request, group)
        if row.cached < full:
            pool = register_some(config, pool, request, group, row.cached, full)
            pool = passed(pool, request, group, full)
    return pool


def cacheable(config: Config, group: Group, end: int) -> int:
    """0.33.0: the tokens that a hit can end with, and with draft layers one block more."""
    aligned = end // alignment(config) * alignment(config)
    if aligned == 0 or not is_drafting(config, group) or len(config.kinds) == 1:
        return aligned
    return min(end, aligned + size_of(config, group))


def registered_where(reachable: Reachable) -> Registering:
    """0.33.0: only what hits can end with, and of windows and states only the blocks that hits can need."""

    def registered(config: Config, pool: Pool, request: Request, end: int) -> Pool:
        if not caches(config):
            return pool
        for group in range(len(config.kinds)):
            full, row = cacheable(config, group, end) // size_of(config, group), row_of(pool, request, group)
            for position in range(row.cached, full):
                if reachable(config, request, group, position):
                    pool = register_some(config, pool, request, group, position, position + 1)
            pool = passed(pool, request, group, max(full, row.cached))
        return pool

    return registered


registered_to_alignment = registered_where(is_reachable)


# Calls --------------------------------------------------------------------------------------------------------------


def begun(pool: Pool, op: AllocateSlots, found: int) -> Progress:
    """The progress of a request before this step."""
    start = found + op.external
    return pool.progress.get(op.request, Progress(found, start, start, ()))


def start_of(pool: Pool, op: AllocateSlots, found: int) -> int:
    """Behind which token the new slots begin, steps in flight counted as if they were executed."""
    return scheduled(begun(pool, op, found))


def executed(config: Config, pool: Pool, op: Commit) -> Result:
    """The worker has written; no such call."""
    if not pool.progress.has(op.request):
        return pool, ABSENT
    if not is_flying(pool, op.request):
        return pool, STALE
    return execute(config, pool, op.request), DONE


def new_step(config: Config, pool: Pool, op: NewStep) -> Result:
    """The set of the step's states is emptied."""
    for request in range(len(config.chains)):
        for group in range(len(config.kinds)):
            for position in range(len(config.chains[request])):
                pool = pool._replace(this_step=pool.this_step.remove(key_of(config, request, group, position)))
    return pool, DONE


def drop_at_the_end(pool: Pool, request: Request, group: Group, position: Position) -> Pool:
    """A block that becomes free goes behind all others, findable or not (C-KV-15)."""
    block = pool.tables.get((request, group, position), pool.null)
    pool = pool._replace(tables=pool.tables.set((request, group, position), pool.null))
    if block == pool.null:
        return pool
    count = pool.references.get(block, 0) - 1
    if count > 0:
        return pool._replace(references=pool.references.set(block, count))
    return pool._replace(references=pool.references.remove(block), free=pool.free.push(block, 1))


def free_backwards(config: Config, pool: Pool, op: FreeRequest) -> Result:
    """0.11.0 and 0.20.2: each table from its end."""
    if not pool.progress.has(op.request):
        return pool, ABSENT
    pool = execute_all(config, pool, op.request)
    for group in range(len(config.kinds)):
        length = row_of(pool, op.request, group).length
        for turn in range(length):
            pool = drop_at_the_end(pool, op.request, group, length - 1 - turn)
    return release(config, pool, op.request), DONE


def allocated(pool: Pool, op: AllocateSlots, progress: Progress, end: int) -> Result:
    """The step is in flight."""
    found = 0 if pool.progress.has(op.request) else progress.found
    return scheduled_to(pool, op.request, progress, end), Outcome(Code.DONE, (found,))
