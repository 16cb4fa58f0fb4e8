"""Refactorings of the encoder cache manager that change nothing that it does."""

from __future__ import annotations

from .declaring import Place

MANAGER = Place("vllm.v1.core.encoder_cache_manager:EncoderCacheManager")


@MANAGER.changed(
    "get_freed_mm_hashes",
    "[$key for $key in self.freed if $key not in self.cached]",
    "list(filter(lambda entry: entry not in self.cached, self.freed))",
)
def filter_in_place_of_a_comprehension() -> None:
    """The evicted entries are filtered by a function."""


@MANAGER.changed(
    "can_allocate",
    "if $embeds <= self.num_free_slots: return True",
    "shortage = $embeds - self.num_free_slots\nif not shortage > 0: return True",
)
def shortage_has_a_name() -> None:
    """The missing room is computed first and compared with zero."""
