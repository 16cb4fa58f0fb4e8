"""What each call does, normatively.

Two rules differ from every release. Blocks are registered when their KV has been written (`Commit`) and not when they
are scheduled: a request that is withdrawn leaves nothing behind that can be found (KV-7, C-KV-6). And a block is found
by what it holds, not by its hash: where two hashes are equal, a hit is missed, and nobody reads another request's KV.
"""

from __future__ import annotations

from cachespec.kernel import (
    ABSENT,
    DONE,
    MISS,
    PRESENT,
    REFUSED,
    STALE,
    TOO_LARGE,
    Code,
    Outcome,
    Transitions,
)
from cachespec.kv_blocks.configuration import (
    NOTHING,
    Block,
    Config,
    Content,
    Position,
    Request,
    blocks_for,
    content_of,
    full_blocks,
    hash_of,
    limit_of,
)
from cachespec.kv_blocks.operations import (
    AllocateSlots,
    Commit,
    CommonPrefix,
    EvictBlock,
    FreeRequest,
    GetComputedBlocks,
    ResetPrefixCache,
    Withdraw,
)
from cachespec.kv_blocks.state import NO_TABLE, Holding, Pool

Result = tuple[Pool, Outcome]


# The prefix map -----------------------------------------------------------------------------------------------------


def first_of_content(pool: Pool, copies: tuple[Block, ...], content: Content) -> Block:
    """Of the blocks that carry one hash the first registered one that holds this content (C-KV-10)."""
    for block in copies:
        if pool.registered.get(block, NOTHING) == content:
            return block
    return NOTHING


def find(config: Config, pool: Pool, content: Content) -> Block:
    """The block in which a content is found, or nothing."""
    return first_of_content(pool, pool.prefix_map.get(hash_of(config, content), ()), content)


def cached_prefix(config: Config, pool: Pool, request: Request, most: int) -> tuple[Block, ...]:
    """The blocks of the request's longest cached prefix, at most so many."""
    hits: tuple[Block, ...] = ()
    while len(hits) < most:
        block = find(config, pool, content_of(config, request, len(hits)))
        if block < 0:
            return hits
        hits = (*hits, block)
    return hits


def register(config: Config, pool: Pool, block: Block, content: Content) -> Pool:
    """The block can be found from now on. KV-3: behind the copies that there are."""
    known = hash_of(config, content)
    return pool._replace(
        registered=pool.registered.set(block, content),
        prefix_map=pool.prefix_map.set(known, (*pool.prefix_map.get(known, ()), block)),
    )


def forget(config: Config, pool: Pool, block: Block) -> Pool:
    """The block cannot be found any more. KV-3: neither side of the prefix map keeps it."""
    if not pool.registered.has(block):
        return pool
    known = hash_of(config, pool.registered.get(block, NOTHING))
    left = without(pool.prefix_map.get(known, ()), block)
    return pool._replace(
        registered=pool.registered.remove(block),
        prefix_map=pool.prefix_map.set(known, left) if len(left) > 0 else pool.prefix_map.remove(known),
    )


def without(copies: tuple[Block, ...], block: Block) -> tuple[Block, ...]:
    """The copies in their order, the block left out."""
    return tuple(other for other in copies if other != block)


# References and the free queue --------------------------------------------------------------------------------------


def touch(pool: Pool, block: Block) -> Pool:
    """One place more holds the block. KV-2: what is held is not free. KV-9: nor can it be taken from here on."""
    return pool._replace(
        references=pool.references.set(block, pool.references.get(block, 0) + 1),
        free=pool.free.remove(block),
    )


def let_go(pool: Pool, block: Block) -> Pool:
    """One place fewer holds the block; the last one makes it free. KV-11: one that can be found is taken last.

    A block that is not findable is useless and is reallocated first (C-KV-15).
    """
    count = pool.references.get(block, 0) - 1
    if count > 0:
        return pool._replace(references=pool.references.set(block, count))
    free = pool.free.push(block, 1) if pool.registered.has(block) else pool.free.push_front(block, 1)
    return pool._replace(references=pool.references.remove(block), free=free)


def take(config: Config, pool: Pool) -> tuple[Pool, Block]:
    """The next free block; if it could be found, that is its eviction. Its new holder will write into it."""
    block = pool.free.oldest(NOTHING)
    pool = forget(config, pool, block)
    return touch(pool, block)._replace(bytes=pool.bytes.remove(block)), block


# Tables -------------------------------------------------------------------------------------------------------------


def holding_of(pool: Pool, request: Request) -> Holding:
    """How far the request has come; all zeros where it has no table."""
    return pool.holdings.get(request, NO_TABLE)


def append(pool: Pool, request: Request, block: Block) -> Pool:
    """The block is the next of the request's table. KV-5: tables only grow."""
    holding = holding_of(pool, request)
    return pool._replace(
        tables=pool.tables.set((request, holding.blocks), block),
        holdings=pool.holdings.set(request, holding._replace(blocks=holding.blocks + 1)),
    )


def are_cached(config: Config, pool: Pool, request: Request, hits: tuple[Block, ...]) -> bool:
    """Whether these blocks still hold the beginning of the request. Behind its last full block there is nothing."""
    for position in range(len(hits)):
        content = content_of(config, request, position)
        if content < 0 or pool.registered.get(hits[position], NOTHING) != content:
            return False
    return True


def free_among(pool: Pool, hits: tuple[Block, ...]) -> int:
    """How many of the hits are free: they are taken out of the free queue, and so are not there for others."""
    count = 0
    for position in range(len(hits)):
        count = count + (1 if pool.free.has(hits[position]) else 0)
    return count


def adopt(config: Config, pool: Pool, request: Request, hits: tuple[Block, ...]) -> Pool:
    """The hits become the beginning of the request's table. KV-9: all of them, before anything is taken (C-KV-3)."""
    for position in range(len(hits)):
        pool = append(touch(pool, hits[position]), request, hits[position])
    hit_tokens = len(hits) * config.block_size
    holding = holding_of(pool, request)
    return pool._replace(
        holdings=pool.holdings.set(
            request,
            holding._replace(
                cached_blocks=len(hits), cached_tokens=hit_tokens, computed=hit_tokens, scheduled=hit_tokens
            ),
        )
    )


def lacks_blocks(pool: Pool, request: Request, needed: int) -> bool:
    """The test of the loop that lengthens a table."""
    return holding_of(pool, request).blocks < needed


def lengthen(config: Config, pool: Pool, request: Request) -> Pool:
    """The body of that loop: the table becomes longer by one block."""
    pool, block = take(config, pool)
    return append(pool, request, block)


def extend(config: Config, pool: Pool, request: Request, needed: int) -> Pool:
    """Until the table has so many blocks; the caller has made sure that so many are free."""
    while lacks_blocks(pool, request, needed):
        pool = lengthen(config, pool, request)
    return pool


def blocks_from(pool: Pool, request: Request, first: Position) -> tuple[Block, ...]:
    """The request's blocks from this position on."""
    taken: tuple[Block, ...] = ()
    for turn in range(holding_of(pool, request).blocks - first):
        taken = (*taken, pool.tables.get((request, first + turn), NOTHING))
    return taken


def drop(pool: Pool, request: Request, position: Position) -> Pool:
    """One place of the request's table is given back."""
    block = pool.tables.get((request, position), NOTHING)
    return let_go(pool._replace(tables=pool.tables.remove((request, position))), block)


def release(pool: Pool, request: Request) -> Pool:
    """The request has no table any more.

    KV-11: blocks that cannot be found come to the front of the free queue, and the others behind all others, the end of
    the sequence first: so whatever is evicted, what is left is a prefix.
    """
    blocks = holding_of(pool, request).blocks
    for position in range(blocks):
        if not pool.registered.has(pool.tables.get((request, position), NOTHING)):
            pool = drop(pool, request, position)
    for turn in range(blocks):
        if pool.tables.has((request, blocks - 1 - turn)):
            pool = drop(pool, request, blocks - 1 - turn)
    return pool._replace(holdings=pool.holdings.remove(request))


# Execution ----------------------------------------------------------------------------------------------------------


def is_unwritten(pool: Pool, request: Request, computed: int) -> bool:
    """The test of the loop that follows the worker."""
    return holding_of(pool, request).computed < computed


def write_block(config: Config, pool: Pool, request: Request, computed: int) -> Pool:
    """The body of that loop: the worker writes to the end of a block, or to `computed`.

    The block has the KV of its content when it is full and all of it was computed.
    """
    holding = holding_of(pool, request)
    position = full_blocks(config, holding.computed)
    end = (position + 1) * config.block_size
    pool = pool._replace(holdings=pool.holdings.set(request, holding._replace(computed=min(end, computed))))
    if end > computed or holding.cached_tokens > position * config.block_size:
        return pool
    block = pool.tables.get((request, position), NOTHING)
    return pool._replace(bytes=pool.bytes.set(block, content_of(config, request, position)))


def write(config: Config, pool: Pool, request: Request, computed: int) -> Pool:
    """The request's tokens before `computed` are written."""
    while is_unwritten(pool, request, computed):
        pool = write_block(config, pool, request, computed)
    return pool


def is_unregistered(config: Config, pool: Pool, request: Request, computed: int) -> bool:
    """The test of the registering loop."""
    return holding_of(pool, request).cached_blocks < full_blocks(config, computed)


def pass_by(pool: Pool, request: Request) -> Pool:
    """The registering loop goes on behind the request's next full block."""
    holding = holding_of(pool, request)
    passed = holding._replace(cached_blocks=holding.cached_blocks + 1)
    return pool._replace(holdings=pool.holdings.set(request, passed))


def register_next(config: Config, pool: Pool, request: Request) -> Pool:
    """The body of that loop: the next full block. KV-6: what comes after an evicted block stays out of the map too."""
    position = holding_of(pool, request).cached_blocks
    block = pool.tables.get((request, position), NOTHING)
    pool = pass_by(pool, request)
    if position > 0 and not pool.registered.has(pool.tables.get((request, position - 1), NOTHING)):
        return pool
    return register(config, pool, block, content_of(config, request, position))


def register_full(config: Config, pool: Pool, request: Request, computed: int) -> Pool:
    """The full blocks among the request's tokens before `computed` can be found."""
    while is_unregistered(config, pool, request, computed):
        pool = register_next(config, pool, request)
    return pool


# Calls --------------------------------------------------------------------------------------------------------------


def get_computed_blocks(config: Config, pool: Pool, op: GetComputedBlocks) -> Result:
    """KV-12: never all tokens, so that at least one is left to compute (C-KV-4)."""
    hits = cached_prefix(config, pool, op.request, full_blocks(config, max(0, op.tokens - 1)))
    return pool, Outcome(Code.HIT, hits) if len(hits) > 0 else MISS


def allocate_slots(config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """KV-8: whatever it answers but DONE, nothing was changed. KV-9: hits first, then free blocks.

    KV-10: the table never becomes longer than the longest request (C-KV-1, C-KV-2). KV-1: a request that has a table
    adopts nothing (C-KV-5). KV-7: hits are looked at again.
    """
    holding = holding_of(pool, op.request)
    end = op.computed + len(op.hits) * config.block_size + op.tokens
    if end > limit_of(config):
        return pool, TOO_LARGE
    if len(op.hits) > 0 and holding.blocks > 0:
        return pool, PRESENT
    if op.computed < holding.computed or op.computed > holding.scheduled:
        return pool, STALE
    if not are_cached(config, pool, op.request, op.hits):
        return pool, STALE
    owned = holding.blocks + len(op.hits)
    needed = blocks_for(config, end)
    if op.tokens <= 0 or needed - owned > pool.free.length - free_among(pool, op.hits):
        return pool, REFUSED
    if holding.blocks == 0:
        pool = adopt(config, pool, op.request, op.hits)
    pool = extend(config, pool, op.request, needed)
    extended = holding_of(pool, op.request)._replace(scheduled=end)
    pool = pool._replace(holdings=pool.holdings.set(op.request, extended))
    return pool, Outcome(Code.DONE, blocks_from(pool, op.request, owned))


def execute(config: Config, pool: Pool, op: Commit) -> Result:
    """KV-7: the worker writes what was scheduled, and nothing else."""
    holding = holding_of(pool, op.request)
    if holding.blocks == 0:
        return pool, ABSENT
    if op.computed < holding.computed or op.computed > holding.scheduled:
        return pool, STALE
    return write(config, pool, op.request, op.computed), DONE


def commit(config: Config, pool: Pool, op: Commit) -> Result:
    """KV-7: what has been written can be found, and nothing else (C-KV-6)."""
    pool, outcome = execute(config, pool, op)
    if outcome.code is not Code.DONE:
        return pool, outcome
    return register_full(config, pool, op.request, op.computed), DONE


def free_request(config: Config, pool: Pool, op: FreeRequest) -> Result:
    """KV-1: each place of the table gives one reference back. What is in flight is still written."""
    if not pool.holdings.has(op.request):
        return pool, ABSENT
    flying = min(holding_of(pool, op.request).scheduled, config.lengths[op.request])
    return release(write(config, pool, op.request, flying), op.request), DONE


def withdraw(config: Config, pool: Pool, op: Withdraw) -> Result:
    """As freeing; what was scheduled has not been registered, so there is nothing to take back (C-KV-6)."""
    if not pool.holdings.has(op.request):
        return pool, ABSENT
    return release(pool, op.request), DONE


def evict_block(config: Config, pool: Pool, op: EvictBlock) -> Result:
    """KV-6: with a block goes what stands behind its content, in every table, because it might not be found any more.

    In every table, and not only in those that hold the block: tables with different copies share what is behind them.
    """
    if not pool.registered.has(op.block):
        return pool, ABSENT
    content = pool.registered.get(op.block, NOTHING)
    for request in range(len(config.chains)):
        pool = forget_behind(config, pool, request, content)
    return forget(config, pool, op.block), DONE


def forget_behind(config: Config, pool: Pool, request: Request, content: Content) -> Pool:
    """What stands behind the content in the request's table cannot be found any more."""
    behind = False
    for position in range(holding_of(pool, request).blocks):
        if behind:
            pool = forget(config, pool, pool.tables.get((request, position), NOTHING))
        behind = behind or content_of(config, request, position) == content
    return pool


def reset_prefix_cache(config: Config, pool: Pool, op: ResetPrefixCache) -> Result:
    """Refused while a request holds a block: the KV that it goes on writing would not be that of the new weights."""
    if pool.references.length > 0:
        return pool, REFUSED
    for block in range(config.blocks):
        pool = forget(config, pool, block)
    return pool, DONE


def is_common(pool: Pool, running: tuple[Request, ...], block: Block, position: Position) -> bool:
    """Whether every running request has this block here."""
    others = 0
    for request in running:
        others = others + (0 if pool.tables.get((request, position), NOTHING) == block else 1)
    return others == 0


def common_prefix(config: Config, pool: Pool, op: CommonPrefix) -> Result:
    """KV-13: tables of running requests are compared; a reference does not say whose it is (C-KV-13)."""
    blocks = holding_of(pool, op.request).blocks
    count = 0
    while count < blocks and is_common(pool, op.running, pool.tables.get((op.request, count), NOTHING), count):
        count = count + 1
    return pool, Outcome(Code.DONE, (count,))


TRANSITIONS: Transitions[Config, Pool] = {
    GetComputedBlocks: get_computed_blocks,
    AllocateSlots: allocate_slots,
    Commit: commit,
    FreeRequest: free_request,
    Withdraw: withdraw,
    EvictBlock: evict_block,
    ResetPrefixCache: reset_prefix_cache,
    CommonPrefix: common_prefix,
}
