"""Leading blocks that hold tokens only, as one buffer: hits are compared at once, and no object is made for a block.

A registered block of a request that brings keys has a `PackedPrefix` and its position there. The `Content` of a block
is made when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.contents import Content


class PackedPrefix:
    """The tokens of full blocks from `start` on, packed; those before are the leading blocks of `before`.

    The buffer grows at its end while a request decodes, and nothing in it changes. It lives as long as one of these
    blocks is registered or in the table of a request.
    """

    __slots__ = ("_contents", "before", "data", "start", "width")

    def __init__(self, before: PackedPrefix | None, start: int, data: bytes, width: int) -> None:
        self.before, self.start, self.data = before, start, bytearray(data)
        self.width = width
        """Bytes of a block."""
        self._contents: list[Content] = []

    @property
    def end(self) -> int:
        """The position behind the last block."""
        return self.start + len(self.data) // self.width

    def owners(self, blocks: int) -> list[PackedPrefix]:
        """Which object has each of the first `blocks` blocks; the last of them is one of its own."""
        its: PackedPrefix | None = self
        owners, end = list[PackedPrefix](), blocks
        while its is not None:
            owners += [its] * (end - its.start)
            end, its = its.start, its.before
        owners.reverse()
        return owners

    def begins_with(self, data: bytes, blocks: int) -> bool:
        """Whether the first `blocks` blocks hold these tokens, and no others; the last of them is one of its own."""
        its: PackedPrefix | None = self
        end, width = blocks * self.width, self.width
        if len(data) != end:
            return False
        while its is not None:
            start = its.start * width
            if not its.data.startswith(data if end - start == len(data) else data[start:end]):
                return False
            end, its = start, its.before
        return True

    def has(self, before: PackedPrefix | None, start: int, data: bytes) -> bool:
        """Whether the blocks from `start` on hold these tokens, behind the first `start` blocks of `before`."""
        offset = (start - self.start) * self.width
        if offset < 0 or not self.data.startswith(data, offset):
            return False
        return self is before if offset else self.before is before

    def followed_by(self, start: int, data: bytes) -> PackedPrefix:
        """An object that has the first `start` blocks, and these tokens behind them: this one if it ends there."""
        if self.end != start:
            return PackedPrefix(self, start, data, self.width)
        self.data += data
        return self

    def content(self, position: int) -> Content:
        """The content of the block at this position: each time the same object."""
        made, own = self._contents, position - self.start
        return made[own] if 0 <= own < len(made) else self.contents(position + 1)[-1]

    def contents(self, blocks: int) -> list[Content]:
        """The contents of the first `blocks` blocks; the last of them is one of its own."""
        parts, its, end = list[tuple[PackedPrefix, int]](), self, blocks
        while its.before is not None:
            parts.append((its, end))
            its, end = its.before, its.start
        found = its._made(end, None)  # noqa: SLF001  # of the same class
        for its, end in reversed(parts):
            found += its._made(end, found[-1])  # noqa: SLF001  # the same
        return found

    def _made(self, end: int, parent: Content | None) -> list[Content]:
        made, width = self._contents, self.width
        if made:
            parent = made[-1]
        for first in range(len(made) * width, (end - self.start) * width, width):
            parent = Content(parent, bytes(self.data[first : first + width]), None)
            made.append(parent)
        return made[: end - self.start]


def packed_of(block: KVCacheBlock) -> PackedPrefix | None:
    """The object in which the content of this block is; None if the block is not registered, or has its own."""
    its = block._content  # noqa: SLF001  # `content` makes an object of the block alone
    return its if type(its) is PackedPrefix else None


def are_leading(blocks: Sequence[KVCacheBlock], its: PackedPrefix) -> bool:
    """Whether these are registered with the contents of the leading blocks of this object, in their order."""
    count = len(blocks)
    if [block._position for block in blocks] != list(range(count)):  # noqa: SLF001  # the same
        return False
    owners = [block._content for block in blocks]  # noqa: SLF001  # the same
    return owners.count(its) == count if not its.start else owners == its.owners(count)
