"""KV cache events: blocks registered, blocks removed, all blocks cleared.

The fields have the names of releases from 0.20 on. A block is reported as stored when it is registered. Unlike in the
releases, that is never before its keys and values are written (C-KV-6). As released, each duplicate of a content is
reported for itself: a content is cached until as many of its blocks were removed as were stored.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from cacheimpl.kv_cache_manager.contents import BlockHashType, Link
from cacheimpl.request import TokenRequest

MEDIUM_GPU = "GPU"
BITS = 64
"""Of a hash that is told as an integer, the lowest ones."""

ExternalBlockHash = Hashable
"""The hash of a block as others know it."""


@dataclass(frozen=True)
class KVCacheEvent:
    """Base of all events."""


@dataclass(frozen=True)
class BlockStored(KVCacheEvent):
    """Consecutive blocks of one request were registered."""

    block_hashes: list[ExternalBlockHash]
    parent_block_hash: ExternalBlockHash | None
    """Of the block before the first of them; None where that is the first of its request."""
    token_ids: list[int]
    """Of all of them together."""
    block_size: int
    """Tokens of a block."""
    lora_id: int | None
    medium: str | None
    lora_name: str | None = None
    extra_keys: list[tuple[Any, ...] | None] | None = None
    """For each block what else its KV depends on, without tags: an adapter's name, `(hash, offset)` of an item counted
    from the start of the block, the salt, embeddings; None for nothing."""
    group_idx: int | None = None
    """The group of layers."""


@dataclass(frozen=True)
class BlockRemoved(KVCacheEvent):
    """A block is no longer registered: it was reallocated, or evicted by number."""

    block_hashes: list[ExternalBlockHash]
    medium: str | None
    group_idx: int | None = None


@dataclass(frozen=True)
class AllBlocksCleared(KVCacheEvent):
    """No block is registered any more."""


def stored(
    request: TokenRequest, before: Link | None, links: Sequence[Link], first: int, block_size: int
) -> BlockStored:
    """The event of newly registered blocks of a request; `first` is the position of the first one in its table."""
    start, end = first * block_size, (first + len(links)) * block_size
    adapter = getattr(request, "lora_request", None)
    numbers = (getattr(adapter, name, None) for name in ("adapter_id", "lora_int_id", "id"))
    names = (getattr(adapter, name, None) for name in ("name", "lora_name"))
    return BlockStored(
        block_hashes=[external(link.block_hash) for link in links],
        parent_block_hash=None if before is None else external(before.block_hash),
        token_ids=list(request.all_token_ids[start:end]),
        block_size=block_size,
        lora_id=next((number for number in numbers if number is not None), None),
        medium=MEDIUM_GPU,
        lora_name=next((name for name in names if name is not None), None),
        extra_keys=[untagged(link.content.extra_keys) for link in links],
        group_idx=links[0].group,
    )


def removed(block_hash: Hashable, group: int) -> BlockRemoved:
    """The event of a block with this hash that is no longer registered."""
    return BlockRemoved([external(block_hash)], MEDIUM_GPU, group)


def external(block_hash: Hashable) -> ExternalBlockHash:
    """A hash as it is told: the integer of a key of ours, the lowest bits of bytes, anything else as it is."""
    if isinstance(block_hash, BlockHashType):
        return block_hash.hash_value
    if isinstance(block_hash, bytes):
        return int.from_bytes(block_hash, "big") & ((1 << BITS) - 1)
    return block_hash


def untagged(extra_keys: Any) -> tuple[Any, ...] | None:
    """What is said of a block's extra keys (see `contents.generate_block_hash_extra_keys`)."""
    if extra_keys is None:
        return None
    return tuple(_plain(*key) for key in extra_keys)


def _plain(tag: str, *values: Any) -> Any:
    if tag == "lora":
        return values[1]
    return values[0] if len(values) == 1 else values
