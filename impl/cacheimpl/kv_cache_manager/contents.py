"""Exact contents of full blocks, and the keys under which blocks are registered.

A content is the tokens of a block, whatever else its keys and values depend on, and the content before it. Equal
contents are one object while they are in use, so contents are compared by identity. A hash only leads to candidates.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import ref

import torch

from cacheimpl import counts
from cacheimpl.kv_cache_manager.errors import InvalidRequestError
from cacheimpl.request import TokenRequest

FIRST_PARENT = int.from_bytes(os.urandom(7), "big") + 1
"""The parent of first blocks; random, so that no client can prepare a collision (C-KV-10)."""

GROUP_BYTES = 4

HashFunction = Callable[[Any], int]


FORM = "q"
"""The form of a packed token: 64 bits with a sign."""

Piece = bytes | tuple[int, ...]
"""The tokens of a full block, packed; as they are if one of them has more than 64 bits. Bytes keep their hash."""


class Content:
    """The content of one full block. Made by `Contents` only."""

    __slots__ = ("__weakref__", "extra_keys", "parent", "piece")

    def __init__(self, parent: Content | None, piece: Piece, extra_keys: Hashable) -> None:
        self.parent, self.piece, self.extra_keys = parent, piece, extra_keys

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens of the block."""
        return self.piece if isinstance(self.piece, tuple) else tuple(array(FORM, self.piece))


class Reference(ref[Content]):
    """A weak reference to a content, with its key."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


class Contents:
    """The contents in use, each once. A weak dictionary with less ado: this is made for each full block."""

    def __init__(self) -> None:
        known: dict[tuple[Any, ...], Reference] = {}

        def gone(reference: Reference) -> None:
            if known.get(reference.key) is reference:
                del known[reference.key]

        self._known, self._gone = known, gone

    def __len__(self) -> int:
        """The number of contents in use."""
        return len(self._known)

    def chain(self, parent: Content | None, pieces: Sequence[Piece]) -> list[Content]:
        """The contents of these tokens, one behind the other, as `of` without its calls; they depend on tokens only."""
        known, gone, contents = self._known, self._gone, list[Content]()
        for piece in pieces:
            key = parent, piece, None
            reference = known.get(key)
            parent = None if reference is None else reference()
            if parent is None:
                parent = Content(key[0], piece, None)
                reference = known[key] = Reference(parent, gone)
                reference.key = key
            contents.append(parent)
        return contents

    def of(self, parent: Content | None, piece: Piece, extra_keys: Hashable) -> Content:
        """The content of these tokens behind this parent."""
        key = parent, piece, extra_keys
        known = self._known.get(key)
        content = None if known is None else known()
        if content is None:
            content = Content(parent, piece, extra_keys)
            reference = self._known[key] = Reference(content, self._gone)
            reference.key = key
        return content


class BlockHashType(NamedTuple):
    """The key of a block in early releases: a hash of everything before it, its own tokens and extra keys."""

    hash_value: int
    token_ids: tuple[int, ...]
    extra_keys: Any = None


class Link(NamedTuple):
    """One full block of a request, in a group of layers."""

    content: Content
    key: Hashable
    """Under what the block is found: its hash, and, where there are several groups of layers, the group."""
    block_hash: Hashable
    group: int = 0
    """Of layers."""


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
    return (
        not getattr(request, "mm_features", None)
        and not getattr(request, "lora_request", None)
        and not getattr(request, "cache_salt", None)
        and getattr(request, "prompt_embeds", None) is None
        and not getattr(request, "mm_positions", None)
        and not getattr(request, "mm_hashes", None)
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


def _first(
    copies: Mapping[int, Any] | None, parent: Content | None, piece: Piece, extra_keys: Hashable
) -> Content | None:
    """The content of the first of these blocks, if it is this one."""
    for block in copies.values() if copies else ():
        content: Content = block.content
        same = content.parent is parent and content.piece == piece and content.extra_keys == extra_keys
        return content if same else None
    return None


# Chains of one manager ----------------------------------------------------------------------------------------------


class Chains:
    """Contents and keys of requests, block by block. Each group of layers has its own."""

    def __init__(
        self,
        block_size: int,
        hash_function: HashFunction,
        group: int | None = None,
        hash_size: int | None = None,
        *,
        compared: bool = True,
        contents: Contents | None = None,
    ) -> None:
        self.block_size = block_size
        self.scale = block_size // (hash_size or block_size)
        """Hashes that a request brings for each block; the last one stands for the block."""
        self.group = group
        """None where there is one group only."""
        self.contents = Contents() if contents is None else contents
        """Groups with blocks of one size share them: a key says of which group a block is."""
        self._compared = compared
        self._of: Callable[[Content | None, Piece, Hashable], Content] = self.contents.of if compared else Content
        """Where contents are not compared, because rules trust hashes, equal ones need not be one object."""
        self._hash = hash_function

    def full_blocks(self, request: TokenRequest, tokens: int) -> int:
        """The number of full blocks among the first `tokens` tokens of the request."""
        return min(tokens, len(request.all_token_ids)) // self.block_size

    def pieces_of(self, request: TokenRequest, first: int, blocks: int) -> list[Piece]:
        """The tokens of each full block from `first` on, of `blocks` in all. Raises `InvalidRequestError`."""
        if first >= blocks:
            return []
        size = self.block_size
        tokens: Any = request.all_token_ids[first * size : blocks * size]
        if type(tokens) is not list:
            tokens = list(tokens)
        try:
            packed = array(FORM, tokens)
        except (TypeError, OverflowError):
            check_tokens(request, tokens)
            return [tuple(tokens[start : start + size]) for start in range(0, len(tokens), size)]
        data, width = packed.tobytes(), size * packed.itemsize
        return [data[start : start + width] for start in range(0, len(data), width)]

    def brings_keys(self, request: TokenRequest, blocks: int) -> bool:
        """Whether the request brings the keys of its first `blocks` full blocks."""
        return len(getattr(request, "block_hashes", None) or ()) >= blocks * self.scale

    def first_key(self, request: TokenRequest) -> Hashable | None:
        """The key of the request's first block, if the request brings it."""
        given = getattr(request, "block_hashes", None) or ()
        return key_of(given[self.scale - 1], self.group) if len(given) >= self.scale else None

    def extended(self, request: TokenRequest, known: Sequence[Link], blocks: int) -> list[Link]:
        """The links of the first `blocks` full blocks; `known` are the leading ones."""
        links = list(known[:blocks])
        links.extend(self.links(request, self.pieces_of(request, 0, blocks), links, blocks))
        return links

    def alike(self, links: Sequence[Link]) -> list[Link]:
        """The links of the same blocks in this group; `links` are those of a group with the same contents."""
        group, number, new = self.group, self.group or 0, tuple.__new__  # without the call of a function of Python
        ending = number.to_bytes(GROUP_BYTES, "big")
        return [
            new(Link, (content, hashed + ending if type(hashed) is bytes else key_of(hashed, group), hashed, number))
            for content, _, hashed, _ in links
        ]

    def first_copies(
        self, request: TokenRequest, pieces: Sequence[Piece], registered: Mapping[Hashable, Mapping[int, Any]]
    ) -> tuple[list[Link], list[Any]]:
        """The links of the leading full blocks, as long as the first block under each key has the content; and those.

        None for a request without keys, or if its blocks depend on more than tokens. `pieces` are the tokens of its
        full blocks, `registered` are blocks by key.
        """
        links, blocks = list[Link](), list[Any]()
        given = getattr(request, "block_hashes", None) or ()
        if not is_plain(request):
            return links, blocks
        group, number, content = self.group, self.group or 0, None
        ending, new, scale = number.to_bytes(GROUP_BYTES, "big"), tuple.__new__, self.scale
        for piece, hashed in zip(pieces, given[scale - 1 :: scale], strict=False):
            key = hashed + ending if type(hashed) is bytes else key_of(hashed, group)
            copies = registered.get(key)
            if not copies:
                break
            first = next(iter(copies.values()))
            its = first.content
            if its.parent is not content or its.piece != piece or its.extra_keys is not None:
                break
            content = its
            links.append(new(Link, (its, key, hashed, number)))
            blocks.append(first)
        return links, blocks

    def named(self, request: TokenRequest, pieces: Sequence[Piece], known: Sequence[Link], blocks: int) -> list[Link]:
        """The links of the first `blocks` full blocks but the known ones; `pieces` are the tokens of all of them."""
        if not self._compared or not is_plain(request) or not self.brings_keys(request, blocks):
            return list(self.links(request, pieces, known, blocks))
        first, group, number, new, scale = len(known), self.group, self.group or 0, tuple.__new__, self.scale
        contents = self.contents.chain(known[-1].content if known else None, pieces[first:blocks])
        hashes: Any = getattr(request, "block_hashes", ())
        ending = number.to_bytes(GROUP_BYTES, "big")
        return [
            new(Link, (content, hashed + ending if type(hashed) is bytes else key_of(hashed, group), hashed, number))
            for content, hashed in zip(contents, hashes[(first + 1) * scale - 1 : blocks * scale : scale], strict=True)
        ]

    def links(
        self,
        request: TokenRequest,
        pieces: Sequence[Piece],
        known: Sequence[Link],
        blocks: int,
        registered: Mapping[Hashable, Mapping[int, Any]] | None = None,
    ) -> Iterator[Link]:
        """The links of the first `blocks` full blocks but the known ones; `pieces` are the tokens of all of them.

        Where the request comes with keys, those are used to find blocks. `registered` are blocks by key: if the first
        of them has the content, it is not made.
        """
        first, parent = len(known), known[-1] if known else None
        size, scale, group, of = self.block_size, self.scale, self.group, self._of
        given = getattr(request, "block_hashes", None) or ()
        extra_keys: Any = None
        plain, hashes = is_plain(request), len(given)
        new: Callable[..., Link] = tuple.__new__  # without the call of a function of Python
        content, ending = None if parent is None else parent.content, (group or 0).to_bytes(GROUP_BYTES, "big")
        for number in range(first, blocks):
            piece = pieces[number]
            if not plain:
                start = number * size
                extra_keys, _ = generate_block_hash_extra_keys(request, start, start + size, 0)
            position = (number + 1) * scale - 1
            if position < hashes:
                block_hash = given[position]
                key = block_hash + ending if type(block_hash) is bytes else key_of(block_hash, group)
                behind = content
                content = _first(registered.get(key), behind, piece, extra_keys) if registered else None
                if content is None:
                    content = of(behind, piece, extra_keys)
            else:
                content = of(content, piece, extra_keys)
                block_hash = self._hashed(parent, content)
                key = key_of(block_hash, group)
            parent = new(Link, (content, key, block_hash, group or 0))
            yield parent

    def _hashed(self, parent: Link | None, content: Content) -> BlockHashType:
        """A hash of our own, where the request brings none."""
        value = None
        if parent is not None:
            before = parent.block_hash
            value = before.hash_value if isinstance(before, BlockHashType) else self._hash(before)
        extra_keys: Any = content.extra_keys
        return hash_block_tokens(value, content.token_ids, extra_keys, hash_function=self._hash)
