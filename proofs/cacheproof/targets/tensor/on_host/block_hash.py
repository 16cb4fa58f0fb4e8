"""`block_hash`: the keys that `KVCacheManager` compares."""

from __future__ import annotations

from cacheproof.model.target import Target
from cacheproof.targets.tensor.block_keys import KeysTarget


def open_face() -> Target:
    """Requests, and the links of their full blocks."""
    return KeysTarget()
