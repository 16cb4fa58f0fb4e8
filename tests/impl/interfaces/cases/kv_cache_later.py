"""What an engine's tests ask of the later `KVCacheManager`, by its own names; `api` has ours, or a release's.

Standard library only. A step has been executed where the request's `num_computed_tokens` says so. Block 0 is the null
block.
"""

from __future__ import annotations

from typing import Any

COMMON = [token for token in (10, 11, 12) for _ in range(16)]
"""Three full blocks."""


def ids(blocks: Any) -> list[int]:
    """Of what the manager returns, or of a list."""
    return [block.block_id for block in getattr(blocks, "blocks", [blocks])[0]]


def free_ids(manager: Any) -> list[int]:
    return [block.block_id for block in manager.block_pool.free_block_queue.get_all_free_blocks()]


def state(manager: Any) -> Any:
    """All that such tests look at."""
    pool = manager.block_pool
    return (
        free_ids(manager),
        [block.ref_cnt for block in pool.blocks if not block.is_null],
        [block.block_hash is not None for block in pool.blocks],
        [manager.get_block_ids(str(name)) for name in range(4)],
    )


def found(manager: Any, request: Any) -> tuple[Any, int]:
    """The blocks and the tokens; 0.33 says more."""
    blocks, tokens, *_ = manager.get_computed_blocks(request)
    return blocks, tokens


def executed(manager: Any, request: Any, tokens: int, blocks: Any = None) -> Any:
    """Slots for the tokens, and the step is over."""
    computed = len(ids(blocks)) * 16 if blocks is not None else 0
    fresh = manager.allocate_slots(request, tokens, computed, blocks)
    request.num_computed_tokens += computed + tokens
    return fresh


def finished(manager: Any, request: Any) -> None:
    """The request is executed whole and freed."""
    blocks, tokens = found(manager, request)
    executed(manager, request, len(request.all_token_ids) - tokens, blocks)
    manager.free(request)


def error_of(call: Any) -> type[Exception] | None:
    """What is raised, if anything."""
    try:
        call()
    except Exception as error:  # noqa: BLE001  # which one is the question
        return type(error)
    return None


def refused(manager: Any, call: Any) -> None:
    """The call raises, and leaves everything as it was."""
    before = state(manager)
    assert error_of(call) is not None
    assert state(manager) == before


# Prefixes -----------------------------------------------------------------------------------------------------------


def case_a_prefill_and_its_prefix(api: Any) -> None:
    manager = api.manager(11, 8192)
    first = api.request("0", [*COMMON, *[3] * 7])
    blocks, tokens = found(manager, first)
    assert (ids(blocks), tokens) == ([], 0)
    assert ids(executed(manager, first, 55, blocks)) == [1, 2, 3, 4]
    assert manager.get_block_ids("0") == ([1, 2, 3, 4],)
    manager.free(first)
    second = api.request("1", [*COMMON, *[4] * 5])
    blocks, tokens = found(manager, second)
    assert (ids(blocks), tokens) == ([1, 2, 3], 48)
    assert blocks.get_block_ids() == ([1, 2, 3],)
    assert len(ids(executed(manager, second, 5, blocks))) == 1
    assert [block.ref_cnt for block in manager.block_pool.blocks[1:4]] == [1, 1, 1]
    assert manager.block_pool.get_num_free_blocks() == 6


def case_the_null_block_is_never_given(api: Any) -> None:
    manager = api.manager(5, 8192)
    assert manager.block_pool.null_block.block_id == 0
    assert manager.block_pool.null_block.is_null
    assert free_ids(manager) == [1, 2, 3, 4]
    assert manager.usage == 0
    assert ids(manager.allocate_slots(api.request("0", [1] * 64), 64)) == [1, 2, 3, 4]
    assert manager.usage == 1
    assert manager.allocate_slots(api.request("1", [1]), 1) is None


def case_what_is_scheduled_is_not_found_before_it_is_executed(api: Any) -> None:
    manager = api.manager(11, 8192)
    first = api.request("0", [*COMMON, 3])
    manager.allocate_slots(first, 49)
    manager.free(first)
    assert found(manager, api.request("1", [*COMMON, 4]))[1] == 0


def case_blocks_may_be_registered_when_they_are_there(api: Any) -> None:
    manager = api.manager(11, 8192)
    first = api.request("0", [*COMMON, 3])
    manager.allocate_slots(first, 49, delay_cache_blocks=True)
    assert found(manager, api.request("1", [*COMMON, 4]))[1] == 0
    manager.cache_blocks(first, 32)
    assert found(manager, api.request("1", [*COMMON, 4]))[1] == 32


def case_what_is_not_loaded_is_not_found(api: Any) -> None:
    """A request counts its tokens as computed while they are loaded, and is aborted before that ends."""
    manager = api.manager(11, 8192)
    first = api.request("0", [*COMMON, 3])
    manager.allocate_slots(first, 49, delay_cache_blocks=True)
    first.num_computed_tokens = 49
    manager.free(first)
    assert found(manager, api.request("1", [*COMMON, 4]))[1] == 0


def case_what_is_cached_twice_is_cached_once(api: Any) -> None:
    manager = api.manager(11, 8192)
    first = api.request("0", [*COMMON, 3])
    manager.allocate_slots(first, 49, delay_cache_blocks=True)
    for tokens in (32, 32, 49):
        manager.cache_blocks(first, tokens)
    assert found(manager, api.request("1", [*COMMON, 4]))[1] == 48
    assert [block.block_hash is not None for block in manager.block_pool.blocks[1:5]] == [True, True, True, False]


# Computed tokens go back ---------------------------------------------------------------------------------------------


def case_a_whole_prompt_that_was_loaded(api: Any) -> None:
    """All of its keys and values came from outside; the last token is computed again for its output."""
    manager = api.manager(11, 8192)
    first = api.request("0", COMMON[:32])
    manager.allocate_slots(first, 32, delay_cache_blocks=True)
    manager.cache_blocks(first, 32)
    first.num_computed_tokens = 31
    assert ids(manager.allocate_slots(first, 1)) == []
    first.num_computed_tokens = 32
    manager.free(first)
    assert found(manager, api.request("1", [*COMMON[:32], 4]))[1] == 32


def case_computed_tokens_go_back(api: Any) -> None:
    """A load has failed, and the request computes those tokens itself."""
    manager = api.manager(11, 8192)
    first = api.request("0", [*COMMON, 3])
    executed(manager, first, 49)
    assert ids(manager.allocate_slots(first, 1)) == []
    first.num_computed_tokens = 16
    assert ids(manager.allocate_slots(first, 33)) == []
    assert manager.get_block_ids("0") == ([1, 2, 3, 4],)
    first.num_computed_tokens = 49
    manager.free(first)
    assert found(manager, api.request("1", [*COMMON, 4]))[1] == 48


def case_what_is_computed_again_is_not_found(api: Any) -> None:
    manager = api.manager(11, 8192)
    first = api.request("0", [*COMMON, 3])
    executed(manager, first, 49)
    manager.allocate_slots(first, 1)
    assert found(manager, api.request("1", [*COMMON, 4]))[1] == 48
    first.num_computed_tokens = 20
    manager.allocate_slots(first, 29)
    assert found(manager, api.request("1", [*COMMON, 4]))[1] == 16


def case_other_tokens_behind_the_computed_ones(api: Any) -> None:
    """A session goes on: what was sampled last was never computed, and the next prompt stands in its place."""
    manager = api.manager(11, 8192)
    first = api.request("0", [*COMMON[:32]])
    manager.allocate_slots(first, 32)
    first.num_computed_tokens = 31
    api.replace(first, 31, [7] * 17)
    manager.allocate_slots(first, 17)
    first.num_computed_tokens = 48
    manager.free(first)
    assert found(manager, api.request("1", [*COMMON[:31], *[7] * 18]))[1] == 48


def case_replaced_tokens_are_not_found(api: Any) -> None:
    manager = api.manager(11, 8192)
    first = api.request("0", [*COMMON[:32]])
    manager.allocate_slots(first, 32, delay_cache_blocks=True)
    first.num_computed_tokens = 31
    api.replace(first, 31, [7] * 17)
    manager.allocate_slots(first, 17)
    first.num_computed_tokens = 48
    manager.free(first)
    assert found(manager, api.request("1", [*COMMON[:32], 1]))[1] == 16


def case_tokens_in_flight_are_not_found(api: Any) -> None:
    """The request counts its tokens when they are scheduled, and says how many of them are in flight."""
    manager = api.manager(11, 8192)
    first = api.request("0", [*COMMON, 3])
    manager.allocate_slots(first, 32)
    first.num_computed_tokens = first.num_in_flight_tokens = 32
    manager.allocate_slots(first, 17)
    assert found(manager, api.request("1", [*COMMON, 4]))[1] == 0
    first.num_computed_tokens, first.num_in_flight_tokens = 49, 17
    manager.free(first)
    assert found(manager, api.request("1", [*COMMON, 4]))[1] == 32


def case_of_a_full_hit_a_token_is_left(api: Any) -> None:
    manager = api.manager(11, 8192)
    finished(manager, api.request("0", COMMON))
    assert found(manager, api.request("1", COMMON))[1] == 32


def case_without_caching_nothing_is_found(api: Any) -> None:
    manager = api.manager(11, 8192, enable_caching=False)
    finished(manager, api.request("0", [*COMMON, 1]))
    blocks, tokens = found(manager, api.request("1", [*COMMON, 1]))
    assert (ids(blocks), tokens) == ([], 0)


def case_items_are_told_apart(api: Any) -> None:
    manager = api.manager(11, 8192)
    finished(manager, api.request("0", [7] * 33, items=[("cat", 0, 16)]))
    assert found(manager, api.request("1", [7] * 33, items=[("dog", 0, 16)]))[1] == 0
    assert found(manager, api.request("2", [7] * 33, items=[("cat", 0, 16)]))[1] == 32


def case_an_item_elsewhere_is_something_else(api: Any) -> None:
    manager = api.manager(11, 8192)
    finished(manager, api.request("0", [7] * 33, items=[("cat", 0, 2)]))
    assert found(manager, api.request("1", [7] * 33, items=[("cat", 1, 2)]))[1] == 0


def case_a_block_that_the_output_fills_is_found_by_a_prompt(api: Any) -> None:
    manager = api.manager(11, 8192)
    items = [("cat", 17, 2), ("bird", 20, 2)]
    first = api.request("0", [7] * 31, items=items)
    executed(manager, first, 31)
    api.append(first, [7] * 2)
    executed(manager, first, 2)
    executed(manager, first, 1)
    assert found(manager, api.request("1", [7] * 40, items=items))[1] == 32


def case_adapters_and_salts_are_told_apart(api: Any) -> None:
    manager = api.manager(11, 8192)
    finished(manager, api.request("0", [7] * 33, lora_request=api.adapter(1), cache_salt="salt"))
    assert found(manager, api.request("1", [7] * 33, lora_request=api.adapter(2), cache_salt="salt"))[1] == 0
    assert found(manager, api.request("2", [7] * 33, lora_request=api.adapter(1)))[1] == 0
    assert found(manager, api.request("3", [7] * 33, cache_salt="salt"))[1] == 0
    assert found(manager, api.request("4", [7] * 33, lora_request=api.adapter(1), cache_salt="salt"))[1] == 32


# Slots --------------------------------------------------------------------------------------------------------------


def case_a_decode_takes_a_block_when_it_needs_one(api: Any) -> None:
    manager = api.manager(11, 8192)
    request = api.request("0", [*COMMON, *[3] * 7])
    executed(manager, request, 55)
    api.append(request, [8] * 4)
    assert ids(executed(manager, request, 4)) == []
    api.append(request, [8] * 15)
    assert ids(executed(manager, request, 15)) == [5]
    assert manager.get_blocks("0").get_block_ids() == ([1, 2, 3, 4, 5],)


def case_drafts_have_slots_up_to_the_longest_request(api: Any) -> None:
    manager = api.manager(11, 40)
    request = api.request("0", [1] * 30)
    assert ids(manager.allocate_slots(request, 30, num_lookahead_tokens=4)) == [1, 2, 3]
    other = api.request("1", [1] * 40)
    assert len(ids(manager.allocate_slots(other, 40, num_lookahead_tokens=20))) == 3


def case_where_there_is_no_room_nothing_changes(api: Any) -> None:
    manager = api.manager(5, 8192)
    finished(manager, api.request("0", [*COMMON, 1]))
    before = state(manager)
    request = api.request("1", [*COMMON, *[2] * 40])
    blocks, tokens = found(manager, request)
    assert tokens == 48
    assert manager.allocate_slots(request, 40, tokens, blocks) is None
    assert state(manager) == before


def case_hits_are_not_taken_for_others(api: Any) -> None:
    manager = api.manager(6, 8192)
    finished(manager, api.request("0", COMMON))
    request = api.request("1", [*COMMON, *[2] * 20])
    blocks, tokens = found(manager, request)
    fresh = manager.allocate_slots(request, 20, tokens, blocks)
    assert fresh is not None
    assert not set(ids(fresh)) & set(ids(blocks))


def case_the_end_of_a_sequence_is_evicted_first(api: Any) -> None:
    manager = api.manager(5, 8192)
    finished(manager, api.request("0", COMMON))
    assert free_ids(manager) == [4, 3, 2, 1]


def case_what_cannot_be_found_is_taken_first(api: Any) -> None:
    manager = api.manager(6, 8192)
    finished(manager, api.request("0", [*COMMON, *[5] * 10]))
    assert free_ids(manager) == [4, 5, 3, 2, 1]


def case_freeing_what_has_no_table(api: Any) -> None:
    manager = api.manager(5, 8192)
    before = state(manager)
    manager.free(api.request("stranger", [1]))
    assert state(manager) == before


def case_a_reset_waits_until_nobody_holds_a_block(api: Any) -> None:
    manager = api.manager(5, 8192)
    request = api.request("0", [*COMMON, 1])
    executed(manager, request, 49)
    assert not manager.reset_prefix_cache()
    manager.free(request)
    assert manager.reset_prefix_cache()
    assert all(block.block_hash is None for block in manager.block_pool.blocks)
    assert found(manager, api.request("1", [*COMMON, 1]))[1] == 0


def case_leading_blocks_of_all_running_requests(api: Any) -> None:
    manager = api.manager(13, 8192)
    first = api.request("0", [*COMMON, 1])
    executed(manager, first, 49)
    api.append(first, [1])
    executed(manager, first, 1)
    second = api.request("1", [*COMMON[:32], *[2] * 17])
    blocks, _ = found(manager, second)
    executed(manager, second, 17, blocks)
    assert api.common_prefix(manager, first, 2) == [2]
    assert api.common_prefix(manager, second, 2) == [2]


def case_who_has_finished_does_not_count_as_running(api: Any) -> None:
    manager = api.manager(13, 8192)
    first = api.request("0", [*COMMON, 1])
    executed(manager, first, 49)
    api.append(first, [1])
    executed(manager, first, 1)
    second = api.request("1", [*COMMON, 2])
    executed(manager, second, 1, found(manager, second)[0])  # has finished, and still holds its blocks
    executed(manager, api.request("2", [9] * 49), 49)
    assert api.common_prefix(manager, first, 2) == [0]


def case_an_evicted_block_takes_what_follows_along(api: Any) -> None:
    manager = api.manager(11, 8192)
    first = api.request("0", [*COMMON, 1])
    executed(manager, first, 49)
    manager.cache_blocks(first, 49)
    api.evict_blocks(manager, {2})
    assert [block.block_hash is not None for block in manager.block_pool.blocks[1:5]] == [True, False, False, False]


# Misuse: refused, and nothing changed -------------------------------------------------------------------------------


def case_no_tokens(api: Any) -> None:
    manager = api.manager(5, 8192)
    assert issubclass(error_of(lambda: manager.allocate_slots(api.request("0", [1]), 0)) or int, ValueError)


def case_fewer_than_no_tokens(api: Any) -> None:
    manager = api.manager(5, 8192)
    refused(manager, lambda: manager.allocate_slots(api.request("0", [1] * 4), -1))


def case_hits_for_a_request_with_a_table(api: Any) -> None:
    manager = api.manager(9, 8192)
    finished(manager, api.request("0", [*COMMON, 1]))
    request = api.request("1", [*COMMON, 2])
    blocks, tokens = found(manager, request)
    manager.allocate_slots(request, 1, tokens, blocks)
    refused(manager, lambda: manager.allocate_slots(request, 1, tokens, blocks))


def case_hits_that_were_evicted_meanwhile(api: Any) -> None:
    manager = api.manager(5, 8192)
    finished(manager, api.request("0", [*COMMON, 1]))
    waiting = api.request("1", [*COMMON, 2])
    blocks, tokens = found(manager, waiting)
    other = api.request("2", [9] * 40)
    manager.allocate_slots(other, 40)
    manager.free(other)
    refused(manager, lambda: manager.allocate_slots(waiting, 1, tokens, blocks))


def case_more_tokens_than_the_longest_request(api: Any) -> None:
    manager = api.manager(9, 20)
    refused(manager, lambda: manager.allocate_slots(api.request("0", [1] * 33), 33))


def case_an_id_that_is_used_twice(api: Any) -> None:
    manager = api.manager(9, 8192)
    manager.allocate_slots(api.request("0", [1] * 20), 20)
    refused(manager, lambda: manager.allocate_slots(api.request("0", [2] * 40), 40))


# Parts --------------------------------------------------------------------------------------------------------------


def case_the_free_queue(api: Any) -> None:
    blocks = [api.KVCacheBlock(number) for number in range(5)]
    queue = api.FreeKVCacheBlockQueue(blocks)
    assert queue.fake_free_list_head.next_free_block is blocks[0]
    assert queue.fake_free_list_tail.prev_free_block is blocks[4]
    assert queue.popleft_n(2) == blocks[:2]
    queue.append_n(blocks[:2])
    queue.remove(blocks[3])
    assert [block.block_id for block in queue.get_all_free_blocks()] == [2, 4, 0, 1]
    assert queue.num_free_blocks == 4
    assert error_of(lambda: queue.remove(blocks[3])) is RuntimeError or issubclass(
        error_of(lambda: queue.remove(blocks[3])) or int, RuntimeError
    )


def case_a_block_is_in_the_free_queue_once(api: Any) -> None:
    blocks = [api.KVCacheBlock(number) for number in range(2)]
    queue = api.FreeKVCacheBlockQueue(blocks)
    assert error_of(lambda: queue.append(blocks[0])) is not None
    assert queue.num_free_blocks == 2


def case_what_calls_return(api: Any) -> None:
    blocks = [api.KVCacheBlock(number) for number in range(3)]
    one, more = api.KVCacheBlocks((blocks[:1],)), api.KVCacheBlocks((blocks[1:],))
    assert (one + more).get_block_ids() == ([0, 1, 2],)
    assert one.get_unhashed_block_ids() == [0]
    assert one.new_empty().get_block_ids(allow_none=True) is None
    assert one.new_empty().get_block_ids() == ([],)
