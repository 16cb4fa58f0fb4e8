"""What the released managers have in common, where they differ from the normative one.

They find a block by its hash alone; they register full blocks when they schedule the tokens that will fill them; and
what goes wrong half way is an assertion, which leaves behind what was done up to there.
"""

from __future__ import annotations

from cachespec.kernel import ABSENT, DONE, FAILED, MISS, REFUSED, STALE, Code, Outcome
from cachespec.kv_blocks.configuration import NOTHING, Block, Config, Request, content_of, hash_of, limit_of
from cachespec.kv_blocks.operations import (
    Commit,
    CommonPrefix,
    EvictBlock,
    FreeRequest,
    GetComputedBlocks,
    ResetPrefixCache,
    Withdraw,
)
from cachespec.kv_blocks.state import Pool
from cachespec.kv_blocks.transitions import (
    append,
    blocks_from,
    extend,
    forget,
    holding_of,
    register,
    touch,
    write,
)

Result = tuple[Pool, Outcome]


def prefix_by_hash(config: Config, pool: Pool, request: Request, most: int) -> tuple[Block, ...]:
    """The blocks of the longest cached prefix, at most `most`.

    Of each position the block that was registered first under the hash, even if its content differs (C-KV-10). A
    sentinel that a broken free queue has handed out is found, too (C-KV-21).
    """
    hits: tuple[Block, ...] = ()
    while len(hits) < most:
        copies = pool.prefix_map.get(hash_of(config, content_of(config, request, len(hits))), ())
        if len(copies) == 0:
            return hits
        hits = (*hits, copies[0])
    return hits


def answered(pool: Pool, hits: tuple[Block, ...]) -> Result:
    """What a look-up returns."""
    return pool, Outcome(Code.HIT, hits) if len(hits) > 0 else MISS


def lookup_up_to_all(config: Config, pool: Pool, op: GetComputedBlocks) -> Result:
    """Until 0.7.3: all full blocks; of a full hit the scheduler gives one block back."""
    return answered(pool, prefix_by_hash(config, pool, op.request, op.tokens // config.block_size))


def lookup_but_the_last(config: Config, pool: Pool, op: GetComputedBlocks) -> Result:
    """Later: at least one token is left."""
    return answered(pool, prefix_by_hash(config, pool, op.request, max(0, op.tokens - 1) // config.block_size))


def touched(pool: Pool, hits: tuple[Block, ...]) -> Pool:
    """A reference more to each hit, in no table yet."""
    for block in hits:
        pool = touch(pool, block)
    return pool


def touched_in_list(pool: Pool, hits: tuple[Block, ...]) -> tuple[Pool, bool]:
    """From 0.11.0 on: an unreferenced hit is removed from the free queue; False if the removal fails."""
    for block in hits:
        removed = True
        if pool.references.get(block, 0) == 0 and block != pool.null:
            pool, removed = pool.removed(block)
        if not removed:
            return pool, False
        pool = referenced(pool, block)
    return pool, True


def referenced(pool: Pool, block: Block) -> Pool:
    """One reference more."""
    return pool._replace(references=pool.references.set(block, pool.references.get(block, 0) + 1))


def evictable(pool: Pool, hits: tuple[Block, ...]) -> int:
    """The hits without references, the null block left out: each is counted as often as it is named."""
    count = 0
    for block in hits:
        count = count + (1 if pool.references.get(block, 0) == 0 and block != pool.null else 0)
    return count


def with_hits(config: Config, pool: Pool, request: Request, hits: tuple[Block, ...]) -> Pool:
    """The hits come behind what the table has; they were touched before."""
    fresh = holding_of(pool, request).blocks == 0
    for block in hits:
        pool = append(pool, request, block)
    if not fresh or len(hits) == 0:
        return pool
    hit_tokens = len(hits) * config.block_size
    holding = holding_of(pool, request)._replace(cached_tokens=hit_tokens, computed=hit_tokens, scheduled=hit_tokens)
    return pool._replace(holdings=pool.holdings.set(request, holding))


def starting_at(pool: Pool, request: Request, computed: int) -> Pool:
    """History: the scheduler counts so many tokens as computed, whoever computed them."""
    holding = holding_of(pool, request)
    begun = holding._replace(cached_tokens=computed, computed=computed, scheduled=computed)
    return pool._replace(holdings=pool.holdings.set(request, begun))


def scheduled_to(pool: Pool, request: Request, end: int) -> Pool:
    """Steps in flight will write the request's tokens before `end`."""
    return pool._replace(holdings=pool.holdings.set(request, holding_of(pool, request)._replace(scheduled=end)))


def registered_to(pool: Pool, request: Request, blocks: int) -> Pool:
    """The count of registered blocks, as the managers keep it from 0.7.3 on."""
    return pool._replace(holdings=pool.holdings.set(request, holding_of(pool, request)._replace(cached_blocks=blocks)))


def has_room(pool: Pool, hits: tuple[Block, ...], needed: int) -> bool:
    """The number of free blocks that are not hits."""
    return needed <= pool.free_count() - evictable(pool, hits)


def lengthened(config: Config, pool: Pool, request: Request, more: int) -> Pool:
    """The table with further blocks appended."""
    return extend(config, pool, request, holding_of(pool, request).blocks + more)


def lengthened_from_list(config: Config, pool: Pool, request: Request, more: int) -> tuple[Pool, bool]:
    """From 0.11.0 on: all new blocks are popped at once, then referenced, then put into the table.

    False if too few are counted, if the queue ends before, or if a popped block has a reference already (C-KV-21).
    """
    if more <= 0:
        return pool, True
    if more > pool.free_count():
        return pool, False
    pool, blocks, whole = pool.popped(more)
    for block in blocks if whole else ():
        pool = forget(config, pool, block)
        if pool.references.get(block, 0) > 0:
            return pool.ended(), False
        pool = referenced(pool, block)
        pool = pool._replace(bytes=pool.bytes.remove(block))
    for block in blocks if whole else ():
        pool = append(pool, request, block)
    return pool, whole


def register_blocks(config: Config, pool: Pool, request: Request, first: int, last: int) -> tuple[Pool, bool]:
    """The blocks from `first` to before `last` carry their hashes from now on; False where an assertion fails.

    The KV is written later, or never (C-KV-6).
    """
    for position in range(first, last):
        block, content = pool.tables.get((request, position), NOTHING), content_of(config, request, position)
        if not pool.tables.has((request, position)) or content < 0 or pool.registered.has(block):
            return pool, False
        pool = register(config, pool, block, content)
    return pool, True


def new_blocks(pool: Pool, request: Request, owned: int) -> Result:
    """The answer: the blocks appended to the table."""
    return pool, Outcome(Code.DONE, blocks_from(pool, request, owned))


def execute(config: Config, pool: Pool, op: Commit) -> Result:
    """The worker has written; no such call."""
    holding = holding_of(pool, op.request)
    if holding.blocks == 0:
        return pool, ABSENT
    if op.computed < holding.computed or op.computed > holding.scheduled:
        return pool, STALE
    return write(config, pool, op.request, op.computed), DONE


def drop_at_the_end(pool: Pool, request: Request, position: int) -> Pool:
    """One place is given back; a block that becomes free goes behind all others, found or not (C-KV-15).

    The null block never becomes free, should a caller have named it as a hit.
    """
    block = pool.tables.get((request, position), NOTHING)
    pool = pool._replace(tables=pool.tables.remove((request, position)))
    count = pool.references.get(block, 0) - 1
    if count > 0:
        return pool._replace(references=pool.references.set(block, count))
    free = pool.free if block == pool.null else pool.free.push(block, 1)
    return pool._replace(references=pool.references.remove(block), free=free)


def release_backwards(pool: Pool, request: Request) -> Pool:
    """The table is given back from its end."""
    blocks = holding_of(pool, request).blocks
    for turn in range(blocks):
        pool = drop_at_the_end(pool, request, blocks - 1 - turn)
    return pool._replace(holdings=pool.holdings.remove(request))


def dereferenced(pool: Pool, request: Request) -> tuple[Pool, tuple[Block, ...]]:
    """The table is gone. Returns its blocks without references, from its end; one that it has twice is there twice."""
    table: tuple[Block, ...] = ()
    for turn in range(holding_of(pool, request).blocks):
        block = pool.tables.get((request, turn), NOTHING)
        table = (block, *table)
        count = pool.references.get(block, 0) - 1
        references = pool.references.set(block, count) if count != 0 else pool.references.remove(block)
        pool = pool._replace(references=references, tables=pool.tables.remove((request, turn)))
    unheld: tuple[Block, ...] = ()
    for block in table:
        unheld = (*unheld, block) if pool.references.get(block, 0) == 0 and block != pool.null else unheld
    return pool._replace(holdings=pool.holdings.remove(request)), unheld


def each_once(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Each block at its last place: there its last reference goes."""
    rest = blocks
    kept: tuple[Block, ...] = ()
    for block in blocks:
        rest = rest[1:]
        kept = kept if block in rest else (*kept, block)
    return kept


def queued_unhashed_first(pool: Pool, unheld: tuple[Block, ...]) -> Result:
    """0.33.0: blocks that are not findable to the front, the others to the end."""
    pool = pool.prepended(tuple(block for block in unheld if not pool.registered.has(block)))
    pool, whole = pool.appended(tuple(block for block in unheld if pool.registered.has(block)))
    return pool, DONE if whole else FAILED


def release_at_once(pool: Pool, request: Request) -> Result:
    """From 0.11.0 on: all references go first, and then all unreferenced places are queued (C-KV-15, C-KV-21)."""
    pool, unheld = dereferenced(pool, request)
    pool, whole = pool.appended(unheld)
    return pool, DONE if whole else FAILED


def free_at_once(config: Config, pool: Pool, op: FreeRequest) -> Result:
    """What is in flight is still written."""
    if not pool.holdings.has(op.request):
        return pool, ABSENT
    flying = min(holding_of(pool, op.request).scheduled, config.lengths[op.request])
    return release_at_once(write(config, pool, op.request, flying), op.request)


def withdraw_at_once(config: Config, pool: Pool, op: Withdraw) -> Result:
    """C-KV-6: blocks registered for this step keep their hashes, although no step will write them."""
    if not pool.holdings.has(op.request):
        return pool, ABSENT
    return release_at_once(pool, op.request)


def free_backwards(config: Config, pool: Pool, op: FreeRequest) -> Result:
    """What is in flight is still written."""
    if not pool.holdings.has(op.request):
        return pool, ABSENT
    flying = min(holding_of(pool, op.request).scheduled, config.lengths[op.request])
    return release_backwards(write(config, pool, op.request, flying), op.request), DONE


def withdraw_backwards(config: Config, pool: Pool, op: Withdraw) -> Result:
    """C-KV-6: blocks registered for this step keep their hashes, although no step will write them."""
    if not pool.holdings.has(op.request):
        return pool, ABSENT
    return release_backwards(pool, op.request), DONE


def evict_one(config: Config, pool: Pool, op: EvictBlock) -> Result:
    """C-KV-19: the block alone; what stands behind it in a table stays registered."""
    if not pool.registered.has(op.block):
        return pool, ABSENT
    return forget(config, pool, op.block), DONE


def reset_when_idle(config: Config, pool: Pool, op: ResetPrefixCache) -> Result:
    """Refused unless every block, the null block left out, is in the free queue."""
    aside = 1 if pool.null >= 0 else 0
    if pool.free_count() + aside != config.blocks:
        return pool, REFUSED
    for block in range(config.blocks):
        pool = forget(config, pool, block)
    return pool, DONE


def common_by_count(pool: Pool, op: CommonPrefix, everybody: int) -> Result:
    """Leading blocks with as many references."""
    blocks = holding_of(pool, op.request).blocks
    count = 0
    while count < blocks and pool.references.get(pool.tables.get((op.request, count), NOTHING), 0) == everybody:
        count = count + 1
    return pool, Outcome(Code.DONE, (count,))


def common_by_running(config: Config, pool: Pool, op: CommonPrefix) -> Result:
    """C-KV-13: as many references as requests run, whosesoever they are."""
    return common_by_count(pool, op, len(op.running))


def slots_end(config: Config, end: int) -> int:
    """No slots beyond the longest request, from 0.8 on; what is drafted beyond has none."""
    return min(end, limit_of(config))


def failed(pool: Pool) -> Result:
    """An assertion, and what was done up to there."""
    return pool, FAILED
