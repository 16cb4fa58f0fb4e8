"""References, the free queue, and the tables of a request: one for each group."""

from __future__ import annotations

from cachespec.partial_hits.configuration import (
    FULL,
    NOTHING,
    STATE,
    Block,
    Config,
    Group,
    Key,
    Position,
    Request,
    blocks_for,
    groups,
)
from cachespec.partial_hits.prefixes import forget
from cachespec.partial_hits.state import Copy, Pool

# References and the free queue --------------------------------------------------------------------------------------


def touch(pool: Pool, block: Block) -> Pool:
    """One reference more. PH-2: a held block is not free."""
    return pool._replace(
        references=pool.references.set(block, pool.references.get(block, 0) + 1),
        free=pool.free.remove(block),
    )


def one_fewer(pool: Pool, block: Block) -> Pool:
    """One reference fewer; the last one goes without a trace."""
    count = pool.references.get(block, 0) - 1
    left = pool.references.set(block, count) if count > 0 else pool.references.remove(block)
    return pool._replace(references=left)


def let_all_go(pool: Pool, blocks: tuple[Block, ...]) -> Pool:
    """One reference to each goes. PH-10: a block that becomes free and can be found is taken last.

    Those that cannot be found are taken before all others, in the order in which they became free.
    """
    useless: tuple[Block, ...] = ()
    for block in blocks:
        if block != pool.null:
            pool = one_fewer(pool, block)
            if not pool.references.has(block) and pool.registered.has(block):
                pool = pool._replace(free=pool.free.push(block, 1))
            elif not pool.references.has(block):
                useless = (*useless, block)
    for turn in range(len(useless)):
        pool = pool._replace(free=pool.free.push_front(useless[len(useless) - 1 - turn], 1))
    return pool


def take(pool: Pool) -> tuple[Pool, Block]:
    """The next free block. If it can be found, that is its eviction, under all its keys."""
    block = pool.free.oldest(NOTHING)
    return touch(forget(pool, block), block), block


# Tables -------------------------------------------------------------------------------------------------------------


def table_of(pool: Pool, request: Request, group: Group) -> tuple[Block, ...]:
    """The blocks of the request in this group."""
    return pool.tables.get((request, group), ())


def with_table(pool: Pool, request: Request, group: Group, blocks: tuple[Block, ...]) -> Pool:
    """The request has these blocks in this group."""
    return pool._replace(tables=pool.tables.set((request, group), blocks))


def append(pool: Pool, request: Request, group: Group, block: Block) -> Pool:
    """The block is at the next position of the table."""
    return with_table(pool, request, group, (*table_of(pool, request, group), block))


def put(pool: Pool, request: Request, group: Group, position: Position, block: Block) -> Pool:
    """The block is at this position instead of the one that was there."""
    table = table_of(pool, request, group)
    return with_table(pool, request, group, (*table[:position], block, *table[position + 1 :]))


def extend(config: Config, pool: Pool, request: Request, group: Group, tokens: int) -> Pool:
    """The table gets slots for `tokens`. State-space layers have a block for the state behind a step only."""
    length = blocks_for(config, tokens)
    while len(table_of(pool, request, group)) < length:
        if group == STATE and len(table_of(pool, request, group)) < length - 1:
            pool = append(pool, request, group, pool.null)
        else:
            pool, block = take(pool)
            pool = append(pool, request, group, block)
    return pool


def first_needed(config: Config, group: Group, tokens: int) -> Position:
    """PH-5: the first position that the token behind these reads: all, or the state behind the last token."""
    return 0 if group == FULL else max(0, tokens - 1) // config.block_size


def give_back(config: Config, pool: Pool, request: Request, tokens: int) -> Pool:
    """PH-5: blocks that no token behind these reads go back; the null block is in their places."""
    for group in groups(config):
        table = table_of(pool, request, group)
        gone = min(first_needed(config, group, tokens), len(table))
        pool = with_table(pool, request, group, (*nulls(pool, gone), *table[gone:]))
        pool = let_all_go(pool, backwards(table[:gone]))
    return pool


def nulls(pool: Pool, count: int) -> tuple[Block, ...]:
    """As many null blocks."""
    return tuple(pool.null for _ in range(count))


def backwards(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """The last one first."""
    return tuple(blocks[len(blocks) - 1 - turn] for turn in range(len(blocks)))


# Copies -------------------------------------------------------------------------------------------------------------


def redirect(config: Config, pool: Pool, request: Request, group: Group, position: Position) -> Pool:
    """PH-4: the request gets a block of its own for a hit that ends within one, and the worker copies the shared one.

    PH-6: until the step is dispatched, the copy holds both: the shared one by what was the table's reference.
    """
    source = table_of(pool, request, group)[position]
    pool, target = take(pool)
    pool = put(touch(pool, target), request, group, position, target)
    return with_copy(pool, Copy(pool.dispatched, group, source, target, (group, NOTHING)))


def preserve(config: Config, pool: Pool, request: Request, position: Position, key: Key) -> Pool:
    """PH-7: the state that others can find is copied into a new block before the request overwrites it.

    PH-6: the copy holds the one until the step is dispatched, and the other until it has run.
    """
    source = table_of(pool, request, STATE)[position]
    pool, target = take(pool)
    return with_copy(touch(pool, source), Copy(pool.dispatched, STATE, source, target, key))


def with_copy(pool: Pool, copy: Copy) -> Pool:
    """The worker will copy a block."""
    return pool._replace(copies=(*pool.copies, copy))


def is_for_others(copy: Copy) -> bool:
    """The target will be found by others; if not, it is a request's own."""
    return copy.key[1] != NOTHING


def planned_copies(config: Config, pool: Pool) -> tuple[Copy, ...]:
    """The copies of the step being planned, those of the first group first."""
    return tuple(
        copy for group in groups(config) for copy in pool.copies if copy.step == pool.dispatched and copy.group == group
    )


def pairs(copies: tuple[Copy, ...]) -> tuple[Block, ...]:
    """For each copy the block to copy from and the block to copy to."""
    blocks: tuple[Block, ...] = ()
    for copy in copies:
        blocks = (*blocks, copy.source, copy.target)
    return blocks


def held_to_dispatch(copies: tuple[Copy, ...]) -> tuple[Block, ...]:
    """PH-6: what the copies hold until the worker has them. What others will find is held until it has run."""
    blocks: tuple[Block, ...] = ()
    for copy in copies:
        blocks = (*blocks, copy.source) if is_for_others(copy) else (*blocks, copy.source, copy.target)
    return blocks
