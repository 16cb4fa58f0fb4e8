"""The eras of the KV cache manager, each without one of their faults."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cacheproof.catalogue.mends import AnyTransition, Change, Mend, around, together, transitions
from cacheproof.model.finding import Subject
from cachespec.kernel import DONE, FAILED, HIT, MISS, PRESENT, REFUSED, STALE, TOO_LARGE, Operation, Outcome
from cachespec.kv_blocks import groups
from cachespec.kv_blocks.configuration import NOTHING, Block, Config, content_of, hash_of, limit_of
from cachespec.kv_blocks.eras import K1_QUEUED, alphabet_of
from cachespec.kv_blocks.operations import (
    AllocateGroups,
    AllocateSlots,
    CommonPrefix,
    EvictBlock,
    FreeRequest,
    GetComputedBlocks,
    RollBack,
    Withdraw,
)
from cachespec.kv_blocks.rolling_back import roll_back
from cachespec.kv_blocks.state import Pool
from cachespec.kv_blocks.transitions import TRANSITIONS, forget, holding_of

Result = tuple[Pool, Outcome]
EVERY = ("K0b", "K1", "K1b", "K2")
ON_DEMAND = ("K1", "K1b", "K2")


def asking_again(change: Change) -> Change:
    """The change, with callers that go by what the mended manager answers to look-ups. None calls a dead engine."""

    def changed(subject: Subject) -> Subject:
        mended = change(subject)
        asked = alphabet_of(mended.variant.transitions)

        def alphabet(config: Config, pool: Pool) -> Iterable[Operation]:
            return () if pool.has_ended() else asked(config, pool)

        return replace(mended, variant=replace(mended.variant, alphabet=alphabet))

    return changed


# C-KV-6: blocks that no step has written ----------------------------------------------------------------------------


def is_written(pool: Pool, block: Block) -> bool:
    """The block has the KV of the content that it is registered for."""
    return pool.bytes.get(block, NOTHING) == pool.registered.get(block, NOTHING)


def finding_what_is_written(own: AnyTransition, config: Config, pool: Pool, op: GetComputedBlocks) -> Result:
    """C-KV-6: a look-up ends before the first block that no step has written."""
    hits: tuple[Block, ...] = own(config, pool, op)[1].values
    written = next((place for place, block in enumerate(hits) if not is_written(pool, block)), len(hits))
    return pool, HIT._replace(values=hits[:written]) if written else MISS


def forgetting_what_is_not(own: AnyTransition, config: Config, pool: Pool, op: Withdraw) -> Result:
    """C-KV-6: what a request leaves behind without having written it is not registered any more."""
    for position in range(holding_of(pool, op.request).blocks):
        block = pool.tables.get((op.request, position), NOTHING)
        if not is_written(pool, block):
            pool = forget(config, pool, block)
    return own(config, pool, op)


# Allocation ---------------------------------------------------------------------------------------------------------


def within_the_limit(own: AnyTransition, config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """C-KV-2: slots beyond the longest request are refused."""
    if op.computed + len(op.hits) * config.block_size + op.tokens > limit_of(config):
        return pool, TOO_LARGE
    return own(config, pool, op)


def only_appending(own: AnyTransition, config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """C-KV-5: a request that has a table adopts nothing, and a count that is not positive is refused."""
    if op.tokens <= 0:
        return pool, REFUSED
    if len(op.hits) > 0 and holding_of(pool, op.request).blocks > 0:
        return pool, PRESENT
    return own(config, pool, op)


def looking_at_hits(own: AnyTransition, config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """C-KV-37: slots are granted only if the hits are cached, under the hashes that the request has there."""
    for position, block in enumerate(op.hits):
        content, there = content_of(config, op.request, position), pool.registered.get(block, NOTHING)
        if NOTHING in (content, there) or hash_of(config, content) != hash_of(config, there):
            return pool, STALE
    return own(config, pool, op)


def asserting_first(own: AnyTransition, config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """C-KV-20: a call that fails has changed nothing."""
    changed: Result = own(config, pool, op)
    return (pool, REFUSED) if changed[1] == FAILED else changed


def registering_in_order(own: AnyTransition, config: Config, pool: Pool, op: AllocateSlots) -> Result:
    """C-KV-30: what is registered behind a block that cannot be found is forgotten again."""
    after: Pool
    after, outcome = own(config, pool, op)
    for position in range(1, holding_of(after, op.request).blocks):
        if not after.registered.has(after.tables.get((op.request, position - 1), NOTHING)):
            after = forget(config, after, after.tables.get((op.request, position), NOTHING))
    return after, outcome


def registering_again(own: AnyTransition, config: Config, pool: Pool, op: RollBack) -> Result:
    """C-KV-33: the count of registered blocks goes back with the tokens."""
    after: Pool
    after, outcome = own(config, pool, op)
    holding = holding_of(after, op.request)
    if outcome != DONE:
        return after, outcome
    back = holding._replace(cached_blocks=min(holding.cached_blocks, op.computed // config.block_size))
    return after._replace(holdings=after.holdings.set(op.request, back)), outcome


def of_own_hash(subject: Subject) -> Subject:
    """C-KV-10: no two contents have one hash."""
    return replace(subject, config=subject.config._replace(hashes=()))


# The free queue -----------------------------------------------------------------------------------------------------


def useless_first(own: AnyTransition, config: Config, pool: Pool, op: FreeRequest | Withdraw) -> Result:
    """C-KV-15: of the blocks that become free, those that cannot be found come before all others."""
    after: Pool
    after, outcome = own(config, pool, op)
    before = frozenset(pool.free_order())
    order = after.free_order()
    useless = tuple(block for block in order if block not in before and not after.registered.has(block))
    return queued(after, (*useless, *(block for block in order if block not in useless))), outcome


def queued(pool: Pool, order: tuple[Block, ...]) -> Pool:
    """The pool with its free blocks in this order. A list that has ended stays as it is."""
    for block in () if pool.has_ended() else order:
        pool, _ = pool.removed(block)
        pool, _ = pool.appended((block,))
    return pool


def as_a_queue(subject: Subject) -> Subject:
    """C-KV-21: each free block is in the queue exactly once, and a removal takes it out."""
    return replace(subject, variant=replace(subject.variant, state=Pool, initial=K1_QUEUED.initial))


MENDS = (
    Mend("C-KV-2", ("K0b",), around(within_the_limit, AllocateSlots)),
    Mend("C-KV-5", ("K0b",), around(only_appending, AllocateSlots)),
    Mend(
        "C-KV-6",
        EVERY,
        asking_again(
            together(around(finding_what_is_written, GetComputedBlocks), around(forgetting_what_is_not, Withdraw))
        ),
    ),
    Mend("C-KV-10", EVERY, of_own_hash),
    Mend("C-KV-12", ("K1b",), transitions({AllocateGroups: groups.allocate_in_two_phases})),
    Mend("C-KV-13", ("K0b", "K1"), transitions({CommonPrefix: TRANSITIONS[CommonPrefix]})),
    Mend("C-KV-15", ("K0b", "K1", "K1b"), around(useless_first, FreeRequest, Withdraw)),
    Mend("C-KV-19", ("K1b", "K2"), transitions({EvictBlock: TRANSITIONS[EvictBlock]})),
    Mend("C-KV-20", ON_DEMAND, around(asserting_first, AllocateSlots)),
    Mend("C-KV-21", ("K1", "K1b"), as_a_queue),
    Mend("C-KV-30", ("K1b", "K2"), around(registering_in_order, AllocateSlots)),
    Mend("C-KV-33", ("K1b", "K2"), around(registering_again, RollBack)),
    Mend("C-KV-37", ("K1", "K1b", "K2"), around(looking_at_hits, AllocateSlots)),
    Mend("C-SCH-25", ("K1b", "K2"), transitions({RollBack: roll_back})),
)
