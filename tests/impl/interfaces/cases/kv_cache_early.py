"""What an engine's tests ask of the early `KVCacheManager`, by its own names; `api` has ours, or that of 0.7.3.

Standard library only. A step has been executed where the request's `num_computed_tokens` says so, as in that era.
"""

from __future__ import annotations

from typing import Any

COMMON = [token for token in (10, 11, 12) for _ in range(16)]
"""Three full blocks."""


def ids(blocks: Any) -> list[int]:
    return [block.block_id for block in blocks]


def free_ids(manager: Any) -> list[int]:
    return ids(manager.free_block_queue.get_all_free_blocks())


def state(manager: Any) -> Any:
    """All that such tests look at."""
    return (
        free_ids(manager),
        [block.ref_cnt for block in manager.block_pool],
        [block.block_hash is not None for block in manager.block_pool],
        {name: ids(blocks) for name, blocks in manager.req_to_blocks.items() if blocks},
    )


def executed(manager: Any, request: Any, tokens: int, blocks: Any = ()) -> Any:
    """Slots for the tokens, and the step is over."""
    fresh = manager.allocate_slots(request, tokens, blocks)
    request.num_computed_tokens = len(blocks) * manager.block_size + tokens
    return fresh


def finished(manager: Any, name: str, tokens: list[int], api: Any, **more: Any) -> None:
    """A request that was executed whole and is freed."""
    request = api.request(name, tokens, **more)
    blocks, _ = manager.get_computed_blocks(request)
    executed(manager, request, len(tokens) - len(blocks) * manager.block_size, blocks)
    manager.free(request)


def error_of(call: Any) -> type[Exception] | None:
    """What is raised, if anything."""
    try:
        call()
    except Exception as error:  # noqa: BLE001  # which one is the question
        return type(error)
    return None


# Prefixes -----------------------------------------------------------------------------------------------------------


def case_a_prefill_and_its_prefix(api: Any) -> None:
    manager = api.manager(16, 10, 8192)
    first = api.request("0", [*COMMON, *[3] * 7])
    blocks, tokens = manager.get_computed_blocks(first)
    assert (ids(blocks), tokens) == ([], 0)
    assert ids(executed(manager, first, 55, blocks)) == [0, 1, 2, 3]
    assert [block.ref_cnt for block in manager.req_to_blocks["0"]] == [1, 1, 1, 1]
    manager.free(first)
    second = api.request("1", [*COMMON, *[4] * 5])
    blocks, tokens = manager.get_computed_blocks(second)
    assert (ids(blocks), tokens) == ([0, 1, 2], 48)
    assert len(executed(manager, second, 5, blocks)) == 1
    assert [block.ref_cnt for block in manager.block_pool[:3]] == [1, 1, 1]
    assert manager.free_block_queue.num_free_blocks == 6


def case_a_running_request_shares_its_prefix(api: Any) -> None:
    manager = api.manager(16, 10, 8192)
    first = api.request("0", [*COMMON, *[3] * 7])
    executed(manager, first, 55)
    api.append(manager, first, [3], 1)
    blocks, _ = manager.get_computed_blocks(api.request("1", [*COMMON, 4]))
    assert ids(blocks) == [0, 1, 2]
    executed(manager, api.request("1", [*COMMON, 4]), 1, blocks)
    assert [block.ref_cnt for block in manager.block_pool[:4]] == [2, 2, 2, 1]


def case_what_is_scheduled_is_not_found_before_it_is_executed(api: Any) -> None:
    manager = api.manager(16, 10, 8192)
    first = api.request("0", [*COMMON, 3])
    manager.allocate_slots(first, 49, [])
    manager.free(first)  # withdrawn: nothing was written
    blocks, tokens = manager.get_computed_blocks(api.request("1", [*COMMON, 4]))
    assert (ids(blocks), tokens) == ([], 0)


def case_of_a_full_hit_a_token_is_left(api: Any) -> None:
    manager = api.manager(16, 10, 8192)
    finished(manager, "0", COMMON, api)
    blocks, tokens = manager.get_computed_blocks(api.request("1", COMMON))
    assert (len(blocks), tokens) == (2, 32)


def case_less_than_a_block_is_never_found(api: Any) -> None:
    manager = api.manager(16, 10, 8192)
    finished(manager, "0", [1] * 15, api)
    assert manager.get_computed_blocks(api.request("1", [1] * 15)) == ([], 0)


def case_without_caching_the_end_is_taken_first(api: Any) -> None:
    manager = api.manager(16, 6, 8192, enable_caching=False)
    request = api.request("0", [1] * 48)
    assert ids(manager.allocate_slots(request, 48, [])) == [0, 1, 2]
    manager.free(request)
    free = free_ids(manager)
    assert sorted(free) == [0, 1, 2, 3, 4, 5]
    assert free.index(2) < free.index(1) < free.index(0)


def case_without_caching_nothing_is_found(api: Any) -> None:
    manager = api.manager(16, 10, 8192, enable_caching=False)
    finished(manager, "0", [*COMMON, 1], api)
    assert manager.get_computed_blocks(api.request("1", [*COMMON, 1])) == ([], 0)
    assert free_ids(manager) in ([4, 5, 6, 7, 8, 9, 0, 1, 2, 3], [3, 2, 1, 0, 4, 5, 6, 7, 8, 9])


def case_items_are_told_apart(api: Any) -> None:
    manager = api.manager(4, 10, 64)
    finished(manager, "0", [7] * 9, api, mm_positions=[{"offset": 0, "length": 4}], mm_hashes=["cat"])
    dog = api.request("1", [7] * 9, mm_positions=[{"offset": 0, "length": 4}], mm_hashes=["dog"])
    assert ids(manager.get_computed_blocks(dog)[0]) == []
    cat = api.request("2", [7] * 9, mm_positions=[{"offset": 0, "length": 4}], mm_hashes=["cat"])
    assert len(manager.get_computed_blocks(cat)[0]) == 2


def case_an_item_elsewhere_is_something_else(api: Any) -> None:
    manager = api.manager(4, 10, 64)
    finished(manager, "0", [7] * 9, api, mm_positions=[{"offset": 0, "length": 2}], mm_hashes=["cat"])
    moved = api.request("1", [7] * 9, mm_positions=[{"offset": 1, "length": 2}], mm_hashes=["cat"])
    assert ids(manager.get_computed_blocks(moved)[0]) == []


def case_a_block_that_the_output_fills_is_found_by_a_prompt(api: Any) -> None:
    manager = api.manager(8, 10, 64)
    items = {"mm_positions": [{"offset": 1, "length": 2}, {"offset": 4, "length": 2}], "mm_hashes": ["cat", "bird"]}
    first = api.request("0", [7] * 7, **items)
    executed(manager, first, 7)
    api.append(manager, first, [7, 7], 2)
    first.num_computed_tokens = 9
    api.append(manager, first, [7], 1)
    assert len(manager.get_computed_blocks(api.request("1", [7] * 12, **items))[0]) == 1


def case_adapters_are_told_apart(api: Any) -> None:
    manager = api.manager(4, 10, 64)
    finished(manager, "0", [7] * 9, api, lora_request=api.adapter(1))
    assert ids(manager.get_computed_blocks(api.request("1", [7] * 9, lora_request=api.adapter(2)))[0]) == []
    assert ids(manager.get_computed_blocks(api.request("2", [7] * 9))[0]) == []
    assert len(manager.get_computed_blocks(api.request("3", [7] * 9, lora_request=api.adapter(1)))[0]) == 2


# Slots --------------------------------------------------------------------------------------------------------------


def case_a_decode_takes_a_block_when_it_needs_one(api: Any) -> None:
    manager = api.manager(16, 10, 8192)
    request = api.request("0", [*COMMON, *[3] * 7])
    executed(manager, request, 55)
    assert ids(api.append(manager, request, [8] * 4, 4)) == []
    request.num_computed_tokens = 59
    assert ids(api.append(manager, request, [8] * 15, 15)) == [4]
    assert len(manager.req_to_blocks["0"]) == 5


def case_blocks_are_taken_in_advance_where_that_is_asked(api: Any) -> None:
    manager = api.manager(16, 10, 8192, preallocated=1)
    request = api.request("0", [*COMMON, *[3] * 7])
    assert manager.num_preallocate_blocks == 1
    assert ids(executed(manager, request, 55)) == [0, 1, 2, 3, 4]
    assert ids(api.append(manager, request, [8] * 19, 19)) == []


def case_a_table_is_no_wider_than_the_longest_request(api: Any) -> None:
    manager = api.manager(16, 10, 60, preallocated=4)
    assert manager.max_num_blocks_per_req == 4
    assert ids(manager.allocate_slots(api.request("0", [*COMMON, 1]), 49, [])) == [0, 1, 2, 3]


def case_where_there_is_no_room_nothing_changes(api: Any) -> None:
    manager = api.manager(16, 4, 8192)
    finished(manager, "0", [*COMMON, 1], api)
    before = state(manager)
    request = api.request("1", [*COMMON, *[2] * 40])
    blocks, _ = manager.get_computed_blocks(request)
    assert len(blocks) == 3
    assert manager.allocate_slots(request, 40, blocks) is None
    assert state(manager) == before


def case_hits_are_not_taken_for_others(api: Any) -> None:
    manager = api.manager(16, 5, 8192)
    finished(manager, "0", COMMON, api)
    blocks, _ = manager.get_computed_blocks(api.request("1", [*COMMON, *[2] * 20]))
    fresh = manager.allocate_slots(api.request("1", [*COMMON, *[2] * 20]), 20, blocks)
    assert fresh is not None
    assert not set(ids(fresh)) & set(ids(blocks))


def case_what_is_taken_is_found_no_more(api: Any) -> None:
    manager = api.manager(16, 4, 8192)
    finished(manager, "0", [*COMMON, 1], api)
    assert sum(block.block_hash is not None for block in manager.block_pool) == 3
    executed(manager, api.request("1", [9] * 63), 63)
    assert [block.block_hash for block in manager.req_to_blocks["1"]][3:] == [None]
    assert ids(manager.get_computed_blocks(api.request("2", [*COMMON, 1]))[0]) == []


def case_the_end_of_a_sequence_is_evicted_first(api: Any) -> None:
    manager = api.manager(16, 4, 8192)
    finished(manager, "0", [token for token in (1, 2, 3) for _ in range(16)], api)
    assert free_ids(manager) == [3, 2, 1, 0]


def case_what_cannot_be_found_is_taken_first(api: Any) -> None:
    manager = api.manager(16, 5, 8192)
    finished(manager, "0", [*COMMON, *[5] * 10], api)
    assert free_ids(manager) == [3, 4, 2, 1, 0]


def case_freeing_what_has_no_table(api: Any) -> None:
    manager = api.manager(16, 4, 8192)
    before = state(manager)
    manager.free(api.request("stranger", [1]))
    assert state(manager) == before


def case_a_reset_waits_until_nobody_holds_a_block(api: Any) -> None:
    manager = api.manager(16, 4, 8192)
    request = api.request("0", [*COMMON, 1])
    executed(manager, request, 49)
    assert not manager.reset_prefix_cache()
    manager.free(request)
    assert manager.reset_prefix_cache()
    assert not manager.cached_block_hash_to_block
    assert all(block.block_hash is None for block in manager.block_pool)
    assert ids(manager.get_computed_blocks(api.request("1", [*COMMON, 1]))[0]) == []


def case_leading_blocks_of_all_running_requests(api: Any) -> None:
    manager = api.manager(16, 12, 8192)
    first = api.request("0", [*COMMON, 1])
    executed(manager, first, 49)
    api.append(manager, first, [1], 1)
    second = api.request("1", [*COMMON[:32], *[2] * 17])
    blocks, _ = manager.get_computed_blocks(second)
    executed(manager, second, 17, blocks)
    assert manager.get_num_common_prefix_blocks(first, 2) == 2
    assert manager.get_num_common_prefix_blocks(second, 2) == 2


def case_who_has_finished_does_not_count_as_running(api: Any) -> None:
    manager = api.manager(16, 12, 8192)
    first = api.request("0", [*COMMON, 1])
    executed(manager, first, 49)
    api.append(manager, first, [1], 1)
    blocks, _ = manager.get_computed_blocks(api.request("1", [*COMMON, 2]))
    executed(manager, api.request("1", [*COMMON, 2]), 1, blocks)  # has finished, and still holds its blocks
    executed(manager, api.request("2", [9] * 49), 49)
    assert manager.get_num_common_prefix_blocks(first, 2) == 0


# Misuse: refused, and nothing changed -------------------------------------------------------------------------------


def case_no_tokens(api: Any) -> None:
    manager = api.manager(16, 4, 8192)
    request = api.request("0", [1])
    assert error_of(lambda: manager.allocate_slots(request, 0, [])) is not None
    assert issubclass(error_of(lambda: manager.allocate_slots(request, 0, [])) or int, ValueError)


def refused(manager: Any, call: Any) -> None:
    """The call raises, and leaves everything as it was."""
    before = state(manager)
    assert error_of(call) is not None
    assert state(manager) == before


def case_fewer_than_no_tokens(api: Any) -> None:
    manager = api.manager(16, 4, 8192)
    refused(manager, lambda: manager.allocate_slots(api.request("0", [1] * 4), -1, []))


def case_hits_for_a_request_with_a_table(api: Any) -> None:
    manager = api.manager(16, 8, 8192)
    finished(manager, "0", [*COMMON, 1], api)
    request = api.request("1", [*COMMON, 2])
    blocks, _ = manager.get_computed_blocks(request)
    manager.allocate_slots(request, 1, blocks)
    refused(manager, lambda: manager.allocate_slots(request, 1, blocks))


def case_hits_that_were_evicted_meanwhile(api: Any) -> None:
    manager = api.manager(16, 4, 8192)
    finished(manager, "0", [*COMMON, 1], api)
    waiting = api.request("1", [*COMMON, 2])
    blocks, _ = manager.get_computed_blocks(waiting)
    manager.allocate_slots(api.request("2", [9] * 40), 40, [])
    manager.free(api.request("2", [9] * 40))
    refused(manager, lambda: manager.allocate_slots(waiting, 1, blocks))


def case_more_tokens_than_the_longest_request(api: Any) -> None:
    manager = api.manager(16, 8, 20)
    refused(manager, lambda: manager.allocate_slots(api.request("0", [1] * 33), 33, []))


def case_an_id_that_is_used_twice(api: Any) -> None:
    manager = api.manager(16, 8, 8192)
    manager.allocate_slots(api.request("0", [1] * 20), 20, [])
    refused(manager, lambda: manager.allocate_slots(api.request("0", [2] * 40), 40, []))


# Parts --------------------------------------------------------------------------------------------------------------


def case_the_free_queue(api: Any) -> None:
    blocks = [api.KVCacheBlock(number) for number in range(5)]
    queue = api.FreeKVCacheBlockQueue(blocks)
    assert (queue.num_free_blocks, queue.free_list_head, queue.free_list_tail) == (5, blocks[0], blocks[4])
    first = queue.popleft()
    assert first is blocks[0]
    queue.remove(blocks[2])
    queue.append(blocks[2])
    assert ids(queue.get_all_free_blocks()) == [1, 3, 4, 2]
    queue.append(first)
    assert queue.free_list_tail is first
    for _ in range(5):
        queue.popleft()
    assert queue.num_free_blocks == 0
    assert queue.free_list_head is None
    assert issubclass(error_of(queue.popleft) or int, ValueError)


def case_a_block_is_in_the_free_queue_once(api: Any) -> None:
    blocks = [api.KVCacheBlock(number) for number in range(2)]
    queue = api.FreeKVCacheBlockQueue(blocks)
    assert error_of(lambda: queue.append(blocks[0])) is not None
    queue.remove(blocks[1])
    assert error_of(lambda: queue.remove(blocks[1])) is not None
    assert (queue.num_free_blocks, ids(queue.get_all_free_blocks())) == (1, [0])


def case_a_block(api: Any) -> None:
    block = api.KVCacheBlock(3)
    assert (block.block_id, block.ref_cnt, block.block_hash) == (3, 0, None)
    block.incr_ref()
    block.incr_ref()
    block.decr_ref()
    assert block.ref_cnt == 1
    key = api.BlockHashType(5, (1, 2))
    block.block_hash = key
    assert block.block_hash == key

    def again() -> None:
        block.block_hash = key

    assert error_of(again) is AssertionError
    block.reset_hash()
    assert block.block_hash is None


def case_keys_of_blocks(api: Any) -> None:
    first = api.hash_block_tokens(None, (1, 2), None)
    assert (first.token_ids, first.extra_keys) == ((1, 2), None)
    assert first == api.hash_block_tokens(None, [1, 2])
    assert first.hash_value != api.hash_block_tokens(None, (1, 2), ("cat",)).hash_value
    assert first.hash_value != api.hash_block_tokens(first.hash_value, (1, 2)).hash_value
    keys = api.hash_request_tokens(2, api.request("0", [1, 2, 3, 4, 5]))
    assert [key.token_ids for key in keys] == [(1, 2), (3, 4)]
    assert keys[0] == first


def case_what_a_block_depends_on(api: Any) -> None:
    places = [{"offset": 0, "length": 5}, {"offset": 10, "length": 5}]
    request = api.request("0", [1] * 20, mm_positions=places, mm_hashes=["cat", "dog"])
    extra_keys, place = api.generate_block_hash_extra_keys(request, 0, 5, 0)
    assert "cat" in str(extra_keys)
    assert "dog" not in str(extra_keys)
    assert place == 1
    assert "dog" in str(api.generate_block_hash_extra_keys(request, 10, 15, 1)[0])
    assert api.generate_block_hash_extra_keys(request, 16, 20, 2)[0] is None
    assert api.generate_block_hash_extra_keys(api.request("1", [1] * 9), 0, 4, 0) == (None, 0)
