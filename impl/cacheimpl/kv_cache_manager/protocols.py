"""What the manager reads of objects that the engine passes in. Any object with these attributes will do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class RequestTokens(Protocol):
    """What keys of blocks are made from. Items, adapter and salt are read if the request has them (see `contents`)."""

    @property
    def request_id(self) -> str:
        """Unique among the requests that have a table."""

    @property
    def all_token_ids(self) -> Sequence[int]:
        """Prompt and output tokens."""


class Request(RequestTokens, Protocol):
    """A request that gets slots. `block_hashes`, keys that the engine has computed itself, are read if it has them."""

    @property
    def num_computed_tokens(self) -> int:
        """Leading tokens whose keys and values are written."""


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
