"""KV cache events: blocks registered, blocks removed, all blocks cleared.

The fields have the names and the order of 0.33. The events are msgspec structs, tagged as in the releases, so that a
subscriber decodes them: as maps, or in the shape of earlier releases as arrays (`event_arrays`). A block is reported as
stored when it is registered. Unlike in the releases, that is never before its keys and values are written (C-KV-6). And
a hash is reported with its first block, and as removed with its last one, so that a subscriber knows what can be found
without counting (C-KV-28). The rules of eras report each duplicate of a content for itself, as released.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import msgspec

from cacheimpl.kv_cache_manager.chains import Chains
from cacheimpl.kv_cache_manager.contents import AHEAD, BlockHashType, Content, Link, Links, lookahead_of
from cacheimpl.request import TokenRequest

MEDIUM_GPU = "GPU"
MEDIUM_CPU = "CPU"
BITS = 64
"""Of a hash that is told as an integer, the lowest ones."""

ExternalBlockHash = Hashable
"""The hash of a block as others know it."""


class KVCacheEvent(msgspec.Struct, tag=True, frozen=True, omit_defaults=True, gc=False):
    """Base of all events."""

    def __hash__(self) -> int:
        return hash(msgspec.msgpack.encode(self))


class BlockStored(KVCacheEvent, frozen=True):
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
    lora_name: str | None
    extra_keys: list[tuple[Any, ...] | None] | None = None
    """For each block what else its KV depends on, without tags: an adapter's name, `(hash, offset)` of an item counted
    from the start of the block, the salt, embeddings; None for nothing."""
    group_idx: int | None = None
    """The group of layers."""
    kv_cache_spec_kind: str | None = None
    """The kind of its layers, such as `full_attention` or `sliding_window`; None if the spec is of no release."""
    kv_cache_spec_sliding_window: int | None = None
    """The window of its layers in tokens; None if they have none."""
    locality: str | None = None
    """Always None here; so the next one."""
    ownership: str | None = None
    session_id: str | None = None
    """The session of the request that filled the blocks."""
    lookahead_token_ids: list[list[int]] | None = None
    """For each block the tokens behind it that its hash covers, if hashes look ahead."""


class BlockRemoved(KVCacheEvent, frozen=True):
    """A block is no longer registered: it was reallocated, or evicted by number."""

    block_hashes: list[ExternalBlockHash]
    medium: str | None
    group_idx: int | None = None
    locality: str | None = None
    """Always None here; so the next one."""
    ownership: str | None = None


class AllBlocksCleared(KVCacheEvent, frozen=True):
    """No block is registered any more."""


class Form(NamedTuple):
    """How a manager tells its events."""

    stored: type[BlockStored] = BlockStored
    removed: type[BlockRemoved] = BlockRemoved
    cleared: type[AllBlocksCleared] = AllBlocksCleared
    kinds: tuple[tuple[str | None, int | None], ...] = ()
    """For each group of layers its kind and its window; none where events do not name them."""
    medium: str = MEDIUM_GPU
    """Where the blocks of the pool are."""

    def of_group(self, group: int) -> tuple[str | None, int | None]:
        """The kind and the window of a group."""
        return self.kinds[group] if self.kinds else (None, None)


MAPS = Form()


def stored(
    form: Form,
    request: TokenRequest,
    before: Hashable,
    links: Links,
    start: int,
    block_size: int,
    group: int,
) -> BlockStored:
    """The event of newly registered blocks of a request.

    `start` is where the first one starts in the request, `before` the hash of the block before it, if there is one.
    """
    kind, window = form.of_group(group)
    end = start + len(links) * block_size
    ahead = [list(its) for content in links.contents if (its := lookahead_of(content)) is not None]
    adapter = getattr(request, "lora_request", None)
    numbers = (getattr(adapter, name, None) for name in ("adapter_id", "lora_int_id", "id"))
    names = (getattr(adapter, name, None) for name in ("name", "lora_name"))
    return form.stored(
        block_hashes=[external(block_hash) for block_hash in links.hashes],
        parent_block_hash=None if before is None else external(before),
        token_ids=list(request.all_token_ids[start:end]),
        block_size=block_size,
        lora_id=next((number for number in numbers if number is not None), None),
        medium=form.medium,
        lora_name=next((name for name in names if name is not None), None),
        extra_keys=[untagged(content.extra_keys) for content in links.contents],
        group_idx=group,
        kv_cache_spec_kind=kind,
        kv_cache_spec_sliding_window=window,
        session_id=getattr(request, "session_id", None),
        lookahead_token_ids=ahead or None,
    )


def stored_end(form: Form, request: TokenRequest, links: Links, link: Link, tokens: int, chains: Chains) -> BlockStored:
    """The event of a block that is found by a prefix of `tokens` tokens, which may end within it.

    It tells of the whole block if the prefix ends with it, or of the last hash block if the request has hashes, or of
    what the prefix has of the block. `links` are those of the full blocks.
    """
    given = getattr(request, "block_hashes", None) or ()
    if not tokens % chains.block_size:
        first = tokens // chains.block_size - 1
        before = links.hashes[first - 1] if first else None
        start, ending = first * chains.block_size, links[first : first + 1]
        return stored(form, request, before, ending, start, chains.block_size, chains.group or 0)
    start, hashed = tokens // chains.block_size * chains.block_size, tokens - chains.hash_size
    before = links.hashes[start // chains.block_size - 1] if start else None
    if given:
        start, before = hashed, given[hashed // chains.hash_size - 1] if hashed else None
    ending = Links([Content(None, (), chains.extra_keys(request, start, tokens))], [link.block_hash])
    return stored(form, request, before, ending, start, tokens - start, chains.group or 0)


def removed(form: Form, block_hash: Hashable, group: int) -> BlockRemoved:
    """The event of a block with this hash that is no longer registered."""
    return form.removed([external(block_hash)], form.medium, group)


def external(block_hash: Hashable) -> ExternalBlockHash:
    """A hash as it is told: the lowest bits of an integer or of bytes, never negative; anything else as it is."""
    value = block_hash.hash_value if isinstance(block_hash, BlockHashType) else block_hash
    if isinstance(value, bytes):
        value = int.from_bytes(value, "big")
    return value & ((1 << BITS) - 1) if isinstance(value, int) else value


def untagged(extra_keys: Any) -> tuple[Any, ...] | None:
    """What is said of a block's extra keys (see `contents.generate_block_hash_extra_keys`)."""
    if extra_keys is None:
        return None
    return tuple(_plain(*key) for key in extra_keys if key[0] != AHEAD) or None


def _plain(tag: str, *values: Any) -> Any:
    if tag == "lora":
        return values[1]
    return values[0] if len(values) == 1 else values
