"""Refactorings of the keys of blocks that change nothing in them."""

from __future__ import annotations

from .declaring import Place

UTILITIES = Place("vllm.v1.core.kv_cache_utils")


@UTILITIES.changed(
    "generate_block_hash_extra_keys",
    "lora_extra_keys + $items + cache_salt_keys + $embeddings",
    "[*lora_extra_keys, *$items, *cache_salt_keys, *$embeddings]",
)
def keys_are_unpacked_into_one_list() -> None:
    """The parts of a key are joined by unpacking."""
