"""The prefix map, and the longest prefix that both groups have."""

from __future__ import annotations

from cachespec.partial_hits.configuration import (
    FULL,
    NOTHING,
    STATE,
    Block,
    Config,
    Group,
    Key,
    Position,
    Request,
    blocks_for,
    content_at,
    groups,
    known_of,
)
from cachespec.partial_hits.state import Pool

# The prefix map -----------------------------------------------------------------------------------------------------


def key_of(config: Config, request: Request, group: Group, tokens: int) -> Key:
    """By which the prefix of this many tokens is found in the group."""
    return group, content_at(config, request, tokens)


def first_of(copies: tuple[Block, ...]) -> Block:
    """The first copy; nothing if there is none."""
    return copies[0] if len(copies) > 0 else NOTHING


def first_copy(pool: Pool, key: Key) -> Block:
    """The block that was registered first under this key; nothing if there is none."""
    return first_of(pool.prefix_map.get(key, ()))


def without(copies: tuple[Block, ...], block: Block) -> tuple[Block, ...]:
    """The copies in their order, the block left out."""
    return tuple(other for other in copies if other != block)


def register(pool: Pool, block: Block, key: Key) -> Pool:
    """The block can be found by this key, too, behind the copies that there are. PH-3: once by each key."""
    keys = pool.registered.get(block, ())
    if is_among(key, keys):
        return pool
    return pool._replace(
        registered=pool.registered.set(block, (*keys, key)),
        prefix_map=pool.prefix_map.set(key, (*pool.prefix_map.get(key, ()), block)),
    )


def is_among(key: Key, keys: tuple[Key, ...]) -> bool:
    """The block has this key already."""
    return key in keys


def forget(pool: Pool, block: Block) -> Pool:
    """The block cannot be found any more. PH-3: neither side of the prefix map keeps it, under any key."""
    pool = taken_out(pool, block, pool.registered.get(block, ()))
    return pool._replace(registered=pool.registered.remove(block))


def taken_out(pool: Pool, block: Block, keys: tuple[Key, ...]) -> Pool:
    """The block is found under none of these keys; a key without a block is gone."""
    for key in keys:
        left = without(pool.prefix_map.get(key, ()), block)
        changed = pool.prefix_map.set(key, left) if first_of(left) >= 0 else pool.prefix_map.remove(key)
        pool = pool._replace(prefix_map=changed)
    return pool


# Look-up ------------------------------------------------------------------------------------------------------------


def whole_blocks(config: Config, pool: Pool, request: Request) -> int:
    """How many blocks of full attention from the first one on can be found by the whole block."""
    count = 0
    while holds_whole(config, pool, request, count):
        count = count + 1
    return count


def holds_whole(config: Config, pool: Pool, request: Request, position: Position) -> bool:
    """The block at this position ends before the last known token, and can be found."""
    end = (position + 1) * config.block_size
    return end < known_of(config, request) and first_copy(pool, key_of(config, request, FULL, end)) >= 0


def found_within(config: Config, pool: Pool, request: Request, position: Position) -> int:
    """PH-8: the longest prefix that ends within the block at this position and can be found; 0 if there is none.

    At least one token is left to compute.
    """
    start = position * config.block_size
    tokens = min(start + config.block_size, known_of(config, request)) - 1
    tokens = tokens // config.hash_size * config.hash_size
    while tokens > start:
        if first_copy(pool, key_of(config, request, FULL, tokens)) >= 0:
            return tokens
        tokens = tokens - config.hash_size
    return 0


def longest_of_full_attention(config: Config, pool: Pool, request: Request) -> int:
    """What full attention has of the request: whole blocks, and a prefix within the next one."""
    whole = whole_blocks(config, pool, request)
    return max(whole * config.block_size, found_within(config, pool, request, whole))


def cached_tokens(config: Config, pool: Pool, request: Request) -> int:
    """PH-8: the longest prefix that both groups have. Full attention has every shorter one, too."""
    tokens = longest_of_full_attention(config, pool, request)
    if config.alone == 1:
        return tokens
    while tokens > 0 and not has_state(config, pool, request, tokens):
        tokens = tokens - config.hash_size
    return max(0, tokens)


def has_state(config: Config, pool: Pool, request: Request, tokens: int) -> bool:
    """The state behind this prefix can be found."""
    return first_copy(pool, key_of(config, request, STATE, tokens)) >= 0


def full_hits(config: Config, pool: Pool, request: Request, tokens: int) -> tuple[Block, ...]:
    """The blocks of full attention of a hit. The last one may be found by a longer prefix."""
    blocks: tuple[Block, ...] = ()
    whole = whole_blocks(config, pool, request)
    for position in range(blocks_for(config, tokens)):
        end = (position + 1) * config.block_size
        longest = end if position < whole else found_within(config, pool, request, position)
        blocks = (*blocks, first_copy(pool, key_of(config, request, FULL, longest)))
    return blocks


def state_hits(config: Config, pool: Pool, request: Request, tokens: int) -> tuple[Block, ...]:
    """The block of the state behind a hit, and the null block before it."""
    blocks: tuple[Block, ...] = ()
    last = blocks_for(config, tokens) - 1
    for position in range(last + 1):
        copy = first_copy(pool, key_of(config, request, STATE, tokens))
        blocks = (*blocks, copy if position == last else pool.null)
    return blocks


def hits_of(config: Config, pool: Pool, request: Request, group: Group, tokens: int) -> tuple[Block, ...]:
    """The group's blocks of a hit."""
    if group == FULL:
        return full_hits(config, pool, request, tokens)
    return state_hits(config, pool, request, tokens)


def all_hits(config: Config, pool: Pool, request: Request, tokens: int) -> tuple[tuple[Block, ...], ...]:
    """The blocks of a hit, group by group."""
    return tuple(hits_of(config, pool, request, group, tokens) for group in groups(config))
