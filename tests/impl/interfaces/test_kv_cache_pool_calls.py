"""Calls of connectors to the pool: they register blocks that they fill themselves, and evict blocks by number."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.kv_requests import later_request

from cacheimpl.kv_cache_manager import KV_2026_11, NORMATIVE, BlockStored, LaterKVCacheManager, Rules
from cacheimpl.kv_cache_manager.errors import ForeignBlockError, InvalidCountError, StaleBlocksError


def manager_of(rules: Rules = NORMATIVE, *, several: bool = True) -> LaterKVCacheManager:
    kinds: tuple[tuple[str, dict[str, int]], ...] = (
        ("FullAttentionSpec", {}),
        ("SlidingWindowSpec", {"sliding_window": 4}),
    )
    groups = [
        SimpleNamespace(kv_cache_spec=type(name, (SimpleNamespace,), {})(block_size=2, **more))
        for name, more in kinds[: 1 + several]
    ]
    config = SimpleNamespace(num_blocks=20, kv_cache_groups=groups)
    return LaterKVCacheManager(
        config, 64, scheduler_block_size=2, hash_block_size=2, enable_kv_cache_events=True, rules=rules
    )


@pytest.mark.parametrize("rules", [NORMATIVE, KV_2026_11], ids=["normative", "0.33.0"])
@pytest.mark.parametrize("keys", [True, False], ids=["with keys", "without keys"])
def test_registered_blocks_are_found_and_told(rules: Rules, *, keys: bool) -> None:
    manager = manager_of(rules)
    pool = manager.block_pool
    request: Any = later_request("0", [*range(9)])
    again: Any = later_request("1", [*range(9)])
    for one in (request, again):
        one.block_hashes = [b"a", b"b", b"c", b"d"] if keys else []
    for group, skipped in ((0, None), (1, [True, False, True])):
        blocks = pool.get_new_blocks(4)
        pool.cache_full_blocks(request, blocks, 0, 1, 2, group)
        pool.cache_full_blocks(request, blocks, 1, 4, 2, group, skipped)
        assert [block.block_hash is None for block in blocks] == [False, False, group == 1, False]
        pool.free_blocks(reversed(blocks))
    told = [(one.group_idx, one.token_ids) for one in manager.take_events() if isinstance(one, BlockStored)]
    assert told == [(0, [0, 1]), (0, [2, 3, 4, 5, 6, 7]), (1, [0, 1]), (1, [2, 3]), (1, [6, 7])]
    hits, tokens, _ = manager.get_computed_blocks(again)
    assert tokens == 4  # behind 8, a window reads two blocks, and the one before the last was left out
    assert manager.allocate_slots(again, 5, tokens, hits) is not None
    other: Any = later_request("2", [9, 9, 9])
    assert manager.get_computed_blocks(other)[1] == 0


def test_an_evicted_block_takes_along_what_is_behind_it() -> None:
    """As `evict_blocks` of the manager does (C-KV-19); the rules of the release leave it."""
    for rules, left in ((NORMATIVE, [False, True, True]), (KV_2026_11, [False, True, False])):
        manager = manager_of(rules, several=False)
        request: Any = later_request("0", [*range(6)])
        manager.allocate_slots(request, 6)
        manager.cache_blocks(request, 6)
        manager.block_pool.evict_blocks({2})
        assert [block.block_hash is None for block in manager.get_blocks("0").blocks[0]] == left


def test_what_cannot_be_registered() -> None:
    manager = manager_of(several=False)
    pool, request = manager.block_pool, later_request("0", [*range(5)])
    blocks = pool.get_new_blocks(3)
    strange = manager_of().block_pool.get_new_blocks(2)
    for error, given, counts in (
        (InvalidCountError, blocks, (0, 3, 2)),  # two blocks are full
        (InvalidCountError, blocks[:1], (0, 2, 2)),
        (InvalidCountError, blocks, (-1, 2, 2)),
        (InvalidCountError, blocks, (0, 2, 3)),
        (InvalidCountError, blocks, (0, 2, 2, 1)),  # there is one group
        (InvalidCountError, blocks, (0, 2, 2, 0, [True])),
        (ForeignBlockError, strange, (0, 2, 2)),
    ):
        with pytest.raises(error):
            pool.cache_full_blocks(request, given, *counts)
    assert not pool.registered.first
    pool.cache_full_blocks(request, blocks, 1, 1, 2)
    pool.cache_full_blocks(request, blocks, 0, 1, 2)
    with pytest.raises(StaleBlocksError):
        pool.cache_full_blocks(request, blocks, 0, 2, 2)
    with pytest.raises(ForeignBlockError):
        pool.evict_blocks([1, 99])
    assert len(pool.registered.first) == 1


def test_the_map_of_registered_blocks_shows_the_pool_as_it_is() -> None:
    manager = manager_of(several=False)
    pool, request = manager.block_pool, later_request("0", [*range(5)])
    known = pool.cached_block_hash_to_block
    assert (len(known), known.get_one_block("a key"), known.pop("a key", 1)) == (0, None, None)
    first, second = pool.get_new_blocks(2), pool.get_new_blocks(2)
    for blocks in (first, second):
        pool.cache_full_blocks(request, blocks, 0, 2, 2)
    assert [[*its.values()] for its in known.values()] == [[first[0], second[0]], [first[1], second[1]]]
    key = first[1].block_hash
    assert known.get_one_block(key) is first[1]
    assert known.pop(key, first[0].block_id) is None
    assert known.pop(key, first[1].block_id) is first[1]
    assert (known.get_one_block(key), first[1].block_hash) == (second[1], None)
    assert known.pop(key, second[1].block_id) is second[1]
    assert (key in known, len(known), {*known}) == (False, 1, {first[0].block_hash})
