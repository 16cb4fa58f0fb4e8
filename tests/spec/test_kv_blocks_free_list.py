"""The linked free list of releases: a queue while it is whole, and the damage of a block that is appended twice."""

from __future__ import annotations

import random

import pytest
from tests.planting import Change, planted

from cachespec.kernel import FROZEN, Code
from cachespec.kv_blocks import (
    COMPONENT,
    K1,
    K1B,
    K2,
    NORMATIVE_KV_BLOCKS,
    AllocateSlots,
    Config,
    FreeRequest,
    GetComputedBlocks,
)
from cachespec.kv_blocks import era_free_list as lists
from cachespec.kv_blocks.eras import K1_QUEUED, PoolVariant
from cachespec.kv_blocks.state import Pool

SIX = Config(1, 6, ((0, 1, 2), (0, 1, 3)), (3, 3), hashes=(0, 0, 2, 3))
"""The first two blocks of both requests have one hash."""
FIRST, HIT_TWICE = AllocateSlots(0, 0, 3, ()), AllocateSlots(0, 0, 1, (1, 1))
OTHER_HITS_TWICE = AllocateSlots(1, 0, 1, (1, 1))


def popped_and_returned(linked: Pool, keyed: Pool, source: random.Random) -> tuple[Pool, Pool]:
    """One change of a whole list, and the same change of a queue."""
    free = linked.free_order()
    chosen = source.randrange(3)
    if chosen == 0:
        count = source.randint(0, len(free))
        linked, blocks, whole = linked.popped(count)
        keyed, others, as_whole = keyed.popped(count)
        assert (blocks, whole) == (others, as_whole) == (free[:count], True)
    elif chosen == 1 and free:
        block = source.choice(free)
        linked, removed = linked.removed(block)
        keyed, _ = keyed.removed(block)
        assert removed
    else:
        outside = [block for block in range(1, 6) if block not in free]
        blocks = tuple(source.sample(outside, source.randint(0, len(outside))))
        (linked, _), (keyed, _) = linked.appended(blocks), keyed.appended(blocks)
    return linked, keyed


def agree(steps: int) -> bool:
    """Whether the list is as the queue is, step by step."""
    source = random.Random(3)
    linked, keyed = K1.start(SIX), K1_QUEUED.start(SIX)
    for _ in range(steps):
        linked, keyed = popped_and_returned(linked, keyed, source)
        if linked.free_order() != keyed.free_order() or linked.free_count() != keyed.free_count():
            return False
    return True


def is_noticed() -> bool:
    """A difference, or a list that breaks."""
    try:
        return not agree(400)
    except AssertionError:
        return True


def test_a_whole_list_is_a_queue() -> None:
    assert agree(400)


@pytest.mark.parametrize(
    "change",
    [
        Change(lists.LinkedPool.removed, "$free.counter - 1", "$free.counter"),
        Change(lists.LinkedPool.appended, "joined($free, $last, TAIL)", "$free"),
        Change(lists.LinkedPool.popped, "joined($free, HEAD, $block)", "$free"),
        Change(lists.joined, "$free.preceding.set($after, $before)", "$free.preceding"),
    ],
)
def test_a_planted_bug_in_the_list_is_found(change: Change) -> None:
    with planted(change):
        assert is_noticed()


def after(variant: PoolVariant, *operations: AllocateSlots | FreeRequest) -> tuple[Pool, list[Code]]:
    """The pool after these calls, and their codes."""
    pool, codes = variant.start(SIX, FROZEN), []
    for operation in operations:
        pool, outcome = variant.call(SIX, pool, operation)
        codes.append(outcome.code)
    return pool, codes


TWICE = (FIRST, FreeRequest(0), HIT_TWICE, FreeRequest(0))


@pytest.mark.parametrize("variant", [K1, K1B])
def test_a_block_that_a_table_has_twice_is_counted_twice(variant: PoolVariant) -> None:
    pool, codes = after(variant, *TWICE)
    assert codes == [Code.DONE] * 4
    assert pool.free_order() == (5, 3, 2, 4, 1)
    assert pool.free_count() == 6


@pytest.mark.parametrize("variant", [K2, NORMATIVE_KV_BLOCKS])
def test_the_last_release_and_the_specification_queue_a_block_once(variant: PoolVariant) -> None:
    pool, _ = after(variant, *TWICE)
    assert pool.free_count() == len(pool.free_order())


def test_the_next_block_that_is_appended_is_lost() -> None:
    pool, _ = after(K1, *TWICE, HIT_TWICE, FreeRequest(0))
    assert 5 not in pool.free_order()
    assert pool.references.length == 0


def test_a_held_block_is_popped_and_an_assertion_ends_the_engine() -> None:
    rounds = (HIT_TWICE, FreeRequest(0)) * 3
    pool, codes = after(K1, *TWICE, *rounds, HIT_TWICE, OTHER_HITS_TWICE)
    assert codes == [Code.DONE] * (len(codes) - 1) + [Code.FAILED]
    assert list(K1.alphabet(SIX, after(K1, *TWICE)[0])) != []
    assert list(K1.alphabet(SIX, pool)) == []


def test_the_sentinel_is_handed_out_when_the_count_is_too_high() -> None:
    """The counter says that one block more is there than the links have: the sentinel is taken for it."""
    pool = K1.start(SIX)
    pool, _, _ = pool.popped(5)
    pool, _ = pool.appended((2, 2))
    assert pool.free_count() == 2
    pool, blocks, whole = pool.popped(2)
    assert (blocks, whole) == ((2, lists.TAIL), True)
    assert pool.appended((3,)) == (pool.ended(), False)


def test_a_block_outside_the_list_cannot_be_removed() -> None:
    pool, _, _ = K1.start(SIX).popped(2)
    assert pool.removed(1) == (pool.ended(), False)


def test_both_eras_of_the_list_are_variants() -> None:
    listed = {tag for tag, variant in COMPONENT.variants.items() if variant.state is lists.LinkedPool}
    assert listed == {"K1", "K1b", "K1-short"}


def test_a_sentinel_that_carries_a_content_is_found() -> None:
    """C-KV-21 in 0.11.0: the broken queue hands out its tail, number -1, which is registered and found (lockstep)."""
    config = Config(4, 5, ((0,), (0, 1, 2)), (6, 14), prompts=(3, 10), hashes=(0, 0, 2), steps=(1, 2, 4))
    again = (AllocateSlots(1, 0, 1, (2, 2)), FreeRequest(1))
    calls = (
        *(AllocateSlots(0, 0, 1, ()), AllocateSlots(1, 0, 4, ()), FreeRequest(1), *again, *again),
        *(AllocateSlots(1, 0, 1, (2, 2)), FreeRequest(0), FreeRequest(1)),
        *(AllocateSlots(0, 0, 1, ()), AllocateSlots(1, 0, 4, ())),
    )
    state = K1.start(config)
    for call in calls:
        state, _ = K1.call(config, state, call)
    _, found = K1.call(config, state, GetComputedBlocks(1, 10))
    assert (found.code, found.values) == (Code.HIT, (lists.TAIL, lists.TAIL))
