"""The normative manager: allocation in both groups, the end of a step's planning, and execution."""

from __future__ import annotations

from cachespec.kernel import ABSENT, DONE, MISS, REFUSED, STALE, TOO_LARGE, Code, Outcome, Transitions
from cachespec.partial_hits.configuration import (
    FULL,
    STATE,
    Block,
    Config,
    Group,
    Request,
    blocks_for,
    groups,
    tail_of,
)
from cachespec.partial_hits.operations import (
    AllocateSlots,
    Dispatch,
    Execute,
    FreeRequest,
    GetComputedBlocks,
    ResetPrefixCache,
)
from cachespec.partial_hits.prefixes import all_hits, cached_tokens, forget, hits_of, key_of, register
from cachespec.partial_hits.state import NO_PROGRESS, Copy, Pool, Progress, Result, Write
from cachespec.partial_hits.tables import (
    append,
    backwards,
    extend,
    give_back,
    held_to_dispatch,
    is_for_others,
    let_all_go,
    pairs,
    planned_copies,
    preserve,
    redirect,
    table_of,
    touch,
)
from cachespec.partial_hits.worker import (
    copies_of,
    is_written_later,
    orphaned,
    position_of,
    run,
    with_writes,
    writes_of,
)

# Allocation ---------------------------------------------------------------------------------------------------------


def ends_within(config: Config, tokens: int) -> bool:
    """A prefix of this many tokens ends within a block."""
    return tokens % config.block_size > 0


def new_blocks(config: Config, group: Group, length: int, end: int) -> int:
    """The blocks that a table of this length takes for the tokens before `end`."""
    more = max(0, blocks_for(config, end) - length)
    return min(1, more) if group == STATE else more


def free_hits(pool: Pool, hits: tuple[Block, ...]) -> int:
    """The hits that leave the free queue when they are adopted."""
    count = 0
    for block in hits:
        count = count + (1 if pool.free.has(block) else 0)
    return count


def needed_by_new(config: Config, pool: Pool, request: Request, found: int, end: int) -> int:
    """PH-9: what both groups take out of the free queue: hits, copies of what they share, and new blocks."""
    needed = 0
    for group in groups(config):
        hits = hits_of(config, pool, request, group, found)
        own = 1 if ends_within(config, found) else 0
        needed = needed + free_hits(pool, hits) + own + new_blocks(config, group, len(hits), end)
    return needed


def needed_by_running(config: Config, pool: Pool, request: Request, start: int, end: int) -> int:
    """PH-9: what both groups take for the next tokens, and for a state that others can find."""
    needed = 1 if overwrites_tail(config, request, start) else 0
    for group in groups(config):
        needed = needed + new_blocks(config, group, len(table_of(pool, request, group)), end)
    return needed


def overwrites_tail(config: Config, request: Request, start: int) -> bool:
    """A step that starts here overwrites the state that the prompt of the request can be found by."""
    return config.alone == 0 and start == tail_of(config, request) and ends_within(config, start)


def adopt(config: Config, pool: Pool, request: Request, hits: tuple[tuple[Block, ...], ...]) -> Pool:
    """The hits of both groups become the beginnings of the tables, before a block is taken for either."""
    for group in groups(config):
        for block in hits[group]:
            pool = append(pool if block == pool.null else touch(pool, block), request, group, block)
    return pool


def begin(config: Config, pool: Pool, request: Request, found: int, end: int) -> Pool:
    """The tables of a new request: its hits, blocks of its own where they end within one, and slots up to `end`."""
    pool = adopt(config, pool, request, all_hits(config, pool, request, found))
    for group in groups(config):
        if ends_within(config, found):
            pool = redirect(config, pool, request, group, position_of(config, found))
        pool = extend(config, pool, request, group, end)
    return pool


def planned(config: Config, pool: Pool, request: Request, progress: Progress, end: int) -> Pool:
    """The step being planned computes the tokens behind what was scheduled, up to `end`."""
    pool = with_writes(config, pool, request, progress.scheduled, end)
    return pool._replace(progress=pool.progress.set(request, progress._replace(scheduled=end)))


def allocate_new(config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """A request without tables."""
    found = cached_tokens(config, pool, op.request)
    end = found + op.tokens
    if end > len(config.chains[op.request]):
        return pool, TOO_LARGE
    if op.tokens <= 0 or needed_by_new(config, pool, op.request, found, end) > pool.free.length:
        return pool, REFUSED
    pool = begin(config, pool, op.request, found, end)
    return planned(config, pool, op.request, Progress(found, found, found), end), Outcome(Code.DONE, (found,))


def allocate_running(config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """A request with tables: what nothing reads any more goes back first, even if there is no room then."""
    progress = pool.progress.get(op.request, NO_PROGRESS)
    start, end = progress.scheduled, progress.scheduled + op.tokens
    if end > len(config.chains[op.request]):
        return pool, TOO_LARGE
    if is_planned(pool, op.request):
        return pool, STALE
    pool = give_back(config, pool, op.request, progress.computed)
    if op.tokens <= 0 or needed_by_running(config, pool, op.request, start, end) > pool.free.length:
        return pool, REFUSED
    for group in groups(config):
        if group == STATE and overwrites_tail(config, op.request, start):
            pool = move_state(config, pool, op.request, start)
        pool = extend(config, pool, op.request, group, end)
    return planned(config, pool, op.request, progress, end), Outcome(Code.DONE, (0,))


def is_planned(pool: Pool, request: Request) -> bool:
    """The step being planned has tokens of the request already."""
    writes = writes_of(pool, pool.dispatched)
    return any(write.request == request for write in writes)


def move_state(config: Config, pool: Pool, request: Request, start: int) -> Pool:
    """PH-7: requests that found this state before find it in a copy, as soon as the copy has run."""
    position = position_of(config, start)
    pool = forget(pool, table_of(pool, request, STATE)[position])
    return preserve(config, pool, request, position, key_of(config, request, STATE, start))


# Registration -------------------------------------------------------------------------------------------------------


def registered_copy(pool: Pool, copy: Copy) -> Pool:
    """PH-7: what was copied for others can be found from now on, and nothing holds it for the copy any more."""
    if not is_for_others(copy):
        return pool
    return let_all_go(register(pool, copy.target, copy.key), (copy.target,))


def registered_full(config: Config, pool: Pool, write: Write) -> Pool:
    """PH-4/found: the blocks that the step has filled, and the last hash block of the prompt within its block."""
    for position in range(write.start // config.block_size, write.end // config.block_size):
        key = key_of(config, write.request, FULL, (position + 1) * config.block_size)
        pool = register(pool, write.blocks[position], key)
    tail = tail_of(config, write.request)
    if ends_within(config, tail) and write.end >= tail:
        key = key_of(config, write.request, FULL, tail)
        pool = register(pool, write.blocks[position_of(config, tail)], key)
    return pool


def registered_state(config: Config, pool: Pool, write: Write) -> Pool:
    """PH-4/found: the state behind the step, if it is that of a block or of the prompt, and nothing overwrites it."""
    block = write.blocks[position_of(config, write.end)]
    checkpoint = write.end == tail_of(config, write.request) or not ends_within(config, write.end)
    if not checkpoint or is_written_later(config, pool, block):
        return pool
    return register(pool, block, key_of(config, write.request, STATE, write.end))


def registered(config: Config, pool: Pool, write: Write) -> Pool:
    """PH-4/found: what was computed can be found, and nothing else."""
    if write.group == FULL:
        return registered_full(config, pool, write)
    return registered_state(config, pool, write)


# Calls --------------------------------------------------------------------------------------------------------------


def get_computed_blocks(config: Config, pool: Pool, op: GetComputedBlocks) -> Result:
    """PH-8: the longest prefix that both groups have; never all tokens."""
    return pool, found_blocks(config, pool, op.request, cached_tokens(config, pool, op.request))


def found_blocks(config: Config, pool: Pool, request: Request, tokens: int) -> Outcome:
    """The answer to a look-up."""
    if tokens == 0:
        return MISS
    values: tuple[int, ...] = (tokens,)
    for group in groups(config):
        values = (*values, *hits_of(config, pool, request, group, tokens))
    return Outcome(Code.HIT, values)


def allocate_slots(config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """PH-9: both groups or neither; whatever it answers but DONE, nothing was changed but what was given back."""
    if pool.progress.has(op.request):
        return allocate_running(config, pool, op)
    return allocate_new(config, pool, op)


def dispatch(config: Config, pool: Pool, op: Dispatch) -> Result:
    """PH-6: the worker has the copies, and does them before whatever comes later: nothing holds their blocks for it."""
    copies = planned_copies(config, pool)
    pool = let_all_go(pool, held_to_dispatch(copies))
    return pool._replace(dispatched=pool.dispatched + 1), Outcome(Code.DONE, pairs(copies))


def execute(config: Config, pool: Pool, op: Execute) -> Result:
    """PH-4/found: what the oldest step has copied and computed can be found now."""
    if pool.dispatched == 0:
        return pool, ABSENT
    copies, writes = copies_of(pool, 0), writes_of(pool, 0)
    pool = run(config, pool)
    for copy in copies:
        pool = registered_copy(pool, copy)
    for write in writes:
        if write.lives == 1:
            pool = registered(config, pool, write)
    return pool, DONE


def release(config: Config, pool: Pool, request: Request) -> Pool:
    """PH-10: each group from its end, so that what is left when blocks are evicted is a prefix."""
    for group in groups(config):
        blocks = table_of(pool, request, group)
        pool = pool._replace(tables=pool.tables.remove((request, group)))
        pool = let_all_go(pool, backwards(blocks))
    return pool._replace(progress=pool.progress.remove(request), writes=orphaned(pool, request))


def free_request(config: Config, pool: Pool, op: FreeRequest) -> Result:
    """PH-1: each position gives one reference back."""
    if not pool.progress.has(op.request):
        return pool, ABSENT
    return release(config, pool, op.request), DONE


def reset_prefix_cache(config: Config, pool: Pool, op: ResetPrefixCache) -> Result:
    """Refused while a block is in use: the KV that is written into it would not be that of the new weights."""
    if pool.references.length > 0:
        return pool, REFUSED
    for block in range(config.blocks):
        pool = forget(pool, block)
    return pool, DONE


TRANSITIONS: Transitions[Config, Pool] = {
    GetComputedBlocks: get_computed_blocks,
    AllocateSlots: allocate_slots,
    Dispatch: dispatch,
    Execute: execute,
    FreeRequest: free_request,
    ResetPrefixCache: reset_prefix_cache,
}
