"""The keys of blocks: over every pair of short requests, equal keys mean equal content and the other way round."""

from __future__ import annotations

from icontract import ensure, require

from cachespec import block_hash
from cachespec.block_hash.state import prefix_of
from cachespec.block_hash.transitions import with_all_keys

Tokens = tuple[int, int]
Item = tuple[int, int]
"""Content, and offset of the first placeholder."""

LENGTHS = (1, 2)
"""Placeholders of the contents."""


def placed(item: Item) -> bool:
    """A content that there is, at some position."""
    content, offset = item
    return 0 <= content < len(LENGTHS) and offset >= 0


def in_order(items: tuple[Item, Item]) -> bool:
    """One after the other, as in a prompt."""
    (content, offset), (_, later) = items
    return all(map(placed, items)) and offset + LENGTHS[content] <= later


def request_of(tokens: tuple[int, ...], items: tuple[Item, ...], adapter: int, salt: int) -> block_hash.Request:
    """A submitted request without keys. The tokens at the positions of the items may be any."""
    placed_items = tuple(block_hash.Item(*item) for item in items)
    return block_hash.Request(tokens, placed_items, adapter, salt, submitted=1)


def keys_are_content(config: block_hash.Config, one: block_hash.Request, other: block_hash.Request) -> bool:
    """HASH-1 and HASH-2, for the blocks at each place of the two."""
    first, second = with_all_keys(config, one), with_all_keys(config, other)
    return all(
        (first.blocks[place].key == second.blocks[place].key)
        == (prefix_of(config, first, place) == prefix_of(config, second, place))
        for place in range(min(len(first.blocks), len(second.blocks)))
    )


@require(lambda item, other_item: placed(item) and placed(other_item))
@ensure(lambda result: result)
def one_item_each(tokens: Tokens, item: Item, other_tokens: Tokens, other_item: Item) -> bool:
    """Two blocks of one token; in each request one item, anywhere."""
    config = block_hash.Config(block_size=1, prompt_tokens=2, tokens=2, lengths=LENGTHS)
    return keys_are_content(config, request_of(tokens, (item,), -1, 0), request_of(other_tokens, (other_item,), -1, 0))


@require(lambda item, other_item: placed(item) and placed(other_item))
@ensure(lambda result: result)
def one_block_of_two(tokens: Tokens, item: Item, other_tokens: Tokens, other_item: Item) -> bool:
    """One block of two tokens; in each request one item, anywhere."""
    config = block_hash.Config(block_size=2, prompt_tokens=2, tokens=2, lengths=LENGTHS)
    return keys_are_content(config, request_of(tokens, (item,), -1, 0), request_of(other_tokens, (other_item,), -1, 0))


@require(lambda items, other_items: in_order(items) and in_order(other_items))
@ensure(lambda result: result)
def two_items_each(items: tuple[Item, Item], other_items: tuple[Item, Item]) -> bool:
    """Two blocks of one token; in each request two items, anywhere, one after the other."""
    config = block_hash.Config(block_size=1, prompt_tokens=2, tokens=2, lengths=LENGTHS)
    return keys_are_content(config, request_of((0, 0), items, -1, 0), request_of((0, 0), other_items, -1, 0))


@require(
    lambda adapter, salt, other_adapter, other_salt: min(adapter, other_adapter) >= -1 and min(salt, other_salt) >= 0
)
@ensure(lambda result: result)
def adapters_and_salts(adapter: int, salt: int, other_adapter: int, other_salt: int) -> bool:
    """The same tokens and the same item, for any adapter and any salt."""
    config = block_hash.Config(block_size=1, prompt_tokens=2, tokens=2, lengths=LENGTHS)
    return keys_are_content(
        config, request_of((1, 0), ((0, 1),), adapter, salt), request_of((1, 0), ((0, 1),), other_adapter, other_salt)
    )


LEDGER = {
    "one_item_each": "two blocks of one token, any tokens, one item of one or two placeholders in each request",
    "one_block_of_two": "one block of two tokens, any tokens, one item of one or two placeholders in each request",
    "two_items_each": "two blocks of one token, two items of one or two placeholders in each request",
    "adapters_and_salts": "two blocks of one token, any adapters and salts",
}
