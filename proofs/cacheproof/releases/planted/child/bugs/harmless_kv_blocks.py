"""Refactorings of the KV cache manager and its pool of blocks that change nothing that they do."""

from __future__ import annotations

from typing import Any

from .declaring import PUT_BACK, Place

MANAGER = Place("vllm.v1.core.kv_cache_manager:KVCacheManager")
POOL = Place("vllm.v1.core.block_pool:BlockPool")


@POOL.broken("get_cached_block", since=PUT_BACK)
def groups_are_looked_up_in_a_dictionary(released: Any, pool: Any, block_hash: Any, groups: Any) -> Any:
    """The hits of all groups are collected in a dictionary, and a miss is noticed at the end."""
    hits = {group: released(block_hash, [group]) for group in groups}
    return None if any(hit is None for hit in hits.values()) else [hits[group][0] for group in groups]


@POOL.changed(
    "free_blocks",
    "$block.ref_cnt -= 1\nif $block.ref_cnt == 0: $sort",
    "left = $block.ref_cnt - 1\n$block.ref_cnt = left\nif left: continue\n$sort",
)
def loop_goes_on_early() -> None:
    """A block that is still referenced ends its turn of the loop at once."""


@MANAGER.changed(
    "allocate_slots",
    "if required_blocks > available_blocks: return None",
    "fits = required_blocks <= available_blocks\nif not fits: return None",
)
def comparison_has_a_name() -> None:
    """Whether the blocks fit is kept in a variable of its own."""
