"""Historic bugs in the encoder cache manager."""

from __future__ import annotations

from .declaring import Place

MANAGER = Place("vllm.v1.core.encoder_cache_manager:EncoderCacheManager")


@MANAGER.changed(
    "free_encoder_input",
    "if $key in self.request_hash_refs.get($request, ()): return",
    "pass",
    fixed="#54284",
    reported="vllm-ascend#16781",
)
def first_occurrence_drops_the_reference() -> None:
    """A request that repeats an item loses its reference at the first occurrence."""


@MANAGER.changed(
    "get_freed_mm_hashes",
    "[$key for $key in self.freed if $key not in self.cached]",
    "self.freed",
    fixed="#52482",
    reported="#38551",
)
def entry_is_dropped_though_allocated_again() -> None:
    """Workers are told to drop an entry that was evicted and allocated again in the same step."""


@MANAGER.changed(
    "can_allocate",
    "$embeds += num_embeds_to_schedule",
    "pass",
    fixed="#23544",
)
def several_items_get_the_same_room() -> None:
    """Several items of a request are granted the same free room in one step."""
