"""What the worker does with the steps that it has, one after the other, and what blocks hold then."""

from __future__ import annotations

from cachespec.partial_hits.configuration import FULL, NOTHING, STATE, Block, Config, Key, Position, Request, groups
from cachespec.partial_hits.prefixes import key_of
from cachespec.partial_hits.state import NO_PROGRESS, Copy, Pool, Write
from cachespec.partial_hits.tables import table_of

# What is planned ----------------------------------------------------------------------------------------------------


def with_writes(config: Config, pool: Pool, request: Request, start: int, end: int) -> Pool:
    """The step being planned computes these tokens, in each group."""
    for group in groups(config):
        write = Write(pool.dispatched, request, group, start, end, table_of(pool, request, group), 1)
        pool = pool._replace(writes=(*pool.writes, write))
    return pool


def orphaned(pool: Pool, request: Request) -> tuple[Write, ...]:
    """The request was freed: its steps in flight are still executed, and the step being planned leaves it out.

    Copies stay, and do no harm: nothing reads a target that is a request's own.
    """
    return tuple(
        write._replace(lives=0) if write.request == request else write
        for write in pool.writes
        if write.request != request or write.step < pool.dispatched
    )


# What blocks hold ---------------------------------------------------------------------------------------------------


def copied(pool: Pool, copies: tuple[Copy, ...]) -> Pool:
    """All sources are read before a target is written."""
    before = pool.bytes
    for copy in copies:
        pool = pool._replace(bytes=pool.bytes.set(copy.target, before.get(copy.source, ())))
    return pool


def slots_of(config: Config, held: tuple[Key, ...], write: Write, position: Position) -> tuple[Key, ...]:
    """What the block of full attention at this position holds behind the write."""
    first = position * config.block_size
    slots: tuple[Key, ...] = ()
    for slot in range(config.block_size):
        if write.start <= first + slot < write.end:
            slots = (*slots, key_of(config, write.request, FULL, first + slot + 1))
        elif slot < len(held):
            slots = (*slots, held[slot])
        elif first + slot < write.end:
            slots = (*slots, (FULL, NOTHING))
    return slots


def written(config: Config, pool: Pool, write: Write) -> Pool:
    """The KV of the tokens, or the state behind them."""
    last = position_of(config, write.end)
    if write.group == STATE:
        state = key_of(config, write.request, STATE, write.end)
        return pool._replace(bytes=pool.bytes.set(write.blocks[last], (state,)))
    for position in range(write.start // config.block_size, last + 1):
        block = write.blocks[position]
        slots = slots_of(config, pool.bytes.get(block, ()), write, position)
        pool = pool._replace(bytes=pool.bytes.set(block, slots))
    return pool


def position_of(config: Config, tokens: int) -> Position:
    """Where the last of these tokens is."""
    return (tokens - 1) // config.block_size


# One step -----------------------------------------------------------------------------------------------------------


def copies_of(pool: Pool, step: int) -> tuple[Copy, ...]:
    """The copies of this step."""
    return tuple(copy for copy in pool.copies if copy.step == step)


def writes_of(pool: Pool, step: int) -> tuple[Write, ...]:
    """What this step computes."""
    return tuple(write for write in pool.writes if write.step == step)


def run(config: Config, pool: Pool) -> Pool:
    """The oldest step is executed: its copies, then what its requests compute; those have come further."""
    copies, writes = copies_of(pool, 0), writes_of(pool, 0)
    pool = copied(pool, copies)
    for write in writes:
        pool = written(config, pool, write)
        if write.lives == 1:
            progress = pool.progress.get(write.request, NO_PROGRESS)._replace(computed=write.end)
            pool = pool._replace(progress=pool.progress.set(write.request, progress))
    return pool._replace(
        copies=later_copies(pool.copies),
        writes=later_writes(pool.writes),
        dispatched=pool.dispatched - 1,
    )


def later_copies(copies: tuple[Copy, ...]) -> tuple[Copy, ...]:
    """Those of later steps; each is one step nearer."""
    return tuple(copy._replace(step=copy.step - 1) for copy in copies if copy.step > 0)


def later_writes(writes: tuple[Write, ...]) -> tuple[Write, ...]:
    """Those of later steps; each is one step nearer."""
    return tuple(write._replace(step=write.step - 1) for write in writes if write.step > 0)


def is_written_later(config: Config, pool: Pool, block: Block) -> bool:
    """A later step overwrites this state."""
    states = tuple(write for write in pool.writes if write.group == STATE)
    return any(write.blocks[position_of(config, write.end)] == block for write in states)
