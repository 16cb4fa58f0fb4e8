"""References, the free queue, and the tables of a request: one for each group."""

from __future__ import annotations

from cachespec.layer_groups.configuration import NOTHING, STATE, Block, Config, Group, Position, Request
from cachespec.layer_groups.prefixes import first_needed, forget
from cachespec.layer_groups.state import NO_ROW, Pool, Row

# References and the free queue --------------------------------------------------------------------------------------


def touch(pool: Pool, block: Block) -> Pool:
    """One position more holds the block. LG-2: what is held is not free."""
    return pool._replace(
        references=pool.references.set(block, pool.references.get(block, 0) + 1),
        free=pool.free.remove(block),
    )


def let_go(pool: Pool, block: Block) -> Pool:
    """One position fewer holds the block; the last one makes it free. LG-11: a findable block is taken last."""
    count = pool.references.get(block, 0) - 1
    if count > 0:
        return pool._replace(references=pool.references.set(block, count))
    free = pool.free.push(block, 1) if pool.registered.has(block) else pool.free.push_front(block, 1)
    return pool._replace(references=pool.references.remove(block), free=free)


def take(pool: Pool) -> tuple[Pool, Block]:
    """The next free block. If it can be found, that is its eviction, whatever its group was."""
    block = pool.free.oldest(NOTHING)
    pool = forget(pool, block)
    return touch(pool, block)._replace(bytes=pool.bytes.remove(block)), block


# Tables -------------------------------------------------------------------------------------------------------------


def row_of(pool: Pool, request: Request, group: Group) -> Row:
    """The table's length and how far it is registered."""
    return pool.rows.get((request, group), NO_ROW)


def append(pool: Pool, request: Request, group: Group, block: Block) -> Pool:
    """The block is at the next position of the table."""
    row = row_of(pool, request, group)
    return pool._replace(
        tables=pool.tables.set((request, group, row.length), block),
        rows=pool.rows.set((request, group), row._replace(length=row.length + 1)),
    )


def lengthen(pool: Pool, request: Request, group: Group) -> Pool:
    """The table becomes longer by one block of the pool."""
    pool, block = take(pool)
    return append(pool, request, group, block)


def is_null_next(config: Config, pool: Pool, request: Request, group: Group, length: int) -> bool:
    """A state-space group has a block for the state behind a step, and none for what the step passes."""
    return config.kinds[group] == STATE and row_of(pool, request, group).length < length - 1


def extend(config: Config, pool: Pool, request: Request, group: Group, length: int) -> Pool:
    """The table gets at least `length` positions; the caller has made sure that enough blocks are free."""
    while row_of(pool, request, group).length < length:
        if is_null_next(config, pool, request, group, length):
            pool = append(pool, request, group, pool.null)
        else:
            pool = lengthen(pool, request, group)
    return pool


def passed(pool: Pool, request: Request, group: Group, positions: int) -> Pool:
    """Registration goes on behind these positions."""
    row = row_of(pool, request, group)._replace(cached=positions)
    return pool._replace(rows=pool.rows.set((request, group), row)) if row.length > 0 else pool


def drop(pool: Pool, request: Request, group: Group, position: Position) -> Pool:
    """LG-5: the block at this position goes back to the pool, and the null block is in its place."""
    block = pool.tables.get((request, group, position), pool.null)
    if block == pool.null:
        return pool
    return let_go(pool._replace(tables=pool.tables.set((request, group, position), pool.null)), block)


def give_back(config: Config, pool: Pool, request: Request, tokens: int) -> Pool:
    """LG-5: blocks that no token behind these reads go back, in each group the last one first."""
    for group in range(len(config.kinds)):
        gone = min(first_needed(config, group, tokens), row_of(pool, request, group).length)
        for turn in range(gone):
            pool = drop(pool, request, group, gone - 1 - turn)
    return pool
