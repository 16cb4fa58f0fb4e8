"""Exact contents of full blocks, and the keys under which blocks are registered.

A content is the tokens of a block, whatever else its keys and values depend on, and the content before it. A request
takes over the contents of registered blocks, so equal contents are mostly one object, and `alike` compares the rest by
value. A hash only leads to candidates.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import torch

from cacheimpl import counts
from cacheimpl.kv_cache_manager.blocks import UNPACKED
from cacheimpl.kv_cache_manager.errors import InvalidRequestError
from cacheimpl.request import TokenRequest

FIRST_PARENT = int.from_bytes(os.urandom(7), "big") + 1
"""The parent of first blocks; random, so that no client can prepare a collision (C-KV-10)."""

GROUP_BYTES = 4

HashFunction = Callable[[Any], int]

FORM = "q"
"""The form of a packed token: 64 bits with a sign."""
WIDTH = 8
"""Bytes of a packed token."""
AHEAD = "ahead"
"""Tags the tokens behind a block among its extra keys."""

Piece = bytes | tuple[int, ...]
"""The tokens of a full block, packed; as they are if one of them has more than 64 bits."""


class Content:
    """The content of one full block, or of the beginning of a block."""

    __slots__ = ("extra_keys", "parent", "piece")

    def __init__(self, parent: Content | None, piece: Piece, extra_keys: Hashable) -> None:
        self.parent, self.piece, self.extra_keys = parent, piece, extra_keys

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens of the block."""
        return self.piece if isinstance(self.piece, tuple) else tuple(array(FORM, self.piece))

    @property
    def size(self) -> int:
        """The number of these tokens."""
        return len(self.piece) if isinstance(self.piece, tuple) else len(self.piece) // WIDTH

    @property
    def prefix(self) -> int:
        """The number of tokens of the prefix that ends with the block."""
        tokens = 0
        its: Content | None = self
        while its is not None:
            tokens, its = tokens + its.size, its.parent
        return tokens


def alike(one: Content | None, other: Content | None) -> bool:
    """Whether two contents are equal, with all before them. None stands for the beginning of a sequence.

    Equal ones have one object as their parent from then on: the next comparison of what stands behind them is short.
    """
    ours, its = one, other
    while ours is not its:
        if ours is None or its is None or ours.piece != its.piece or ours.extra_keys != its.extra_keys:
            return False
        ours, its = ours.parent, its.parent
    if one is not other and one is not None and other is not None:
        one.parent = other.parent
    return True


def lookahead_of(content: Content) -> tuple[int, ...] | None:
    """The tokens behind the block that its hash covers; None if hashes do not look ahead."""
    extra_keys: Any = content.extra_keys
    if not extra_keys or extra_keys[-1][0] != AHEAD:
        return None
    tokens: tuple[int, ...] = extra_keys[-1][1:]
    return tokens


def packing_of(blocks: Sequence[Any]) -> Any:
    """The `packed_prefix.PackedPrefix` in which all of these blocks are, one behind the other. None if none is."""
    if not blocks or blocks[-1]._position == UNPACKED:  # noqa: SLF001  # as `content`, without a call
        return None
    owner, first = blocks[0]._content, blocks[0]._position  # noqa: SLF001  # the same
    if [block._position for block in blocks] != list(range(first, first + len(blocks))):  # noqa: SLF001  # the same
        return None
    return owner if [block._content for block in blocks].count(owner) == len(blocks) else None  # noqa: SLF001  # the same


def contents_of(blocks: Sequence[Any]) -> list[Any]:
    """The contents of blocks, some of which may be packed."""
    owner = packing_of(blocks)
    if owner is None:
        return [block.content if block._position != UNPACKED else block._content for block in blocks]  # noqa: SLF001
    contents: list[Any] = owner.contents(blocks[-1]._position + 1)[-len(blocks) :]  # noqa: SLF001  # the same
    return contents


class BlockHashType(NamedTuple):
    """The key of a block in early releases: a hash of everything before it, its own tokens and extra keys."""

    hash_value: int
    token_ids: tuple[int, ...]
    extra_keys: Any = None


class Link(NamedTuple):
    """One full block of a request; the same in all groups of layers with blocks of this size."""

    content: Content
    block_hash: Hashable
    """Under this hash and the group of layers the block is found."""


class Links:
    """The full blocks of a request, from the first one on. Two lists take less work than one of `Link`."""

    __slots__ = ("contents", "hashes")

    def __init__(self, contents: list[Content] | None = None, hashes: list[Hashable] | None = None) -> None:
        self.contents: list[Content] = [] if contents is None else contents
        self.hashes: list[Hashable] = [] if hashes is None else hashes

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self.contents)

    def __iter__(self) -> Iterator[Link]:
        """Each block."""
        return map(Link, self.contents, self.hashes)

    def __getitem__(self, positions: slice) -> Links:
        """Some of the blocks, in lists of their own."""
        return Links(self.contents[positions], self.hashes[positions])

    def __delitem__(self, positions: slice) -> None:
        """Some of the blocks are not known any more."""
        del self.contents[positions], self.hashes[positions]

    def __iadd__(self, more: Links) -> Self:
        """These, and more behind them."""
        self.contents += more.contents
        self.hashes += more.hashes
        return self

    def append(self, link: Link) -> None:
        """Add one block."""
        self.contents.append(link.content)
        self.hashes.append(link.block_hash)


# Hashing ------------------------------------------------------------------------------------------------------------


def hash_block_tokens(
    parent_block_hash: int | None,
    curr_block_token_ids: Sequence[int],
    extra_keys: tuple[Any, ...] | None = None,
    *,
    hash_function: HashFunction = hash,
) -> BlockHashType:
    """The key of a full block. `parent_block_hash` is the hash value of the block before it, None for a first block.

    The value covers the extra keys, so that the keys of later blocks depend on them too (C-KV-18).
    """
    tokens = tuple(curr_block_token_ids)
    parent = FIRST_PARENT if parent_block_hash is None else parent_block_hash
    return BlockHashType(hash_function((parent, tokens, extra_keys)), tokens, extra_keys)


def hash_request_tokens(
    block_size: int, request: TokenRequest, *, hash_function: HashFunction = hash
) -> list[BlockHashType]:
    """The keys of all full blocks of a request."""
    keys: list[BlockHashType] = []
    tokens = request.all_token_ids
    for start in range(0, len(tokens) - block_size + 1, block_size):
        extra_keys, _ = generate_block_hash_extra_keys(request, start, start + block_size, 0)
        parent = keys[-1].hash_value if keys else None
        block = tokens[start : start + block_size]
        keys.append(hash_block_tokens(parent, block, extra_keys, hash_function=hash_function))
    return keys


def generate_block_hash_extra_keys(
    request: TokenRequest, start_token_idx: int, end_token_idx: int, start_mm_idx: int
) -> tuple[tuple[Any, ...] | None, int]:
    """What the keys and values of these tokens depend on beside tokens, tagged (None for nothing); and the next item.

    These are: the adapter, the items that overlap the range (each with its offset from the start of the range, which
    may be negative), the salt of a first block, and prompt embeddings. They follow from the range, not from
    `start_mm_idx`: a block has one key, whether the prompt or the output filled it (C-KV-7, C-KV-8, C-KV-9).
    """
    items = items_of(request)
    keys: list[tuple[Any, ...]] = [*adapter_keys(request)]
    keys += [
        ("mm", mm_hash, offset - start_token_idx)
        for mm_hash, offset, length in items
        if offset < end_token_idx and start_token_idx < offset + length
    ]
    if start_token_idx == 0 and (salt := getattr(request, "cache_salt", None)):
        keys.append(("cache_salt", salt))
    if (embeds := getattr(request, "prompt_embeds", None)) is not None:
        given = embeds[start_token_idx:end_token_idx].detach().cpu().contiguous()
        keys.append(("prompt_embeds", str(given.dtype), bytes(given.flatten().view(torch.uint8).tolist())))
    first = len(items) + start_mm_idx if start_mm_idx < 0 else start_mm_idx
    ended = sum(offset + length <= end_token_idx for _, offset, length in items)
    return tuple(keys) or None, max(first, ended) if items else start_mm_idx


def adapter_keys(request: TokenRequest) -> list[tuple[Any, ...]]:
    """The adapter by id, name and path: a name alone may be loaded with other weights (C-MIR-15)."""
    lora = getattr(request, "lora_request", None)
    if not lora:
        return []
    named = (getattr(lora, name, None) for name in ("lora_int_id", "lora_name", "lora_path"))
    return [("lora", *named)]


def items_of(request: TokenRequest) -> list[tuple[str, int, int]]:
    """The items of a request (hash, offset, length), under the names of any era."""
    features = getattr(request, "mm_features", None)
    if features is not None:
        return [(feature.identifier, *_placed(feature.mm_position)) for feature in features]
    positions = getattr(request, "mm_positions", None) or ()
    hashes = getattr(request, "mm_hashes", None) or ()
    if len(positions) != len(hashes):
        raise ValueError(f"the request has {len(positions)} items, and {len(hashes)} hashes of items")
    return [(mm_hash, *_placed(position)) for mm_hash, position in zip(hashes, positions, strict=True)]


def _placed(position: Any) -> tuple[int, int]:
    """Offset and length of a placeholder range; early releases have a mapping."""
    if isinstance(position, dict):
        return position["offset"], position["length"]
    return position.offset, position.length


def is_plain(request: TokenRequest) -> bool:
    """Whether keys and values of the request depend on its tokens only."""
    features = getattr(request, "mm_features", None)
    if features or (
        features is None and (getattr(request, "mm_positions", None) or getattr(request, "mm_hashes", None))
    ):
        return False
    return (
        not getattr(request, "lora_request", None)
        and not getattr(request, "cache_salt", None)
        and getattr(request, "prompt_embeds", None) is None
    )


def check_request(request: TokenRequest) -> None:
    """Raises `InvalidRequestError` for a request without id or tokens."""
    tokens = getattr(request, "all_token_ids", None)
    if tokens is None or getattr(request, "request_id", None) is None:
        lacking = [name for name in ("request_id", "all_token_ids") if getattr(request, name, None) is None]
        raise InvalidRequestError(f"a request has {' and '.join(lacking)}, and {type(request).__name__} has none")
    if not hasattr(tokens, "__len__"):
        kind = type(request.all_token_ids).__name__
        raise InvalidRequestError(f"all_token_ids of request {request.request_id!r} must be a sequence, not {kind}")


def check_tokens(request: TokenRequest, tokens: Sequence[Any]) -> None:
    """Raises `InvalidRequestError` for tokens that are not integers. The size of the vocabulary is unknown here."""
    for token in tokens:
        if type(token) is not int:
            counts.whole(f"a token in all_token_ids of request {request.request_id!r}", token, InvalidRequestError)


def key_of(block_hash: Hashable, group: int | None) -> Hashable:
    """The key of a block with this hash in a group of layers; None if there is one group.

    Bytes end with the number of the group, as in the releases. Any other hash is a key by itself if there is one group.
    """
    if isinstance(block_hash, bytes):
        return block_hash + (group or 0).to_bytes(GROUP_BYTES, "big")
    return block_hash if group is None else (block_hash, group)


def hash_of(key: Any, *, several: bool) -> tuple[Hashable, int]:
    """The hash and the group of a key, if there are several groups or one."""
    if isinstance(key, bytes):
        return key[:-GROUP_BYTES], int.from_bytes(key[-GROUP_BYTES:], "big")
    return key if several else (key, 0)


def packed(tokens: Sequence[Any]) -> bytes | None:
    """The tokens in `FORM`, one behind the other; None if one of them is no integer, or has more than 64 bits."""
    try:
        return struct.pack(f"{len(tokens)}{FORM}", *tokens)
    except (struct.error, TypeError, OverflowError):
        return None
