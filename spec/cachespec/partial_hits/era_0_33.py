"""What 0.33.0 does otherwise: it registers when it schedules, and moves the keys of a state before the copy has run."""

from __future__ import annotations

from collections.abc import Callable

from cachespec.kernel import ABSENT, DONE, REFUSED, STALE, TOO_LARGE, Code, Outcome, Transition
from cachespec.partial_hits.configuration import FULL, NOTHING, STATE, Block, Config, Key, Request, groups, tail_of
from cachespec.partial_hits.operations import AllocateSlots, Dispatch, Execute
from cachespec.partial_hits.prefixes import cached_tokens, forget, key_of, register
from cachespec.partial_hits.state import NO_PROGRESS, Pool, Progress, Result
from cachespec.partial_hits.tables import (
    extend,
    give_back,
    let_all_go,
    pairs,
    planned_copies,
    preserve,
    table_of,
)
from cachespec.partial_hits.transitions import (
    begin,
    ends_within,
    is_planned,
    needed_by_new,
    needed_by_running,
    overwrites_tail,
    planned,
)
from cachespec.partial_hits.worker import position_of, run

# Registration -------------------------------------------------------------------------------------------------------


def of_this_step(pool: Pool, key: Key) -> Pool:
    """The step being planned computes or copies this state: a request of the same step waits for the next one."""
    return pool._replace(this_step=pool.this_step.set(key, 1))


def register_whole(pool: Pool, block: Block, key: Key) -> Pool:
    """A block becomes full: whatever it could be found by goes, and comes back behind the other copies."""
    return register(forget(pool, block), block, key)


def register_full(config: Config, pool: Pool, request: Request, start: int, end: int) -> Pool:
    """Full attention, when scheduled: full blocks, and the end of the prompt, in an adopted block too (C-KV-6)."""
    blocks = table_of(pool, request, FULL)
    for position in range(start // config.block_size, end // config.block_size):
        key = key_of(config, request, FULL, (position + 1) * config.block_size)
        pool = register_whole(pool, blocks[position], key)
    tail = tail_of(config, request)
    if ends_within(config, tail) and end >= tail:
        pool = register(pool, blocks[position_of(config, tail)], key_of(config, request, FULL, tail))
    return pool


def register_states(config: Config, pool: Pool, request: Request, start: int, end: int) -> Pool:
    """State-space layers, when scheduled: the state behind each block, and that behind the prompt (C-KV-6)."""
    blocks = table_of(pool, request, STATE)
    for position in range(start // config.block_size, end // config.block_size):
        if blocks[position] != pool.null:
            key = key_of(config, request, STATE, (position + 1) * config.block_size)
            pool = of_this_step(register_whole(pool, blocks[position], key), key)
    if end == tail_of(config, request) and ends_within(config, end):
        key = key_of(config, request, STATE, end)
        pool = of_this_step(register(pool, blocks[position_of(config, end)], key), key)
    return pool


def scheduled(config: Config, pool: Pool, request: Request, progress: Progress, end: int) -> Pool:
    """The step being planned computes these tokens, and what it will have computed can be found."""
    start = progress.scheduled
    pool = planned(config, pool, request, progress, end)
    pool = register_full(config, pool, request, start, end)
    if config.alone == 0:
        pool = register_states(config, pool, request, start, end)
    return pool


# Allocation ---------------------------------------------------------------------------------------------------------

Waits = Callable[[Config, Pool, Request, int], bool]
"""Whether a new request waits for the next step, because its hit ends with what this step computes or copies."""


def waits_for_state(config: Config, pool: Pool, request: Request, found: int) -> bool:
    """The state of the hit is one that the step being planned computes or copies.

    Whether that step computes the block of full attention that is to be copied, it does not look at (C-KV-34).
    """
    return found > 0 and pool.this_step.has(key_of(config, request, STATE, found))


def move_state(config: Config, pool: Pool, request: Request, start: int) -> Pool:
    """The keys of the state go to its copy at once: nothing of this step finds it, and it is filled before the next."""
    position = position_of(config, start)
    block, key = table_of(pool, request, STATE)[position], key_of(config, request, STATE, start)
    pool = preserve(config, forget(pool, block), request, position, (STATE, NOTHING))
    return of_this_step(register(pool, pool.copies[len(pool.copies) - 1].target, key), key)


def allocate_new(config: Config, pool: Pool, op: AllocateSlots, waits: Waits) -> Result:
    """A request without tables."""
    found = cached_tokens(config, pool, op.request)
    end = found + op.tokens
    if end > len(config.chains[op.request]):
        return pool, TOO_LARGE
    if op.tokens <= 0 or waits(config, pool, op.request, found):
        return pool, REFUSED
    if needed_by_new(config, pool, op.request, found, end) > pool.free.length:
        return pool, REFUSED
    pool = begin(config, pool, op.request, found, end)
    pool = scheduled(config, pool, op.request, Progress(found, found, found), end)
    return pool, Outcome(Code.DONE, (found,))


def allocate_running(config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """A request with tables."""
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
    return scheduled(config, pool, op.request, progress, end), Outcome(Code.DONE, (0,))


# Calls --------------------------------------------------------------------------------------------------------------


def allocating(waits: Waits) -> Transition[Config, Pool, AllocateSlots]:
    """`allocate_slots`, where new requests wait by this rule."""

    def allocate_slots(config: Config, pool: Pool, op: AllocateSlots) -> Result:
        """Both groups or neither."""
        if pool.progress.has(op.request):
            return allocate_running(config, pool, op)
        return allocate_new(config, pool, op, waits)

    return allocate_slots


def dispatch(config: Config, pool: Pool, op: Dispatch) -> Result:
    """All blocks of the copies go, that of a moved state too: it can be found already."""
    copies = planned_copies(config, pool)
    pool = let_all_go(pool, pairs(copies))
    for request in range(len(config.chains)):
        for tokens in range(config.hash_size, len(config.chains[request]) + 1, config.hash_size):
            pool = pool._replace(this_step=pool.this_step.remove(key_of(config, request, STATE, tokens)))
    return pool._replace(dispatched=pool.dispatched + 1), Outcome(Code.DONE, pairs(copies))


def execute(config: Config, pool: Pool, op: Execute) -> Result:
    """No such call: the worker computes, and registers nothing."""
    return (pool, ABSENT) if pool.dispatched == 0 else (run(config, pool), DONE)
