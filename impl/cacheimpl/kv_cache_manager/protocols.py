"""What the manager reads of the engine's configuration. Any object with these attributes will do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class KVCacheSpec(Protocol):
    """How a group of layers stores keys and values."""

    @property
    def block_size(self) -> int:
        """Tokens of a block."""


class KVCacheGroup(Protocol):
    """Layers that share block tables."""

    @property
    def kv_cache_spec(self) -> KVCacheSpec:
        """How these layers store keys and values."""


class KVCacheConfig(Protocol):
    """The size of the pool, and the groups of layers."""

    @property
    def num_blocks(self) -> int:
        """Blocks of the pool, the null block included."""

    @property
    def kv_cache_groups(self) -> Sequence[KVCacheGroup]:
        """At least one group; all block sizes must be equal."""
