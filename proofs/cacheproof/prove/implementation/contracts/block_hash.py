"""Keys of blocks beside the specification: their inputs, and their chaining.

The hash function of these contracts gives its argument back, so two keys are equal if and only if the same was hashed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from icontract import ensure, require

from cacheimpl.block_content.extras import Item, extras_of
from cacheimpl.kv_cache_manager import contents, hashing
from cacheproof.prove.contract import Beside
from cachespec import block_hash
from cachespec.block_hash.state import ADAPTER, ITEM, SALT, Extra
from cachespec.block_hash.transitions import extras_in, with_all_keys

Tokens = tuple[int, int]
LENGTHS = (1, 2)
"""Placeholders of the contents 0 and 1."""


def unhashed(value: Any) -> Any:
    """The values that are hashed."""
    return value


def config_of(block_size: int) -> block_hash.Config:
    """Prompts of two tokens."""
    return block_hash.Config(block_size=block_size, prompt_tokens=2, tokens=2, lengths=LENGTHS)


def specified(tokens: Tokens, content: int, offset: int, salt: int) -> block_hash.Request:
    """A request with one item."""
    return block_hash.Request(tokens, (block_hash.Item(content, offset),), salt=salt, submitted=1)


def requested(tokens: Tokens, content: int, offset: int, salt: int) -> Any:
    """The same, as a manager gets it; a salt is a text or nothing."""
    placed = SimpleNamespace(offset=offset, length=LENGTHS[content])
    feature = SimpleNamespace(identifier="01"[content], mm_position=placed)
    given = "salted" if salt == 1 else None
    return SimpleNamespace(request_id="0", all_token_ids=list(tokens), mm_features=[feature], cache_salt=given)


def written(extra: Extra) -> tuple[Any, ...]:
    """An extra as the manager writes it."""
    if extra.tag == ITEM:
        return "mm", "01"[extra.value], extra.offset
    return ("cache_salt", "salted") if extra.tag == SALT else ("lora", extra.value)


@require(lambda offset: offset >= 0)
@ensure(lambda result: result)
def extra_keys(offset: int, *, second: bool, later: bool, salted: bool) -> bool:
    """A block's key names each item that overlaps the block, with its offset, and the salt of a first block."""
    content, salt, start = int(bool(second)), int(bool(salted)), 1 if later else 0
    config, one = config_of(1), specified((0, 0), content, offset, salt)
    keys, _ = contents.generate_block_hash_extra_keys(requested((0, 0), content, offset, salt), start, start + 1, 0)
    return list(keys or ()) == [written(extra) for extra in extras_in(config, one, start)]


def keys_alike(tokens: Tokens, other: Tokens, offset: int, other_offset: int, size: int) -> bool:
    """Two requests have equal keys of the specification where they have equal keys of the manager."""
    config = config_of(size)
    mine = [
        contents.hash_request_tokens(size, requested(its, 0, at, 0), hash_function=unhashed)
        for its, at in ((tokens, offset), (other, other_offset))
    ]
    its = [
        with_all_keys(config, specified(given, 0, at, 0)).blocks
        for given, at in ((tokens, offset), (other, other_offset))
    ]
    return [one == another for one, another in zip(*mine, strict=True)] == [
        one.key == another.key for one, another in zip(*its, strict=True)
    ]


@require(lambda offset, other_offset: min(offset, other_offset) >= 0)
@ensure(lambda result: result)
def chains_of_one_token(tokens: Tokens, other: Tokens, offset: int, other_offset: int) -> bool:
    """Two blocks of one token: a key depends on everything before it."""
    return keys_alike(tokens, other, offset, other_offset, 1)


@require(lambda offset, other_offset: min(offset, other_offset) >= 0)
@ensure(lambda result: result)
def one_block_of_two(tokens: Tokens, other: Tokens, offset: int, other_offset: int) -> bool:
    """One block of two tokens."""
    return keys_alike(tokens, other, offset, other_offset, 2)


@ensure(lambda result: result)
def hasher_of_requests(tokens: Tokens, other: Tokens) -> bool:
    """The hasher of later releases chains its keys in the same way."""
    config, hasher = config_of(1), hashing.get_request_block_hasher(1, unhashed)
    mine = [
        hasher(SimpleNamespace(request_id="0", all_token_ids=list(its), block_hashes=[])) for its in (tokens, other)
    ]
    its = [with_all_keys(config, block_hash.Request(given, submitted=1)).blocks for given in (tokens, other)]
    return [one == another for one, another in zip(*mine, strict=True)] == [
        one.key == another.key for one, another in zip(*its, strict=True)
    ]


@require(lambda offset: 0 <= offset <= 3)
@ensure(lambda result: result)
def extras_of_blocks(offset: int, *, second: bool, adapted: bool, salted: bool) -> bool:
    """The table of block contents names the same for each block."""
    content, salt, adapter = int(bool(second)), int(bool(salted)), 0 if adapted else -1
    config, one = config_of(1), specified((0, 0), content, offset, salt)._replace(adapter=adapter)
    items = [Item("01"[content], offset, LENGTHS[content])]
    mine = extras_of(items, 2, 1, adapter=0 if adapted else None, salt="salted" if salted else None)
    names = {ADAPTER: "adapter", ITEM: "item", SALT: "salt"}
    its = [[(names[extra.tag], extra.offset) for extra in extras_in(config, one, start)] for start in (0, 1)]
    return [[(tag, at) for tag, _, at in block] for block in mine] == its


LEDGER = {
    "extra_keys": Beside(
        "blocks of 1 token, 1 item of 1 or 2 placeholders at any offset, salted or not",
        contents.generate_block_hash_extra_keys,
        {"offset": 0, "second": False, "later": False, "salted": True},
        8,
    ),
    "chains_of_one_token": Beside(
        "2 blocks of any token, 1 item of 1 placeholder at any offset",
        contents.hash_block_tokens,
        {"tokens": (1, 2), "other": (1, 3), "offset": 0, "other_offset": 0},
        8,
    ),
    "one_block_of_two": Beside(
        "1 block of any 2 tokens, 1 item of 1 placeholder at any offset",
        contents.hash_request_tokens,
        {"tokens": (1, 2), "other": (1, 3), "offset": 0, "other_offset": 0},
        8,
    ),
    "hasher_of_requests": Beside(
        "2 blocks of any token", hashing.hash_block_tokens, {"tokens": (1, 2), "other": (1, 3)}, 2
    ),
    "extras_of_blocks": Beside(
        "2 blocks of 1 token, 1 item of 1 or 2 placeholders at an offset of at most 3",
        extras_of,
        {"offset": 0, "second": False, "adapted": True, "salted": True},
        8,
    ),
}
