"""Exact contents of full blocks, and the keys under which blocks are registered.

A content is the tokens of a block, whatever else its keys and values depend on, and the content before it. A request
takes over the contents of registered blocks, so equal contents are mostly one object, and `alike` compares the rest by
value. A hash only leads to candidates.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import repeat, takewhile
from operator import add
from typing import Any, NamedTuple, Self, cast

import torch

from cacheimpl import counts
from cacheimpl.kv_cache_manager.blocks import UNPACKED
from cacheimpl.kv_cache_manager.errors import InvalidRequestError
from cacheimpl.kv_cache_manager.registered import Registered
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
AT_ONCE = 64
"""Blocks whose tokens are taken apart with one call."""

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
        registered: Registered | None = None,
        lookahead: int = 0,
    ) -> None:
        self.block_size, self.hash_size = block_size, hash_size or block_size
        self.lookahead = lookahead
        """Tokens behind a block that its hash covers, too: what drafting layers wrote into it depends on them."""
        self.scale = block_size // self.hash_size
        """Hashes that a request brings for each block; the last one stands for the block."""
        self.group = group
        """None where there is one group only."""
        self.registered = Registered() if registered is None else registered
        """Blocks of the pool that can be found."""
        self._compared = compared
        """False if rules trust hashes: then equal contents need not be one object."""
        self._hash = hash_function
        self.ending = (group or 0).to_bytes(GROUP_BYTES, "big")
        self._apart = struct.Struct(f"{block_size * WIDTH}s" * AT_ONCE)

    def full_blocks(self, request: TokenRequest, tokens: int) -> int:
        """The number of full blocks among the first `tokens` tokens of the request, as far as they have hashes."""
        hashed = min(tokens, len(request.all_token_ids) - self.lookahead)
        return hashed // self.block_size if hashed > 0 else 0

    def extra_keys(self, request: TokenRequest, start: int, end: int) -> tuple[Any, ...] | None:
        """What the keys and values of these tokens depend on beside them, tagged. The tokens behind them are last."""
        if not self.lookahead and is_plain(request):
            return None
        keys, _ = generate_block_hash_extra_keys(request, start, end + self.lookahead, 0)
        if not self.lookahead:
            return keys
        return (*(keys or ()), (AHEAD, *request.all_token_ids[end : end + self.lookahead]))

    def pieces_of(self, request: TokenRequest, first: int, blocks: int) -> list[Piece]:
        """The tokens of each full block from `first` on, of `blocks` in all. Raises `InvalidRequestError`."""
        if first >= blocks:
            return []
        size = self.block_size
        tokens: Any = request.all_token_ids[first * size : blocks * size]
        if type(tokens) is not list:
            tokens = list(tokens)
        data = packed(tokens)
        if data is None:
            check_tokens(request, tokens)
            return [tuple(tokens[start : start + size]) for start in range(0, len(tokens), size)]
        pieces, width = list[Piece](), size * WIDTH
        whole = (blocks - first) // AT_ONCE * AT_ONCE * width
        if whole:
            for several in self._apart.iter_unpack(memoryview(data)[:whole]):
                pieces.extend(several)
        pieces.extend([data[start : start + width] for start in range(whole, len(data), width)])
        return pieces

    def brings_keys(self, request: TokenRequest, blocks: int) -> bool:
        """Whether the request brings the keys of its first `blocks` full blocks."""
        return len(getattr(request, "block_hashes", None) or ()) >= blocks * self.scale

    def first_key(self, request: TokenRequest) -> Hashable | None:
        """The key of the request's first block, if the request brings it."""
        given = getattr(request, "block_hashes", None) or ()
        return key_of(given[self.scale - 1], self.group) if len(given) >= self.scale else None

    def keys(self, hashes: Iterable[Any]) -> list[Hashable]:
        """Under what blocks with these hashes are found in this group: with the group, if there are several."""
        given: list[Any] = list(hashes)
        try:
            return list(map(add, given, repeat(self.ending)))
        except TypeError:  # some are not bytes
            return [key_of(hashed, self.group) for hashed in given]

    def key(self, link: Link) -> Hashable:
        """The same of one block."""
        return key_of(link.block_hash, self.group)

    def extended(self, request: TokenRequest, known: Links, blocks: int) -> Links:
        """The links of the first `blocks` full blocks; `known` are the leading ones."""
        links = known[:blocks]
        for link in self.links(request, self.pieces_of(request, len(links), blocks), known[:blocks]):
            links.append(link)
        return links

    def first_copies(self, request: TokenRequest, count: int) -> tuple[Links, list[Any], bool]:
        """The leading full blocks of which the first block under each key has the content, of `count`; and those.

        None for a request without keys, or if its blocks depend on more than tokens. The last value says whether a
        longer prefix may be found: not if no block has the next key.
        """
        given: Any = getattr(request, "block_hashes", None) or ()
        if self.lookahead or not is_plain(request):
            return Links(), [], True
        hashes = given[:count] if self.scale == 1 else given[self.scale - 1 : count * self.scale : self.scale]
        found = map(self.registered.first.get, map(add, hashes, repeat(self.ending)))
        try:
            blocks: list[Any] = list(takewhile(bool, found))  # a block is true, and no block is None
        except TypeError:  # keys that are no bytes
            return Links(), [], True
        longer = len(blocks) == len(hashes) < count
        owner = packing_of(blocks)
        if owner is not None and self._is_beginning(request, owner, blocks):
            return Links(owner.contents(len(blocks)), list(hashes[: len(blocks)])), blocks, longer
        contents: list[Content] = contents_of(blocks)
        leading = self._leading(request, contents) if self._compared else len(contents)
        if leading < len(contents):
            del contents[leading:], blocks[leading:]
            longer = True
        return Links(contents, list(hashes[: len(contents)])), blocks, longer

    def _is_beginning(self, request: TokenRequest, owner: Any, blocks: Sequence[Any]) -> bool:
        """Whether these are the leading blocks of one packed prefix, and of the request: compared at once."""
        if owner.start or blocks[0]._position:  # noqa: SLF001  # as `content`, without a call
            return False
        data = packed(request.all_token_ids[: len(blocks) * self.block_size]) if self._compared else None
        return not self._compared or (data is not None and owner.begins_with(data, len(blocks)))

    def _leading(self, request: TokenRequest, contents: Sequence[Content]) -> int:
        """How many of these contents, of the first blocks under the request's keys, are the beginning of the request.

        All of them are compared at once first, and one by one if they differ.
        """
        count = len(contents)
        end, tokens, pieces = count * self.block_size, request.all_token_ids, [its.piece for its in contents]
        read: Any = tokens if type(tokens) is list and len(tokens) < 2 * end else tokens[:end]
        try:
            same = (packed(read) or b"").startswith(b"".join(cast("list[bytes]", pieces)))
        except TypeError:  # pieces of tokens that have more than 64 bits
            same = False
        parents = [its.parent for its in contents]
        same = same and parents == [None, *contents[:-1]][:count]
        if same and [its.extra_keys for its in contents].count(None) == count:
            return count
        parent: Content | None = None
        own = self.pieces_of(request, 0, count)
        for position, (its, piece) in enumerate(zip(contents, own, strict=True)):
            if its.piece != piece or its.extra_keys is not None or not alike(its.parent, parent):
                return position
            its.parent = parent
            parent = its
        return count

    def named(self, request: TokenRequest, pieces: Sequence[Piece], known: Links, blocks: int) -> Links:
        """The links of the first `blocks` full blocks but the known ones; `pieces` are the tokens of all of them."""
        first = len(known)
        if self.lookahead or not is_plain(request) or not self.brings_keys(request, blocks):
            links = Links()
            for link in self.links(request, pieces[first:blocks], known):
                links.append(link)
            return links
        given: Any = getattr(request, "block_hashes", ())
        hashes = given[(first + 1) * self.scale - 1 : blocks * self.scale : self.scale]
        content = known.contents[-1] if first else None
        contents = list[Content]()
        keys = self.keys(hashes) if self._compared else []
        if not self._compared or self.registered.first.keys().isdisjoint(keys):
            for piece in pieces[first:blocks]:
                content = Content(content, piece, None)
                contents.append(content)
        else:
            for piece, key in zip(pieces[first:blocks], keys, strict=True):
                content = self._content(key, content, piece, None)
                contents.append(content)
        return Links(contents, list(hashes))

    def links(self, request: TokenRequest, pieces: Sequence[Piece], known: Links) -> Iterator[Link]:
        """The links of the blocks with these tokens, which stand behind the known ones.

        Where the request comes with keys, those are used to find blocks.
        """
        first = len(known)
        parent = Link(known.contents[-1], known.hashes[-1]) if first else None
        size, scale, group = self.block_size, self.scale, self.group
        given = getattr(request, "block_hashes", None) or ()
        extra_keys: Any = None
        plain, hashes = not self.lookahead and is_plain(request), len(given)
        content = None if parent is None else parent.content
        for number, piece in enumerate(pieces, first):
            if not plain:
                start = number * size
                extra_keys = self.extra_keys(request, start, start + size)
            position = (number + 1) * scale - 1
            if position < hashes:
                block_hash = given[position]
            else:
                block_hash = self.hashed(parent, Content(content, piece, extra_keys))
            content = self._content(key_of(block_hash, group), content, piece, extra_keys)
            parent = Link(content, block_hash)
            yield parent

    def _content(self, key: Hashable, parent: Content | None, piece: Piece, extra_keys: Hashable) -> Content:
        """The content of these tokens behind this parent: that of a registered block if one has it."""
        for block in self.registered.copies(key) if self._compared else ():
            its: Content = block.content
            if its.piece == piece and its.extra_keys == extra_keys and alike(its.parent, parent):
                its.parent = parent
                return its
        return Content(parent, piece, extra_keys)

    def hashed(self, parent: Link | None, content: Content) -> BlockHashType:
        """A hash of our own, where the request brings none."""
        value = None
        if parent is not None:
            before = parent.block_hash
            value = before.hash_value if isinstance(before, BlockHashType) else self._hash(before)
        extra_keys: Any = content.extra_keys
        return hash_block_tokens(value, content.token_ids, extra_keys, hash_function=self._hash)
