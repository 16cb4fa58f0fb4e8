"""Historic bugs in the KV cache manager, its groups and its pool of blocks."""

from __future__ import annotations

from typing import Any

from .declaring import PUT_BACK, Place, meanwhile

MANAGER = Place("vllm.v1.core.kv_cache_manager:KVCacheManager")
GROUPS = Place("vllm.v1.core.kv_cache_coordinator:KVCacheCoordinator")
POOL = Place("vllm.v1.core.block_pool:BlockPool")


@GROUPS.broken("allocate_new_computed_blocks", since=PUT_BACK, fixed="#44409", reported="#33775")
def one_group_takes_anothers_hit(
    released: Any, groups: Any, request_id: str, new_computed_blocks: Any, *given: Any, **named: Any
) -> Any:
    """The blocks for external tokens of one group can evict a hit of another group that is not referenced yet."""
    for number, manager in enumerate(groups.single_type_managers):
        with meanwhile(groups, single_type_managers=(manager,)):
            released(request_id, new_computed_blocks[number : number + 1], *given, **named)


@MANAGER.changed(
    "allocate_slots",
    "if required_blocks > available_blocks: return None",
    """
if required_blocks > available_blocks:
    for group in new_computed_block_list:
        self.block_pool.touch(group)
    return None
""",
    fixed="#11565",
    reported="#11562",
)
def refused_request_keeps_its_hits() -> None:
    """Hits are referenced before the check for room, and stay referenced if the request is refused."""


@MANAGER.broken("get_computed_blocks", since=PUT_BACK, fixed="#11186")
def only_one_token_of_a_full_hit_is_left(
    released: Any, manager: Any, request: Any, max_cache_hit_length: Any = None
) -> Any:
    """If all blocks of a prompt are hits, one token is left to compute, in a block that others share."""
    if max_cache_hit_length is not None:
        return released(request, max_cache_hit_length)
    blocks, tokens, boundary = released(request, request.num_tokens)
    return blocks, min(tokens, request.num_tokens - 1), boundary


@MANAGER.changed(
    "allocate_slots",
    "min($main + num_lookahead_tokens, self.max_model_len)",
    "$main + num_lookahead_tokens",
    fixed="#10730",
    reported="#10891",
)
def table_grows_past_the_models_length() -> None:
    """A request near the model's length gets more blocks than its table holds."""


@POOL.changed(
    "free_blocks",
    "$block.block_hash is None or not self.enable_caching",
    "$block.block_hash is None and self.enable_caching",
    fixed="#51482",
    reported="#48017",
    needs="the numbers of blocks while prefix caching is off",
)
def freed_blocks_go_last_without_caching() -> None:
    """Without prefix caching, the blocks that were freed last are reused last."""
