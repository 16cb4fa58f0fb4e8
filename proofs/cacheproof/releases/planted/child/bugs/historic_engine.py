"""Historic bugs between the parts of an engine."""

from __future__ import annotations

from .declaring import Place

FEATURES = Place("vllm.multimodal.utils")


@FEATURES.changed("strip_covered_mm_data", "'address' in $feature.data", "False", fixed="#54994", reported="#52041")
def handle_in_a_cached_prefix_is_not_acknowledged() -> None:
    """The handle of an item in a cached prefix is stripped, so its chunk is never acknowledged."""
