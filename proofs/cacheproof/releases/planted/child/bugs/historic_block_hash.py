"""Historic bugs in the keys of blocks."""

from __future__ import annotations

from typing import Any

from .declaring import PUT_BACK, Place

UTILITIES = Place("vllm.v1.core.kv_cache_utils")


@UTILITIES.changed(
    "_gen_mm_extra_hash_keys",
    "$offset - start_token_idx",
    "0",
    fixed="#36708",
)
def position_of_an_item_is_left_out() -> None:
    """The key of a block does not tell at which position of the block an item begins."""


@UTILITIES.changed(
    "generate_block_hash_extra_keys",
    "if not extra_keys: return None, $next",
    "if not extra_keys and not request.mm_features: return None, $next",
    fixed="#12603",
)
def text_before_an_item_has_another_key() -> None:
    """A block of text has one key in a request with items and another in a request without."""


@UTILITIES.broken("hash_block_tokens", since=PUT_BACK, fixed="#12603")
def extra_keys_are_not_hashed(released: Any, function: Any, parent: Any, tokens: Any, extra: Any = None) -> Any:
    """The hash of a block leaves out its items, adapter and salt."""
    return released(function, parent, tokens, None)


@UTILITIES.changed(
    "generate_block_hash_extra_keys",
    "lora_extra_keys + $items + cache_salt_keys + $embeddings",
    "[key[1] for key in lora_extra_keys] + $items + [key[1] for key in cache_salt_keys] + $embeddings",
    fixed="#44701",
)
def adapter_and_salt_share_names() -> None:
    """A salt that is spelled like the name of an adapter gives the same key as that adapter."""


@UTILITIES.broken("init_none_hash", since=PUT_BACK, fixed="#12621", needs="keys of two engines beside each other")
def first_parent_is_known(released: Any, function: Any) -> Any:
    """The parent key of every first block is a constant, so keys can be computed outside the engine."""
    released(lambda value: function(0))


@UTILITIES.broken("_gen_lora_extra_hash_keys", since=PUT_BACK, fixed="#42125", reported="#30931")
def adapter_is_known_by_name_only(released: Any, request: Any) -> Any:
    """An adapter that is loaded from another path under the same name reuses the old adapter's blocks."""
    return [key[:2] for key in released(request)]
