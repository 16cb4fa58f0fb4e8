"""Bugs in the KV cache manager, its pool of blocks, and the queue of those that are free."""

from __future__ import annotations

from typing import Any

from .declaring import Place

POOL = Place("vllm.v1.core.block_pool:BlockPool")
QUEUE = Place("vllm.v1.core.kv_cache_utils:FreeKVCacheBlockQueue")
TABLES = Place("vllm.v1.core.single_type_kv_cache_manager:SingleTypeKVCacheManager")
MANAGER = Place("vllm.v1.core.kv_cache_manager:KVCacheManager")
BY_GROUPS, FLAT, EARLY = "0.11.0", "0.20.2", "0.7.3"
"""From the first on there are groups of layers and a pool, and from the next on blocks are touched in one list, and
evicted by number. Until the last, the manager does everything by itself."""


@POOL.broken("touch", since=FLAT)
def hit_holds_nothing(released: Any, pool: Any, blocks: Any) -> Any:
    """A hit adds no reference and stays in the free queue."""


@POOL.broken("touch", since=FLAT)
def second_reference_is_lost(released: Any, pool: Any, blocks: Any) -> Any:
    """A hit on a held block adds no reference."""
    released([block for block in blocks if not block.ref_cnt])


@POOL.broken("get_cached_block", since=BY_GROUPS)
def only_free_ones_are_found(released: Any, pool: Any, *given: Any) -> Any:
    """A block held by another request is not found."""
    found = released(*given)
    return None if found and any(block.ref_cnt for block in found) else found


@POOL.broken("get_new_blocks", since=BY_GROUPS)
def evicted_keep_their_keys(released: Any, pool: Any, count: int) -> Any:
    """An allocated block is still found under its old key."""
    keys = {block.block_id: block.block_hash for block in pool.free_block_queue.get_all_free_blocks()[:count]}
    blocks = released(count)
    for block in blocks:
        if keys[block.block_id] is not None:
            pool.cached_block_hash_to_block.insert(keys[block.block_id], block)
    return blocks


@POOL.broken("get_new_blocks", since=BY_GROUPS)
def cached_go_first(released: Any, pool: Any, count: int) -> Any:
    """Registered blocks are allocated before unregistered ones."""
    queue = pool.free_block_queue
    free = queue.get_all_free_blocks()
    cached = [block for block in free if block.block_hash is not None]
    for block in cached:
        queue.remove(block)
    rest = queue.popleft_n(queue.num_free_blocks)
    queue.append_n([*cached, *rest])
    return released(count)


@POOL.broken("free_blocks", since=BY_GROUPS)
def first_goes_first(released: Any, pool: Any, blocks: Any) -> Any:
    """The beginning of a prompt is evicted before its end."""
    released(reversed(list(blocks)))


@POOL.broken("free_blocks", since=BY_GROUPS)
def shared_is_freed_for_all(released: Any, pool: Any, blocks: Any) -> Any:
    """A block shared by two requests is freed when one of them releases it."""
    blocks = list(blocks)
    for block in blocks:
        block.ref_cnt = min(block.ref_cnt, 1)
    released(blocks)


@POOL.broken("free_blocks", since=BY_GROUPS)
def first_is_not_freed(released: Any, pool: Any, blocks: Any) -> Any:
    """The first block of a request is not freed."""
    released(list(blocks)[:-1])


@POOL.broken("free_blocks", since=BY_GROUPS)
def freed_twice(released: Any, pool: Any, blocks: Any) -> Any:
    """A freed block is counted as free twice."""
    before = pool.free_block_queue.num_free_blocks
    released(blocks)
    pool.free_block_queue.num_free_blocks += pool.free_block_queue.num_free_blocks - before


@POOL.broken("cache_full_blocks", since=BY_GROUPS)
def last_full_block_waits(released: Any, pool: Any, request: Any, blocks: Any, **named: Any) -> Any:
    """The last full block of a request is not found by other requests."""
    released(request, blocks, **{**named, "num_full_blocks": named["num_full_blocks"] - 1})


@POOL.broken("cache_full_blocks", since=BY_GROUPS)
def groups_share_keys(released: Any, pool: Any, request: Any, blocks: Any, **named: Any) -> Any:
    """Blocks of the second group of layers are registered as the first group's."""
    released(request, blocks, **{**named, "kv_cache_group_id": 0})


@POOL.broken("reset_prefix_cache", since=BY_GROUPS)
def reset_is_never_refused(released: Any, pool: Any) -> Any:
    """A reset succeeds while requests hold blocks."""
    released()
    return True


@POOL.broken("reset_prefix_cache", since=BY_GROUPS)
def reset_forgets_nothing(released: Any, pool: Any) -> Any:
    """A reset succeeds, and the cached blocks are still found."""
    return pool.num_gpu_blocks - pool.get_num_free_blocks() == 1


@POOL.broken("evict_blocks", since=FLAT)
def in_use_stays(released: Any, pool: Any, numbers: Any) -> Any:
    """A held block is not evicted by its number."""
    released({number for number in numbers if not pool.blocks[number].ref_cnt})


@QUEUE.broken("popleft_n", since=BY_GROUPS)
def newest_go_first(released: Any, queue: Any, count: int) -> Any:
    """Blocks are allocated from the wrong end of the free queue."""
    blocks = queue.get_all_free_blocks()[::-1][:count]
    for block in blocks:
        queue.remove(block)
    return blocks


@QUEUE.broken("prepend_n", since="0.33.0")
def never_found_go_last(released: Any, queue: Any, blocks: Any) -> Any:
    """Unregistered blocks go to the end of the free queue."""
    queue.append_n(blocks)


@QUEUE.broken("remove")
def removed_is_counted(released: Any, queue: Any, block: Any) -> Any:
    """A free block taken by its number is still counted as free."""
    released(block)
    queue.num_free_blocks += 1


@TABLES.broken("free", since=BY_GROUPS)
def table_from_its_beginning(released: Any, tables: Any, name: str) -> Any:
    """A request's blocks are freed from the first to the last."""
    tables.req_to_blocks[name] = tables.req_to_blocks.get(name, [])[::-1]
    released(name)


@TABLES.broken("get_num_blocks_to_allocate", since=BY_GROUPS)
def hits_are_counted_as_free(released: Any, tables: Any, *given: Any, **named: Any) -> Any:
    """Unreferenced hits still count as free blocks."""
    name = "new_computed_blocks"
    hits = named[name] if name in named else given[2]
    return released(*given, **named) - sum(not block.ref_cnt and not block.is_null for block in hits)


@TABLES.broken("allocate_new_blocks", since=BY_GROUPS)
def one_block_too_many(released: Any, tables: Any, name: str, tokens: int, *given: Any) -> Any:
    """A request with a full last block gets an additional empty block."""
    return released(name, tokens + 1, *given)


@MANAGER.broken("get_computed_blocks", since=BY_GROUPS)
def last_token_is_not_kept_back(released: Any, manager: Any, request: Any, *given: Any) -> Any:
    """A hit may cover the whole prompt, so that no token is left to compute."""
    request.all_token_ids.append(0)
    try:
        return released(request, *given)
    finally:
        request.all_token_ids.pop()


@MANAGER.broken("allocate_slots", since=BY_GROUPS)
def one_token_less(released: Any, manager: Any, request: Any, tokens: int, *given: Any, **named: Any) -> Any:
    """An allocation has room for one token fewer than requested."""
    return released(request, max(tokens - 1, 1), *given, **named)


@MANAGER.broken("_touch", until=EARLY)
def hit_is_not_held(released: Any, manager: Any, blocks: Any) -> Any:
    """A hit adds no reference and stays in the free queue."""


@MANAGER.broken("free", until=EARLY)
def freed_from_its_beginning(released: Any, manager: Any, request: Any) -> Any:
    """A request's blocks are freed from the first to the last."""
    manager.req_to_blocks[request.request_id].reverse()
    released(request)


@MANAGER.broken("_maybe_evict_cached_block", until=EARLY)
def taken_is_still_found(released: Any, manager: Any, block: Any) -> Any:
    """An allocated block is still found under its old key."""
    return False


@MANAGER.broken("_get_new_blocks", until=EARLY)
def newest_are_taken(released: Any, manager: Any, count: int) -> Any:
    """Blocks are allocated from the wrong end of the free queue."""
    queue = manager.free_block_queue
    for block in queue.get_all_free_blocks()[::-1]:
        queue.remove(block)
        queue.append(block)
    return released(count)


@MANAGER.broken("_get_cached_block", until=EARLY)
def only_free_blocks_are_found(released: Any, manager: Any, key: Any) -> Any:
    """A block held by another request is not found."""
    found = released(key)
    return None if found is not None and found.ref_cnt else found


@MANAGER.broken("reset_prefix_cache", until=EARLY)
def reset_is_always_done(released: Any, manager: Any) -> Any:
    """A reset succeeds while requests hold blocks."""
    released()
    return True
