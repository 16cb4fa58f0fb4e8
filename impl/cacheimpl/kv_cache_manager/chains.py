"""Contents and keys of a manager's requests, block by block."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import repeat, takewhile
from operator import add
from typing import Any, cast

from cacheimpl.kv_cache_manager.contents import (
    AHEAD,
    GROUP_BYTES,
    WIDTH,
    BlockHashType,
    Content,
    HashFunction,
    Link,
    Links,
    Piece,
    alike,
    check_tokens,
    contents_of,
    generate_block_hash_extra_keys,
    hash_block_tokens,
    is_plain,
    key_of,
    packed,
    packing_of,
)
from cacheimpl.kv_cache_manager.registered import Registered
from cacheimpl.request import TokenRequest

AT_ONCE = 64
"""Blocks whose tokens are taken apart with one call."""


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
