"""Events of the later `KVCacheManager`, and `use_eagle`, as its tests are written; and the same tests with releases."""

from __future__ import annotations

from typing import Any

import pytest
from tests.impl.interfaces.cases import kv_cache_events as cases
from tests.impl.interfaces.kv_requests import LATER, LaterRequest, kv_cache_config
from tests.impl.interfaces.releases import Case, Difference, check_release, each

from cacheimpl.kv_cache_manager import (
    KV_2026_11,
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KVCacheManager,
    LaterKVCacheManager,
)
from cacheimpl.kv_cache_manager.events import external

VERSIONS = ("0.11.0", "0.20.2", "0.33.0")

DIFFERENCES = {
    "a_hash_is_told_with_its_first_copy_and_removed_with_its_last": Difference(VERSIONS, "C-KV-28"),
    "nothing_is_told_before_it_is_written": Difference(VERSIONS, "C-KV-6"),
    "a_drafting_head_drops_the_last_block_of_a_whole_prompt_once": Difference(VERSIONS, "C-KV-27"),
    "what_a_block_depends_on_is_told_without_tags": Difference(("0.11.0",), "the fields are later ones"),
}


@pytest.mark.parametrize("shape", LATER)
@pytest.mark.parametrize("case", each(cases))
def test_ours(case: Case, shape: str) -> None:
    case(LATER[shape])


@pytest.mark.nightly
@pytest.mark.parametrize("version", VERSIONS)
def test_released(version: str) -> None:
    check_release(version, cases, DIFFERENCES)


def test_a_consumer_knows_what_can_be_found() -> None:
    """A subscriber that counts what is stored and removed of each hash knows the manager's own map after any call."""
    manager = KVCacheManager(kv_cache_config(9, 4, 2), max_model_len=64, enable_kv_cache_events=True)
    assert isinstance(manager, LaterKVCacheManager)
    known: dict[Any, int] = {}
    for step in range(60):
        tokens = [(step * step) % 5, *[step % 3] * (3 + step % 9)]
        play(manager, LaterRequest(str(step), tokens))
        if step % 7 == 0:
            manager.evict_blocks([1 + step % 8])
        if step % 29 == 28:
            assert manager.reset_prefix_cache()
        for event in manager.take_events():
            hear(known, event)
        assert known == dict.fromkeys(shown(manager), 1)
    assert known


def play(manager: LaterKVCacheManager, request: LaterRequest) -> None:
    """Slots, a step, and it is over."""
    blocks, tokens, *_ = manager.get_computed_blocks(request)
    if manager.allocate_slots(request, request.num_tokens - tokens, tokens, blocks) is not None:
        request.num_computed_tokens = request.num_tokens
        manager.free(request)


def hear(known: dict[Any, int], event: Any) -> None:
    if isinstance(event, AllBlocksCleared):
        known.clear()
        return
    for block_hash in event.block_hashes:
        key = event.group_idx, block_hash
        known[key] = known.get(key, 0) + (1 if isinstance(event, BlockStored) else -1)
        if known[key] == 0:
            del known[key]


def shown(manager: LaterKVCacheManager) -> dict[Any, int]:
    """How many copies there are, by group and hash."""
    copies = manager.block_pool.cached_block_hash_to_block
    return {(group, external(key)): len(blocks) for (key, group), blocks in copies.items() if blocks}


def test_an_era_tells_what_it_does_when_it_is_scheduled() -> None:
    manager = KVCacheManager(
        kv_cache_config(4), max_model_len=64, enable_kv_cache_events=True, rules=KV_2026_11, use_eagle=True
    )
    manager.allocate_slots(LaterRequest("0", [1] * 40), 40)
    (event,) = manager.take_events()
    assert isinstance(event, BlockStored)
    assert (len(event.block_hashes), event.extra_keys) == (2, [None, None])
    assert not isinstance(event, BlockRemoved)
