"""Bugs in what makes the keys of blocks."""

from __future__ import annotations

import copy
from typing import Any

from .declaring import Place

UTILITIES = Place("vllm.v1.core.kv_cache_utils")
SALTED, BY_NAME = "0.11.0", "0.20.2"
"""From the one on, salts are hashed; from the other on, where an item begins is, and adapters are by name."""


class WithoutLast(list[Any]):
    """Keys of which the last cannot be had."""

    def __getitem__(self, place: Any) -> Any:
        return None if place == -1 else super().__getitem__(place)


@UTILITIES.broken("hash_block_tokens", since=SALTED)
def blocks_before_are_ignored(released: Any, function: Any, parent: Any, tokens: Any, extra: Any = None) -> Any:
    """The key of a block ignores the blocks before it."""
    return released(function, None, tokens, extra)


@UTILITIES.broken("hash_block_tokens", until="0.7.3")
def blocks_before_play_no_part(released: Any, parent: Any, tokens: Any, extra: Any = None) -> Any:
    """The key of a block ignores the blocks before it."""
    return released(None, tokens, extra)


@UTILITIES.broken("hash_block_tokens", since=SALTED)
def order_is_ignored(released: Any, function: Any, parent: Any, tokens: Any, extra: Any = None) -> Any:
    """The key ignores the order of the tokens in a block."""
    return released(function, parent, sorted(tokens), extra)


@UTILITIES.broken("hash_block_tokens", since=SALTED)
def last_token_is_ignored(released: Any, function: Any, parent: Any, tokens: Any, extra: Any = None) -> Any:
    """The key ignores the last token of a block."""
    return released(function, parent, tokens[:-1] or [0], extra)


@UTILITIES.broken("_gen_lora_extra_hash_keys")
def adapter_is_ignored(released: Any, request: Any) -> Any:
    """The key ignores the adapter of a request."""
    return []


@UTILITIES.broken("_gen_lora_extra_hash_keys", since="0.33.0")
def path_is_ignored(released: Any, request: Any) -> Any:
    """The key ignores the path of an adapter."""
    return [key[:2] for key in released(request)]


@UTILITIES.broken("_gen_mm_extra_hash_keys")
def items_are_ignored(released: Any, request: Any, start: int, end: int, first: int) -> Any:
    """The key ignores the items in a block."""
    return [], released(request, start, end, first)[1]


@UTILITIES.broken("_gen_mm_extra_hash_keys")
def second_item_is_ignored(released: Any, request: Any, start: int, end: int, first: int) -> Any:
    """The key ignores all items of a block but the first."""
    keys, following = released(request, start, end, first)
    return keys[:1], following


@UTILITIES.broken("_gen_mm_extra_hash_keys", since=BY_NAME)
def place_is_ignored(released: Any, request: Any, start: int, end: int, first: int) -> Any:
    """The key ignores the position of an item in its block."""
    keys, following = released(request, start, end, first)
    return [key[:-1] for key in keys], following


@UTILITIES.broken("generate_block_hash_extra_keys", since=SALTED)
def salt_is_ignored(released: Any, request: Any, *given: Any) -> Any:
    """The key ignores the salt of a request."""
    plain = copy.copy(request)
    plain.cache_salt = None
    return released(plain, *given)


@UTILITIES.broken("generate_block_hash_extra_keys")
def item_after_item_is_lost(released: Any, request: Any, start: int, end: int, first: int) -> Any:
    """Every block advances to the next item, so an item that spans several blocks is skipped."""
    keys, following = released(request, start, end, first)
    return keys, following + 1


@UTILITIES.broken("get_request_block_hasher", since=SALTED)
def chain_breaks_at_output(released: Any, *given: Any) -> Any:
    """A block that output fills is hashed like a first block."""
    hasher = released(*given)

    def unchained(request: Any) -> Any:
        same = copy.copy(request)
        same.block_hashes = WithoutLast(request.block_hashes)
        return hasher(same)

    return unchained


@UTILITIES.broken("get_request_block_hasher", since=SALTED)
def last_block_waits(released: Any, *given: Any) -> Any:
    """A block has no key before a token follows it."""
    hasher = released(*given)

    def late(request: Any) -> Any:
        same = copy.copy(request)
        same.all_token_ids = request.all_token_ids[:-1]
        return hasher(same)

    return late
