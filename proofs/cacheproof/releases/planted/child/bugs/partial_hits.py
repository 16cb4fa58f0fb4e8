"""Bugs in hits that end within a block: in the copies, in what they hold, and in what can be found."""

from __future__ import annotations

from typing import Any

from .declaring import Place

MANAGER = Place("vllm.v1.core.kv_cache_manager:KVCacheManager")
POOL = Place("vllm.v1.core.block_pool:BlockPool")
GROUP = Place("vllm.v1.core.single_type_kv_cache_manager:SingleTypeKVCacheManager")
ATTENTION = Place("vllm.v1.core.single_type_kv_cache_manager:FullAttentionManager")
STATES = Place("vllm.v1.core.single_type_kv_cache_manager:MambaManager")
PARTIAL = "0.33.0"
"""Earlier releases have no such hits."""


@GROUP.broken("_apply_cow", since=PARTIAL)
def copied_the_other_way(released: Any, manager: Any, *given: Any) -> Any:
    """The new block is copied into the shared one."""
    released(*given)
    source, target = manager._pending_cow_copies.pop()
    manager._pending_cow_copies.append((target, source))


@GROUP.broken("_apply_cow", since=PARTIAL)
def target_is_not_held(released: Any, manager: Any, request: str, at: int, source: Any, target: Any) -> Any:
    """A copy holds only the block that it reads."""
    released(request, at, source, target)
    target.ref_cnt -= 1


@GROUP.broken("_has_partial_local_hit", since=PARTIAL)
def nothing_is_copied(released: Any, manager: Any, *given: Any) -> Any:
    """A request writes into the block that its hit ends in."""
    return False


@ATTENTION.broken("_cache_partial_tail_block", since=PARTIAL)
def end_of_a_prompt_is_not_found(released: Any, manager: Any, *given: Any) -> Any:
    """Full attention registers whole blocks only."""


@STATES.broken("_cache_partial_tail_block", since=PARTIAL)
def state_within_a_block_is_not_found(released: Any, manager: Any, *given: Any, **named: Any) -> Any:
    """State-space layers register the states behind whole blocks only."""


@POOL.broken("move_block_hashes", since=PARTIAL)
def keys_of_a_state_stay(released: Any, pool: Any, *given: Any) -> Any:
    """A state is found in the block that its request overwrites."""


@POOL.broken("cache_partial_block", since=PARTIAL)
def registered_as_a_shorter_prefix(released: Any, pool: Any, *given: Any, **named: Any) -> Any:
    """The end of a prompt is found by the key of the hash block before it."""
    shorter = named["num_tokens"] - pool.hash_block_size
    return released(*given, **{**named, "num_tokens": shorter}) if shorter else None


@MANAGER.broken("take_kv_cache_block_copies", since=PARTIAL)
def copies_of_one_group_are_lost(released: Any, manager: Any) -> Any:
    """The copies of the last group never reach the worker."""
    manager.coordinator.single_type_managers[-1].take_pending_cow_copies()
    return released()
