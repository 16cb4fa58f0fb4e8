"""What a scheduler asks of the later `KVCacheManager` besides look-ups and slots; `api` has ours, or a release's.

Standard library only. Block 0 is the null block, and blocks have 16 tokens.
"""

from __future__ import annotations

from typing import Any

TOKENS = [token for token in (10, 11, 12) for _ in range(16)]
"""Three full blocks."""


def free_ids(manager: Any) -> list[int]:
    return [block.block_id for block in manager.block_pool.free_block_queue.get_all_free_blocks()]


def filled(api: Any, **more: Any) -> tuple[Any, Any]:
    """A manager with a request of 49 tokens, all computed, and one of 20 tokens, of which 16 are."""
    manager = api.manager(11, 8192, **more)
    first, second = api.request("0", [*TOKENS, 1]), api.request("1", [7] * 20)
    for request, tokens in ((first, 49), (second, 20)):
        manager.allocate_slots(request, tokens)
        request.num_computed_tokens = tokens
        manager.cache_blocks(request, tokens)
    return manager, first


def case_blocks_that_are_given_back_later(api: Any) -> None:
    manager, first = filled(api)
    blocks = api.call(manager, "pop_blocks_for_free", first)
    assert [block.block_id for block in blocks] == [1, 2, 3, 4]
    assert manager.get_block_ids("0") == ([],)
    assert free_ids(manager) == [7, 8, 9, 10]
    assert [block.ref_cnt for block in blocks] == [1] * 4
    manager.block_pool.free_blocks(reversed(blocks))
    other, freed = filled(api)
    other.free(freed)
    assert free_ids(manager) == free_ids(other)
    assert api.call(manager, "pop_blocks_for_free", first) == []


def case_what_covers_computed_tokens(api: Any) -> None:
    manager, first = filled(api)
    for tokens, count in ((0, 0), (1, 1), (16, 1), (17, 2), (49, 4), (1000, 4)):
        assert api.call(manager, "get_block_ids_for_computed_tokens", "0", tokens) == ([1, 2, 3, 4][:count],)
    assert api.call(manager, "estimate_cached_tokens", first) == 48
    assert manager.estimate_cached_tokens(api.request("9", [1])) == 0


def case_hits_are_cut_at_whole_blocks(api: Any) -> None:
    manager, _ = filled(api)
    blocks, tokens, *_ = manager.get_computed_blocks(api.request("2", [*TOKENS, 2]))
    assert tokens == 48
    assert api.call(manager, "truncate_computed_blocks", blocks, 32).get_block_ids() == ([1, 2],)
    assert manager.truncate_computed_blocks(blocks, 0).get_block_ids() == ([],)
    assert blocks.get_block_ids() == ([1, 2, 3],)


def case_blocks_that_a_request_needs(api: Any) -> None:
    manager, _ = filled(api)
    api.call(manager, "pop_blocks_for_free", api.request("9", [1]))  # not before 0.33
    settled = {"num_encoder_tokens": 0, "total_computed_tokens": 0, "num_local_computed_tokens": 0}
    needed = manager.coordinator.get_num_blocks_to_allocate
    nothing = manager.empty_kv_cache_blocks.blocks
    new = {"new_computed_blocks": nothing, "num_tokens_main_model": 40, **settled}
    assert needed(request_id="5", num_tokens=40, **new) == 3
    assert needed(request_id="0", num_tokens=80, **new) == 1
    assert needed(request_id="0", num_tokens=10, **new) == 0


def case_a_whole_sequence_fits(api: Any) -> None:
    manager, _ = filled(api)
    fits = [api.call(manager, "can_fit_full_sequence", api.request("2", [9] * tokens)) for tokens in (64, 65)]
    assert fits == [True, False]


def case_look_ups_are_counted_once(api: Any) -> None:
    manager, _ = filled(api, log_stats=True)
    manager.make_prefix_cache_stats()
    request = api.request("2", [*TOKENS, 2])
    _, tokens, *_ = manager.get_computed_blocks(request)
    if api.newest:
        manager.record_prefix_cache_stats(request, tokens)
    stats = manager.make_prefix_cache_stats()
    assert (stats.requests, stats.queries, stats.hits, stats.reset) == (1, 49, 48, False)


def case_nothing_is_counted_without_statistics(api: Any) -> None:
    manager, _ = filled(api)
    assert manager.prefix_cache_stats is None
    assert manager.make_prefix_cache_stats() is None


def case_a_step_leaves_nothing_behind(api: Any) -> None:
    manager, first = filled(api)
    assert api.call(manager, "take_kv_cache_block_copies") == ([], [])  # not before 0.33
    assert manager.new_step_starts() is None
    assert manager.take_new_block_ids() == []
    assert manager.take_boundary_state_offloads() == {}
    assert manager.finalize_partial_tail_offloads(first) == []
    before = manager.get_block_ids("0"), free_ids(manager)
    manager.remove_skipped_blocks("0", 48)
    manager.record_blocks_for_zeroing("0", 16)
    assert (manager.get_block_ids("0"), free_ids(manager)) == before
    assert manager.take_new_block_ids() == []
