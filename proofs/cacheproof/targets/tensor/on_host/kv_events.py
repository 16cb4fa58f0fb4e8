"""`kv_events`: our `KVCacheManager` with events on, normatively and as two releases."""

from __future__ import annotations

from cacheimpl.kv_cache_manager import KV_2025_10, KV_2026_11, NORMATIVE
from cacheproof.model.target import Target
from cacheproof.targets.tensor.kv_cache_events import EventsTarget
from cachespec.kernel import NORMATIVE as NORMATIVE_TAG

RULES = {NORMATIVE_TAG: NORMATIVE, "K1": KV_2025_10, "K2": KV_2026_11}
ERAS = ("K1", "K2")


def open_face(variant: str = NORMATIVE_TAG) -> Target:
    """A manager by the rules of a variant."""
    return EventsTarget(RULES[variant])
