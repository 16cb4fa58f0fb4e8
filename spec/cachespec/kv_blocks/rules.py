"""Choices of allocators that no era has by itself: the order of the free queue, and what becomes of copies.

A rule changes the normative manager, or whichever variant it is mixed into. Block managers of other engines follow
some of them. Each names the properties that it gives up: those that speak of just this choice, or a guarantee that the
choice costs, as `trusted-hash` costs that a found block holds the requested content.
"""

from __future__ import annotations

from collections.abc import Callable

from cachespec.kernel import Code, Outcome, Rule, Transition
from cachespec.kv_blocks.configuration import (
    NOTHING,
    Block,
    Config,
    Content,
    Position,
    Request,
    content_of,
    hash_of,
)
from cachespec.kv_blocks.era_rules import each_once, lookup_but_the_last
from cachespec.kv_blocks.operations import AllocateSlots, Commit, FreeRequest, GetComputedBlocks, Withdraw
from cachespec.kv_blocks.state import Pool
from cachespec.kv_blocks.transitions import (
    blocks_from,
    execute,
    find,
    forget,
    holding_of,
    is_unregistered,
    let_go,
    pass_by,
    register,
    register_full,
    touch,
)

Result = tuple[Pool, Outcome]
Blocks = tuple[Block, ...]
Order = Callable[[Blocks, Blocks], Blocks]
"""The free queue after a request has left: by the blocks that were free before, and by its own that became free."""
Registering = Callable[[Config, Pool, Request, Position], Pool]
"""What becomes of one full block that was written."""


# The order of the free queue ----------------------------------------------------------------------------------------


def queueing(order: Order) -> Callable[[Transition[Config, Pool, FreeRequest]], Transition[Config, Pool, FreeRequest]]:
    """A request's blocks join the free queue in this order."""

    def wrap(own: Transition[Config, Pool, FreeRequest]) -> Transition[Config, Pool, FreeRequest]:
        def leave(config: Config, pool: Pool, op: FreeRequest) -> Result:
            table, before = blocks_from(pool, op.request, 0), pool.free_order()
            after, outcome = own(config, pool, op)
            freed = each_once(tuple(block for block in table if after.free.has(block)))
            return queued(after, order(before, freed)), outcome

        return leave

    return wrap


def queued(pool: Pool, order: Blocks) -> Pool:
    """The pool with its free blocks in this order."""
    for block in order:
        pool = pool._replace(free=pool.free.remove(block).push(block, 1))
    return pool


def from_the_end(before: Blocks, freed: Blocks) -> Blocks:
    """Behind all others, the end of the table first."""
    return (*before, *reversed(freed))


def from_the_beginning(before: Blocks, freed: Blocks) -> Blocks:
    """Behind all others, the beginning of the table first."""
    return (*before, *freed)


def stacked(before: Blocks, freed: Blocks) -> Blocks:
    """Before all others, the end of the table first."""
    return (*reversed(freed), *before)


def ascending(before: Blocks, freed: Blocks) -> Blocks:
    """By number."""
    return tuple(sorted((*before, *freed)))


def free_order(name: str, statement: str, order: Order, *gives_up: str) -> Rule[Config, Pool]:
    """A rule about the order of the free queue."""
    return Rule(name, statement, wraps={FreeRequest: queueing(order), Withdraw: queueing(order)}, gives_up=gives_up)


# Copies -------------------------------------------------------------------------------------------------------------


def newest_copy_first(own: Transition[Config, Pool, GetComputedBlocks]) -> Transition[Config, Pool, GetComputedBlocks]:
    """The copies under each hash are tried from the last registered to the first."""

    def look_up(config: Config, pool: Pool, op: GetComputedBlocks) -> Result:
        turned = pool.prefix_map
        for known, copies in pool.prefix_map.items():
            turned = turned.set(known, tuple(reversed(copies)))
        return pool, own(config, pool._replace(prefix_map=turned), op)[1]

    return look_up


def commit_by(registering: Registering) -> Transition[Config, Pool, Commit]:
    """The normative call, with another rule for each block that was written in full."""

    def commit(config: Config, pool: Pool, op: Commit) -> Result:
        pool, outcome = execute(config, pool, op)
        while outcome.code is Code.DONE and is_unregistered(config, pool, op.request, op.computed):
            position = holding_of(pool, op.request).cached_blocks
            pool = registering(config, pass_by(pool, op.request), op.request, position)
        return pool, outcome

    return commit


def block_at(pool: Pool, request: Request, position: Position) -> Block:
    """The block at one position of a table."""
    return pool.tables.get((request, position), NOTHING)


def keep_the_last(config: Config, pool: Pool, request: Request, position: Position) -> Pool:
    """Earlier copies of the content cannot be found any more."""
    content = content_of(config, request, position)
    while find(config, pool, content) >= 0:
        pool = forget(config, pool, find(config, pool, content))
    return register(config, pool, block_at(pool, request, position), content)


def keep_the_first(config: Config, pool: Pool, request: Request, position: Position) -> Pool:
    """A content that can be found already is not registered again."""
    content = content_of(config, request, position)
    if find(config, pool, content) >= 0:
        return pool
    return register(config, pool, block_at(pool, request, position), content)


def merge(config: Config, pool: Pool, request: Request, position: Position) -> Pool:
    """The table names the first copy from now on, and the request's own block becomes free."""
    content = content_of(config, request, position)
    copy, own = find(config, pool, content), block_at(pool, request, position)
    if copy < 0:
        return register(config, pool, own, content)
    pool = touch(pool, copy)
    return let_go(pool._replace(tables=pool.tables.set((request, position), copy)), own)


# Registered early, and found by hash alone --------------------------------------------------------------------------


def registering_when_scheduled(
    own: Transition[Config, Pool, AllocateSlots],
) -> Transition[Config, Pool, AllocateSlots]:
    """C-KV-6: the full blocks of scheduled tokens can be found before their step is executed."""

    def allocate(config: Config, pool: Pool, op: AllocateSlots) -> Result:
        after, outcome = own(config, pool, op)
        if outcome.code is not Code.DONE:
            return after, outcome
        end = min(holding_of(after, op.request).scheduled, config.lengths[op.request])
        return register_full(config, after, op.request, end), outcome

    return allocate


def taking_hits_by_hash(own: Transition[Config, Pool, AllocateSlots]) -> Transition[Config, Pool, AllocateSlots]:
    """C-KV-10: a hit whose hash is right is taken for the content, whichever it has."""

    def allocate(config: Config, pool: Pool, op: AllocateSlots) -> Result:
        taken = pool.registered
        for position, block in enumerate(op.hits):
            wanted = content_of(config, op.request, position)
            if taken.has(block) and have_one_hash(config, taken.get(block, NOTHING), wanted):
                taken = taken.set(block, wanted)
        after, outcome = own(config, pool._replace(registered=taken), op)
        for block in op.hits:
            if after.registered.has(block):
                after = after._replace(registered=after.registered.set(block, pool.registered.get(block, NOTHING)))
        return after if outcome.code is Code.DONE else pool, outcome

    return allocate


def have_one_hash(config: Config, content: Content, other: Content) -> bool:
    """Whether both contents are found under the same hash."""
    return hash_of(config, content) == hash_of(config, other)


RULES: tuple[Rule[Config, Pool], ...] = (
    free_order(
        "unhashed-last",
        "a freed block that is not findable also joins the free queue behind all others (C-KV-15)",
        from_the_end,
        "KV-11/useless",
    ),
    free_order(
        "first-block-first",
        "freed blocks join the free queue behind all others, the first block of the table first",
        from_the_beginning,
        "KV-11",
        "KV-11/useless",
    ),
    free_order("freed-first", "the block that was freed last is reallocated first", stacked, "KV-11"),
    free_order(
        "lowest-first",
        "the free block with the lowest number is reallocated first",
        ascending,
        "KV-11",
        "KV-11/useless",
    ),
    Rule(
        "last-copy",
        "of several copies of a content, the one that was registered last is found",
        wraps={GetComputedBlocks: newest_copy_first},
        gives_up=("KV-3/first",),
    ),
    Rule(
        "last-copy-only",
        "a copy that is registered replaces the earlier ones, which cannot be found any more",
        replaces={Commit: commit_by(keep_the_last)},
        gives_up=("KV-3/kept", "KV-6", "KV-6/written"),
    ),
    Rule(
        "first-copy-only",
        "a content that can be found is not registered a second time",
        replaces={Commit: commit_by(keep_the_first)},
        gives_up=("KV-6", "KV-6/written"),
    ),
    Rule(
        "merged-copies",
        "a block whose content can be found is replaced by the first copy in the table, and becomes free",
        replaces={Commit: commit_by(merge)},
        gives_up=("KV-5", "KV-6"),
    ),
    Rule(
        "registered-when-scheduled",
        "full blocks are registered when their tokens are scheduled (C-KV-6)",
        wraps={AllocateSlots: registering_when_scheduled},
        gives_up=("KV-7", "KV-7/executed", "KV-7/found"),
    ),
    Rule(
        "trusted-hash",
        "a block is found by its hash alone, whichever content it has (C-KV-10)",
        replaces={GetComputedBlocks: lookup_but_the_last},
        wraps={AllocateSlots: taking_hits_by_hash},
        gives_up=("KV-6/chain", "KV-7", "KV-7/found", "KV-8/moment"),
    ),
)
