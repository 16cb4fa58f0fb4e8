"""What a manager tells others of its blocks, and what it leaves to a drafting head; `api` has ours, or a release's.

Standard library only. Blocks have 16 tokens, and block 0 is the null block.
"""

from __future__ import annotations

from typing import Any

COMMON = [token for token in (10, 11, 12) for _ in range(16)]
"""Three full blocks."""


def found(manager: Any, request: Any) -> tuple[Any, int]:
    """The blocks and the tokens; 0.33 says more."""
    blocks, tokens, *_ = manager.get_computed_blocks(request)
    return blocks, tokens


def finished(manager: Any, request: Any) -> None:
    """The request is executed whole and freed."""
    blocks, tokens = found(manager, request)
    fresh = manager.allocate_slots(request, len(request.all_token_ids) - tokens, tokens, blocks)
    assert fresh is not None
    request.num_computed_tokens = len(request.all_token_ids)
    manager.free(request)


def telling(api: Any, blocks: int = 11, **more: Any) -> Any:
    return api.manager(blocks, 8192, enable_kv_cache_events=True, **more)


def told(manager: Any) -> list[Any]:
    """Kind, number of blocks, parent, tokens; hashes are numbered in the order in which they were stored first."""
    return [(type(event).__name__, *fields(event)) for event in manager.take_events()]


def fields(event: Any) -> tuple[Any, ...]:
    kind = type(event).__name__
    if kind == "BlockStored":
        return tuple(event.block_hashes), event.parent_block_hash, list(event.token_ids), event.block_size, event.medium
    return (tuple(event.block_hashes), event.medium) if kind == "BlockRemoved" else ()


def case_nothing_is_told_unless_that_is_asked(api: Any) -> None:
    manager = api.manager(11, 8192)
    finished(manager, api.request("0", COMMON))
    assert manager.take_events() == []


def case_what_is_filled_is_told_once(api: Any) -> None:
    manager = telling(api)
    finished(manager, api.request("0", [*COMMON, *[3] * 7]))
    ((kind, hashes, parent, tokens, size, medium),) = told(manager)
    assert (kind, len(set(hashes)), parent, tokens, size, medium) == ("BlockStored", 3, None, COMMON, 16, "GPU")
    assert told(manager) == []


def case_nothing_is_told_of_what_is_not_full(api: Any) -> None:
    manager = telling(api)
    finished(manager, api.request("0", [1] * 15))
    assert told(manager) == []


def case_what_is_filled_later_has_its_parent(api: Any) -> None:
    manager = telling(api)
    request = api.request("0", [1] * 17)
    manager.allocate_slots(request, 17)
    request.num_computed_tokens = 17
    api.append(request, [2] * 15)
    manager.allocate_slots(request, 15)
    request.num_computed_tokens = 32
    manager.free(request)
    first, second = told(manager)
    assert (first[2], second[2]) == (None, first[1][-1])
    assert (first[3], second[3]) == ([1] * 16, [1, *[2] * 15])


def case_hits_are_not_told_again(api: Any) -> None:
    manager = telling(api)
    finished(manager, api.request("0", [*COMMON, 1]))
    (before,) = told(manager)
    finished(manager, api.request("1", [*COMMON, *[5] * 17]))
    ((_, hashes, parent, tokens, _, _),) = told(manager)
    assert (len(hashes), parent, tokens) == (1, before[1][-1], [5] * 16)


def case_what_is_taken_is_told_from_the_end_on(api: Any) -> None:
    manager = telling(api, 4)
    finished(manager, api.request("0", COMMON))
    ((_, stored, *_),) = told(manager)
    manager.allocate_slots(api.request("1", [9] * 40), 40)
    removed = [event for event in told(manager) if event[0] == "BlockRemoved"]
    assert removed == [("BlockRemoved", (one,), "GPU") for one in reversed(stored)]


def case_what_is_taken_is_told_before_what_is_filled_in_its_place(api: Any) -> None:
    manager = telling(api, 4)
    finished(manager, api.request("0", COMMON))
    told(manager)
    finished(manager, api.request("1", [9] * 48))
    assert [event[0] for event in told(manager)] == ["BlockRemoved"] * 3 + ["BlockStored"]


def case_a_hash_is_told_with_its_first_copy_and_removed_with_its_last(api: Any) -> None:
    manager = telling(api, 5)
    one, other = api.request("0", [1] * 20), api.request("1", [1] * 20)
    for request in (one, other):
        manager.allocate_slots(request, 20)
        request.num_computed_tokens = 20
    for request in (one, other):
        manager.free(request)
    ((_, stored, *_),) = told(manager)
    third = api.request("2", [2] * 48)  # takes the two blocks that are not full, and then one of the copies
    manager.allocate_slots(third, 48)
    assert [event for event in told(manager) if event[0] == "BlockRemoved"] == []
    manager.allocate_slots(api.request("3", [3] * 16), 16)
    assert [event[1] for event in told(manager) if event[0] == "BlockRemoved"] == [stored]


def case_what_is_evicted_by_number_is_told(api: Any) -> None:
    manager = telling(api)
    finished(manager, api.request("0", [1] * 16))
    ((_, stored, *_),) = told(manager)
    api.evict_blocks(manager, {1})
    assert told(manager) == [("BlockRemoved", stored, "GPU")]
    api.evict_blocks(manager, {1})
    assert told(manager) == []


def case_that_nothing_is_left_is_told(api: Any) -> None:
    manager = telling(api)
    finished(manager, api.request("0", COMMON))
    told(manager)
    assert manager.reset_prefix_cache()
    assert told(manager) == [("AllBlocksCleared",)]


def case_what_a_block_depends_on_is_told_without_tags(api: Any) -> None:
    manager = telling(api)
    finished(manager, api.request("0", [1] * 33, items=[("cat", 4, 8)], cache_salt="salt", lora_request=api.adapter(7)))
    (event,) = manager.take_events()
    assert (event.lora_id, event.lora_name, event.group_idx) == (7, "adapter 7", 0)
    assert event.extra_keys == [("adapter 7", ("cat", 4), "salt"), ("adapter 7",)]


def case_nothing_is_told_before_it_is_written(api: Any) -> None:
    manager = telling(api)
    manager.allocate_slots(api.request("0", COMMON), 48)
    assert told(manager) == []


# A drafting head ----------------------------------------------------------------------------------------------------


def case_a_drafting_head_has_the_last_block_computed_again(api: Any) -> None:
    manager = api.manager(11, 8192, use_eagle=True)
    finished(manager, api.request("0", [*COMMON, *[3] * 7]))
    assert [found(manager, api.request(name, [*COMMON, 4]))[1] for name in "12"] == [32, 32]
    assert found(manager, api.request("3", COMMON[:20]))[1] == 0


def case_a_drafting_head_drops_the_last_block_of_a_whole_prompt_once(api: Any) -> None:
    manager = api.manager(11, 8192, use_eagle=True)
    finished(manager, api.request("0", [*COMMON, *[3] * 7]))
    assert found(manager, api.request("1", COMMON))[1] == 32


def case_a_drafting_head_finds_nothing_where_nothing_is(api: Any) -> None:
    manager = api.manager(11, 8192, use_eagle=True)
    assert found(manager, api.request("0", COMMON))[1] == 0


def case_what_a_drafting_head_computes_again_gets_a_block_of_its_own(api: Any) -> None:
    manager = api.manager(11, 8192, use_eagle=True)
    finished(manager, api.request("0", [*COMMON, 3]))
    request = api.request("1", [*COMMON, 3])
    blocks, tokens = found(manager, request)
    fresh = manager.allocate_slots(request, 49 - tokens, tokens, blocks)
    assert (tokens, len(fresh.blocks[0])) == (32, 2)
