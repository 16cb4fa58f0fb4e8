"""The normative manager: allocation for all groups, execution, and the calls."""

from __future__ import annotations

from cachespec.kernel import ABSENT, DONE, MISS, REFUSED, STALE, TOO_LARGE, Code, Outcome, Transitions
from cachespec.layer_groups.configuration import (
    CROSS,
    STATE,
    Block,
    Config,
    Group,
    Position,
    Request,
    blocks_for,
    caches,
    key_of,
    size_of,
)
from cachespec.layer_groups.operations import (
    AllocateSlots,
    Commit,
    FreeRequest,
    GetComputedBlocks,
    NewStep,
    ResetPrefixCache,
)
from cachespec.layer_groups.prefixes import cached_tokens, first_needed, forget, hit_blocks, register, slots_of
from cachespec.layer_groups.retention import is_retained
from cachespec.layer_groups.state import NO_PROGRESS, Pool, Progress, Result, scheduled
from cachespec.layer_groups.tables import append, drop, extend, give_back, passed, row_of, touch

# Allocation ---------------------------------------------------------------------------------------------------------


def adopt(config: Config, pool: Pool, request: Request, group: Group, hits: tuple[Block, ...], start: int) -> Pool:
    """LG-9: the group's hits become the beginning of its table; the null block stands for those not needed."""
    first = first_needed(config, group, start)
    for position in range(max(first, len(hits))):
        if position < first or hits[position] == pool.null:
            pool = append(pool, request, group, pool.null)
        else:
            pool = append(touch(pool, hits[position]), request, group, hits[position])
    return passed(pool, request, group, row_of(pool, request, group).length)


def adopt_all(config: Config, pool: Pool, request: Request, found: int, start: int) -> Pool:
    """LG-9: the hits of all groups, before a block is taken for any (C-KV-12)."""
    before = pool
    for group in range(len(config.kinds)):
        pool = adopt(config, pool, request, group, hit_blocks(config, before, request, group, found), start)
    return pool


def extend_all(config: Config, pool: Pool, request: Request, tokens: int) -> Pool:
    """All tables get slots for `tokens`."""
    for group in range(len(config.kinds)):
        pool = extend(config, pool, request, group, slots_of(config, group, tokens))
    return pool


def new_blocks(config: Config, length: int, group: Group, start: int, end: int) -> int:
    """LG-8: the blocks that a table of this length takes: for what is loaded up to `start`, then up to `end`."""
    until, last = slots_of(config, group, start), slots_of(config, group, end)
    if config.kinds[group] == STATE:
        return (1 if length < until else 0) + (1 if max(length, until) < last else 0)
    return max(0, last - length)


def free_hits(config: Config, pool: Pool, group: Group, hits: tuple[Block, ...], start: int) -> int:
    """The hits that leave the free queue when the group adopts them."""
    count = 0
    for position in range(first_needed(config, group, start), len(hits)):
        count = count + (1 if pool.free.has(hits[position]) else 0)
    return count


def needed_by_new(config: Config, pool: Pool, request: Request, found: int, start: int, end: int) -> int:
    """LG-8: what all groups together take out of the free queue, the hits included."""
    needed = 0
    for group in range(len(config.kinds)):
        hits = hit_blocks(config, pool, request, group, found)
        length = max(len(hits), first_needed(config, group, start))
        loaded_to = start if start > found else 0
        needed = needed + new_blocks(config, length, group, loaded_to, end)
        needed = needed + free_hits(config, pool, group, hits, start)
    return needed


def needed_by_running(config: Config, pool: Pool, request: Request, end: int) -> int:
    """LG-8: what all groups together take for the next tokens."""
    needed = 0
    for group in range(len(config.kinds)):
        needed = needed + new_blocks(config, row_of(pool, request, group).length, group, 0, end)
    return needed


def states_begun(config: Config, pool: Pool, request: Request, end: int) -> Pool:
    """History: the current step computes the states behind `end`."""
    for group in range(len(config.kinds)):
        if caches(config) and config.kinds[group] == STATE and end % size_of(config, group) == 0:
            key = key_of(config, request, group, end // size_of(config, group) - 1)
            pool = pool._replace(this_step=pool.this_step.set(key, 1))
    return pool


def scheduled_to(pool: Pool, request: Request, progress: Progress, end: int) -> Pool:
    """A step in flight ends here."""
    return pool._replace(progress=pool.progress.set(request, progress._replace(ends=(*progress.ends, end))))


def allocate_new(config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """A request without tables."""
    found = cached_tokens(config, pool, op.request)
    start, end = found + op.external, found + op.external + op.tokens
    if end > config.lengths[op.request]:
        return pool, TOO_LARGE
    if op.tokens <= 0 or needed_by_new(config, pool, op.request, found, start, end) > pool.free.length:
        return pool, REFUSED
    pool = adopt_all(config, pool, op.request, found, start)
    pool = extend_all(config, pool, op.request, start) if op.external > 0 else pool
    pool = extend_all(config, pool, op.request, end)
    pool = scheduled_to(pool, op.request, Progress(found, start, start, ()), end)
    return states_begun(config, pool, op.request, end), Outcome(Code.DONE, (found,))


def allocate_running(config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """A request with tables: what is behind its windows goes back first, even if there is no room then.

    LG-5: of the steps in flight, none has read what goes back (C-KV-22).
    """
    progress = pool.progress.get(op.request, NO_PROGRESS)
    end = scheduled(progress) + op.tokens
    if end > config.lengths[op.request]:
        return pool, TOO_LARGE
    if op.external > 0:
        return pool, STALE
    pool = give_back(config, pool, op.request, progress.computed)
    if op.tokens <= 0 or needed_by_running(config, pool, op.request, end) > pool.free.length:
        return pool, REFUSED
    pool = scheduled_to(extend_all(config, pool, op.request, end), op.request, progress, end)
    return states_begun(config, pool, op.request, end), Outcome(Code.DONE, (0,))


# Execution ----------------------------------------------------------------------------------------------------------


def write_state(config: Config, pool: Pool, request: Request, group: Group, end: int) -> Pool:
    """The state behind the step; it is that of a whole prefix only where the step ends with a block."""
    position = blocks_for(config, group, end) - 1
    block = pool.tables.get((request, group, position), pool.null)
    if block == pool.null:
        return pool
    if end % size_of(config, group) == 0:
        return pool._replace(bytes=pool.bytes.set(block, key_of(config, request, group, position)))
    return pool._replace(bytes=pool.bytes.remove(block))


def write_blocks(config: Config, pool: Pool, request: Request, group: Group, start: int, end: int) -> Pool:
    """The KV of the blocks that the step fills."""
    for position in range(start // size_of(config, group), end // size_of(config, group)):
        block = pool.tables.get((request, group, position), pool.null)
        if block != pool.null:
            pool = pool._replace(bytes=pool.bytes.set(block, key_of(config, request, group, position)))
    return pool


def execute(config: Config, pool: Pool, request: Request) -> Pool:
    """The oldest step in flight writes what it computes, and what was loaded for the request."""
    progress = pool.progress.get(request, NO_PROGRESS)
    start, end = progress.computed, progress.ends[0]
    if progress.found < progress.loaded and progress.computed == progress.loaded:
        pool = write(config, pool, request, progress.found, progress.loaded)
    pool = write(config, pool, request, start, end)
    later = progress._replace(computed=end, ends=progress.ends[1:])
    return pool._replace(progress=pool.progress.set(request, later))


def write(config: Config, pool: Pool, request: Request, start: int, end: int) -> Pool:
    """In every group: the tokens from `start` to before `end`. The encoder's KV is in no full block of a prefix."""
    for group in range(len(config.kinds)):
        if config.kinds[group] == STATE:
            pool = write_state(config, pool, request, group, end)
        elif config.kinds[group] != CROSS:
            pool = write_blocks(config, pool, request, group, start, end)
    return pool


def is_checkpoint(config: Config, group: Group, position: Position, end: int) -> bool:
    """LG-7: a state that can be found is that behind the last token of its position, and no earlier one."""
    return config.kinds[group] != STATE or (position + 1) * size_of(config, group) == end


def register_full(config: Config, pool: Pool, request: Request, group: Group, end: int) -> Pool:
    """LG-7, LG-15: the retained full blocks among the tokens before `end` can be found; the null block never."""
    full = end // size_of(config, group)
    for position in range(row_of(pool, request, group).cached, full):
        block = pool.tables.get((request, group, position), pool.null)
        wanted = is_checkpoint(config, group, position, end) and is_retained(config, request, group, position)
        if block != pool.null and wanted:
            pool = register(config, pool, block, key_of(config, request, group, position))
    return passed(pool, request, group, full)


def states_done(config: Config, pool: Pool, request: Request, end: int) -> Pool:
    """History: the states behind `end` are there, so no step computes them any more."""
    for group in range(len(config.kinds)):
        if end % size_of(config, group) == 0:
            key = key_of(config, request, group, end // size_of(config, group) - 1)
            pool = pool._replace(this_step=pool.this_step.remove(key))
    return pool


# Calls --------------------------------------------------------------------------------------------------------------


def get_computed_blocks(config: Config, pool: Pool, op: GetComputedBlocks) -> Result:
    """LG-12: the longest prefix that all groups have; never all tokens."""
    return pool, found_blocks(config, pool, op.request, cached_tokens(config, pool, op.request))


def found_blocks(config: Config, pool: Pool, request: Request, tokens: int) -> Outcome:
    """The answer to a look-up."""
    if tokens == 0:
        return MISS
    values: tuple[int, ...] = (tokens,)
    for group in range(len(config.kinds)):
        values = (*values, *hit_blocks(config, pool, request, group, tokens))
    return Outcome(Code.HIT, values)


def allocate_slots(config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """LG-8: all groups or none; whatever it answers but DONE, nothing was changed but what was given back."""
    if pool.progress.has(op.request):
        return allocate_running(config, pool, op)
    return allocate_new(config, pool, op)


def commit(config: Config, pool: Pool, op: Commit) -> Result:
    """LG-7: what has been written can be found, and nothing else (C-KV-6, C-KV-23)."""
    progress = pool.progress.get(op.request, NO_PROGRESS)
    if not pool.progress.has(op.request):
        return pool, ABSENT
    if not is_flying(pool, op.request):
        return pool, STALE
    pool = execute(config, pool, op.request)
    if not caches(config):
        return pool, DONE
    for group in range(len(config.kinds)):
        pool = register_full(config, pool, op.request, group, progress.ends[0])
    return states_done(config, pool, op.request, progress.ends[0]), DONE


def is_flying(pool: Pool, request: Request) -> bool:
    """The request has a step in flight."""
    return has_steps(pool.progress.get(request, NO_PROGRESS).ends)


def has_steps(ends: tuple[int, ...]) -> bool:
    """There is a step."""
    return len(ends) > 0


def execute_all(config: Config, pool: Pool, request: Request) -> Pool:
    """Every step in flight is executed."""
    while is_flying(pool, request):
        pool = execute(config, pool, request)
    return pool


def release_group(pool: Pool, request: Request, group: Group) -> Pool:
    """LG-11: blocks that cannot be found come to the front of the free queue, the others behind all others.

    The end of the sequence comes first: so whatever is evicted, what is left is a prefix.
    """
    length = row_of(pool, request, group).length
    for position in range(length):
        if not pool.registered.has(pool.tables.get((request, group, position), pool.null)):
            pool = drop(pool, request, group, position)
    for turn in range(length):
        pool = drop(pool, request, group, length - 1 - turn)
    for position in range(length):
        pool = pool._replace(tables=pool.tables.remove((request, group, position)))
    return pool._replace(rows=pool.rows.remove((request, group)))


def release(config: Config, pool: Pool, request: Request) -> Pool:
    """LG-1: the tables of all groups are gone."""
    for group in range(len(config.kinds)):
        pool = release_group(pool, request, group)
    return pool._replace(progress=pool.progress.remove(request))


def free_request(config: Config, pool: Pool, op: FreeRequest) -> Result:
    """LG-1: each position gives one reference back. What is in flight is still written."""
    if not pool.progress.has(op.request):
        return pool, ABSENT
    return release(config, execute_all(config, pool, op.request), op.request), DONE


def reset_prefix_cache(config: Config, pool: Pool, op: ResetPrefixCache) -> Result:
    """Refused while a request holds a block: the KV that it goes on writing would not be that of the new weights."""
    if pool.references.length > 0:
        return pool, REFUSED
    for block in range(config.blocks):
        pool = forget(pool, block)
    return pool, DONE


def forgotten_states(config: Config, pool: Pool) -> Pool:
    """The states of the step before are not those of the current step."""
    for group in range(len(config.kinds)):
        for request in range(len(config.chains)):
            for position in range(config.lengths[request] // size_of(config, group)):
                key = key_of(config, request, group, position)
                pool = pool._replace(this_step=pool.this_step.remove(key))
    return pool


def new_step(config: Config, pool: Pool, op: NewStep) -> Result:
    """LG-9/step: the states of the step before were computed before those of this one."""
    return forgotten_states(config, pool), DONE


TRANSITIONS: Transitions[Config, Pool] = {
    NewStep: new_step,
    GetComputedBlocks: get_computed_blocks,
    AllocateSlots: allocate_slots,
    Commit: commit,
    FreeRequest: free_request,
    ResetPrefixCache: reset_prefix_cache,
}
