"""What each kind of group reads, the prefix map, and the longest prefix that all groups have."""

from __future__ import annotations

from cachespec.layer_groups.configuration import (
    CHUNK,
    CROSS,
    NOTHING,
    STATE,
    WINDOW,
    Block,
    Config,
    Group,
    Key,
    Position,
    Request,
    alignment,
    blocks_for,
    caches,
    key_of,
    prompt_of,
    proofs_of,
    size_of,
    span_of,
)
from cachespec.layer_groups.state import Pool

# What a group needs -------------------------------------------------------------------------------------------------


def first_needed(config: Config, group: Group, tokens: int) -> Position:
    """The first position that the token behind these reads. LG-5: whatever is before it may go.

    A sliding window and a chunk end with that token; a state-space layer reads the state behind the last token.
    """
    kind, span, skipped = config.kinds[group], span_of(config, group), 0
    if kind == WINDOW:
        skipped = tokens - span + 1
    elif kind == CHUNK:
        skipped = tokens // span * span
    elif kind == STATE:
        skipped = tokens - 1
    return max(0, skipped) // size_of(config, group)


def slots_of(config: Config, group: Group, tokens: int) -> int:
    """The length of a table with slots for `tokens`. Cross attention always has slots for the encoder's tokens."""
    return blocks_for(config, group, span_of(config, group) if config.kinds[group] == CROSS else tokens)


# The prefix map -----------------------------------------------------------------------------------------------------


def first_copy(pool: Pool, key: Key) -> Block:
    """The block that was registered first under this key; nothing if there is none."""
    return first_of(pool.prefix_map.get(key, ()))


def first_of(copies: tuple[Block, ...]) -> Block:
    """The first copy; nothing if there is none."""
    return copies[0] if len(copies) > 0 else NOTHING


def without(copies: tuple[Block, ...], block: Block) -> tuple[Block, ...]:
    """The copies in their order, the block left out."""
    return tuple(other for other in copies if other != block)


def has_prefix(config: Config, pool: Pool, request: Request, group: Group, tokens: int) -> bool:
    """LG-12: the group has all blocks that the token behind the prefix reads, and with draft layers one more."""
    last = tokens // size_of(config, group) + proofs_of(config, group)
    if last * size_of(config, group) > prompt_of(config, request):
        return False
    for position in range(first_needed(config, group, tokens), last):
        if first_copy(pool, key_of(config, request, group, position)) < 0:
            return False
    return True


def all_have_prefix(config: Config, pool: Pool, request: Request, tokens: int) -> bool:
    """LG-12: every group has it."""
    lacking = 0
    for group in range(len(config.kinds)):
        lacking = lacking + (0 if has_prefix(config, pool, request, group, tokens) else 1)
    return lacking == 0


def cached_tokens(config: Config, pool: Pool, request: Request) -> int:
    """The longest prefix that all groups have; at least one token is left to compute."""
    unit = alignment(config)
    tokens = max(0, prompt_of(config, request) - 1) // unit * unit if caches(config) else 0
    while tokens > 0 and not all_have_prefix(config, pool, request, tokens):
        tokens = tokens - unit
    return tokens


def hit_blocks(config: Config, pool: Pool, request: Request, group: Group, tokens: int) -> tuple[Block, ...]:
    """The group's blocks of a hit; the null block for those that it does not need."""
    blocks: tuple[Block, ...] = ()
    first = first_needed(config, group, tokens)
    for position in range(tokens // size_of(config, group)):
        copy = first_copy(pool, key_of(config, request, group, position))
        blocks = (*blocks, copy if position >= first else pool.null)
    return blocks


def register(config: Config, pool: Pool, block: Block, key: Key) -> Pool:
    """The block can be found from now on, behind the copies that there are."""
    return pool._replace(
        registered=pool.registered.set(block, key),
        prefix_map=pool.prefix_map.set(key, (*pool.prefix_map.get(key, ()), block)),
    )


def forget(pool: Pool, block: Block) -> Pool:
    """The block cannot be found any more. LG-3: neither side of the prefix map keeps it."""
    if not pool.registered.has(block):
        return pool
    key = pool.registered.get(block, (NOTHING, NOTHING))
    left = without(pool.prefix_map.get(key, ()), block)
    return pool._replace(
        registered=pool.registered.remove(block),
        prefix_map=pool.prefix_map.set(key, left) if first_of(left) >= 0 else pool.prefix_map.remove(key),
    )
