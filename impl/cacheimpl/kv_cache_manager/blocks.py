"""The objects that callers of the manager see: blocks, the free queue, and lists of blocks by group of layers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cacheimpl import counts
from cacheimpl.kv_cache_manager.errors import ForeignBlockError, FreeQueueError, NoFreeBlocksError

NO_BLOCK_ID = -1
UNPACKED = -1
"""The position of a block whose content is an object of its own."""


@dataclass(eq=False, slots=True)
class KVCacheBlock:
    """A block of KV memory. Blocks are compared by identity."""

    block_id: int
    ref_cnt: int = 0
    """How many places in tables it has."""
    is_null: bool = False
    """True of the block that is set aside: never free, never cached."""
    prev_free_block: KVCacheBlock | None = field(default=None, repr=False)
    next_free_block: KVCacheBlock | None = field(default=None, repr=False)
    _content: Any = field(default=None, repr=False)
    """What the block holds: a `Content`, or the `PackedPrefix` in which it has a position."""
    _position: int = field(default=UNPACKED, repr=False)
    _block_hash: Hashable = None
    _queue: Any = field(default=None, repr=False)
    """The free queue that it is in, if any."""

    @property
    def block_hash(self) -> Any:
        """The key under which the block is registered, or None."""
        return self._block_hash

    @block_hash.setter
    def block_hash(self, block_hash: Hashable) -> None:
        assert self._block_hash is None, "the block already has a hash"
        self._block_hash = block_hash

    @property
    def content(self) -> Any:
        """What the block holds, exactly, while it can be found (see `contents.Content`)."""
        its, position = self._content, self._position
        return its if its is None or position == UNPACKED else its.content(position)

    @content.setter
    def content(self, content: Any) -> None:
        self._content, self._position = content, UNPACKED

    @property
    def block_hash_num_tokens(self) -> int | None:
        """The tokens of the prefix that the key stands for; None if the block is not registered."""
        return None if self._block_hash is None else self.content.prefix

    def reset_hash(self) -> None:
        """Drop the key and the content of the block."""
        self._block_hash = self._content = None

    def incr_ref(self) -> None:
        """Add a reference."""
        self.ref_cnt += 1

    def decr_ref(self) -> None:
        """Remove a reference."""
        self.ref_cnt -= 1


def keys_of(blocks: Sequence[KVCacheBlock]) -> list[Any]:
    """Under what these blocks are registered now; None for each that is not."""
    return [block._block_hash for block in blocks]  # noqa: SLF001  # as `block_hash`, without a call


class FreeKVCacheBlockQueue:
    """Free blocks, the next one first: a doubly linked list, so that any block can be removed in constant time.

    Unlike in the releases, adding a block twice and removing a block that is not queued raise `FreeQueueError`.
    """

    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self.num_free_blocks = 0
        self.fake_free_list_head = KVCacheBlock(NO_BLOCK_ID)
        self.fake_free_list_tail = KVCacheBlock(NO_BLOCK_ID)
        _link(self.fake_free_list_head, self.fake_free_list_tail)
        self.append_n(blocks)

    def __contains__(self, block: KVCacheBlock) -> bool:
        return block._queue is self  # noqa: SLF001  # the queue's mark on the blocks that are in it

    @property
    def free_list_head(self) -> KVCacheBlock | None:
        """The next free block, or None."""
        return _real(self.fake_free_list_head.next_free_block)

    @property
    def free_list_tail(self) -> KVCacheBlock | None:
        """The last free block, or None."""
        return _real(self.fake_free_list_tail.prev_free_block)

    def popleft(self) -> KVCacheBlock:
        """Remove the next block and return it. Raises `NoFreeBlocksError`."""
        head = self.fake_free_list_head
        block = head.next_free_block
        if block is None or block is self.fake_free_list_tail:
            raise NoFreeBlocksError("no free block is left")
        after = block.next_free_block
        assert after is not None
        head.next_free_block, after.prev_free_block = after, head
        block.prev_free_block = block.next_free_block = block._queue = None  # noqa: SLF001  # the queue's mark
        self.num_free_blocks -= 1
        return block

    def popleft_n(self, n: int) -> list[KVCacheBlock]:
        """Remove the next blocks and return them. Raises `NoFreeBlocksError` and removes none if there are fewer."""
        count = counts.whole(
            "the number of free blocks asked for", n, NoFreeBlocksError, least=0, most=self.num_free_blocks
        )
        head, blocks = self.fake_free_list_head, list[KVCacheBlock]()
        block: Any = head.next_free_block
        for _ in range(count):
            after = block.next_free_block
            block.prev_free_block = block.next_free_block = block._queue = None  # noqa: SLF001  # the queue's mark
            blocks.append(block)
            block = after
        head.next_free_block, block.prev_free_block = block, head
        self.num_free_blocks -= count
        return blocks

    def remove(self, block: KVCacheBlock) -> None:
        """Remove this block. Raises `FreeQueueError` if it is not queued."""
        if not isinstance(block, KVCacheBlock):
            _check_block(block)
        before, after = block.prev_free_block, block.next_free_block
        if block._queue is not self or before is None or after is None:  # noqa: SLF001  # the queue's mark
            raise FreeQueueError(f"block {block.block_id} is not in the free queue")
        before.next_free_block, after.prev_free_block = after, before
        block.prev_free_block = block.next_free_block = block._queue = None  # noqa: SLF001  # the queue's mark
        self.num_free_blocks -= 1

    def append(self, block: KVCacheBlock) -> None:
        """Add a block at the end. Raises `FreeQueueError` if it is queued already."""
        assert self.fake_free_list_tail.prev_free_block is not None
        self._insert(block, self.fake_free_list_tail.prev_free_block)

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Add blocks at the end, in this order."""
        self._append_all(self._all_new(blocks))

    def _append_all(self, new: Sequence[KVCacheBlock]) -> None:
        """The same of blocks that are not in the queue, each once."""
        tail = self.fake_free_list_tail
        before: Any = tail.prev_free_block
        for block in new:
            before.next_free_block, block.prev_free_block = block, before
            block._queue = self  # noqa: SLF001  # the queue's mark on the blocks that are in it
            before = block
        before.next_free_block, tail.prev_free_block = tail, before
        self.num_free_blocks += len(new)

    def _append_released(self, held: Iterable[KVCacheBlock]) -> None:
        """Remove a reference of each of these blocks, and add those that have none left, in this order."""
        tail, count = self.fake_free_list_tail, 0
        before: Any = tail.prev_free_block
        for block in held:
            block.ref_cnt = left = block.ref_cnt - 1
            if left == 0:
                before.next_free_block, block.prev_free_block = block, before
                block._queue = self  # noqa: SLF001  # the queue's mark on the blocks that are in it
                before = block
                count += 1
        before.next_free_block, tail.prev_free_block = tail, before
        self.num_free_blocks += count

    def prepend(self, block: KVCacheBlock) -> None:
        """Add a block at the front. Raises `FreeQueueError` if it is queued already."""
        self._insert(block, self.fake_free_list_head)

    def prepend_n(self, blocks: Sequence[KVCacheBlock]) -> None:
        """Add blocks at the front, in this order."""
        for block in reversed(self._all_new(blocks)):
            self.prepend(block)

    def get_all_free_blocks(self) -> list[KVCacheBlock]:
        """All free blocks, the next one first."""
        free: list[KVCacheBlock] = []
        block = self.free_list_head
        while block is not None:
            free.append(block)
            block = _real(block.next_free_block)
        return free

    def _all_new(self, blocks: Iterable[KVCacheBlock]) -> list[KVCacheBlock]:
        """Blocks of which none is in the queue or given twice. Raises `FreeQueueError` before one is put in."""
        new = _check_blocks(blocks)
        if len({*map(id, new)}) < len(new) or any(block.prev_free_block is not None for block in new):
            numbers = [block.block_id for block in new]
            raise FreeQueueError(f"blocks {numbers} cannot be put in: one is in the free queue already, or given twice")
        return new

    def _insert(self, block: KVCacheBlock, before: KVCacheBlock) -> None:
        _check_block(block)
        if block.prev_free_block is not None:
            raise FreeQueueError(f"block {block.block_id} is in the free queue already")
        block._queue = self  # noqa: SLF001  # the queue's mark on the blocks that are in it
        after = before.next_free_block
        assert after is not None
        before.next_free_block = after.prev_free_block = block
        block.prev_free_block, block.next_free_block = before, after
        self.num_free_blocks += 1


def _check_block(block: Any) -> None:
    """Raises `ForeignBlockError` for anything but a block."""
    if not isinstance(block, KVCacheBlock):
        raise ForeignBlockError(f"a block must be a KVCacheBlock, not {block!r}")


def _check_blocks(blocks: Any) -> list[KVCacheBlock]:
    """Blocks, in a list. Raises `ForeignBlockError` for anything else."""
    if not isinstance(blocks, Iterable):
        raise ForeignBlockError(f"blocks must be several, in a list or the like, not {blocks!r}")
    checked = list(blocks)
    for block in checked:
        _check_block(block)
    return checked


def _link(before: KVCacheBlock, after: KVCacheBlock) -> None:
    before.next_free_block, after.prev_free_block = after, before


def _real(block: KVCacheBlock | None) -> KVCacheBlock | None:
    """The block, unless it is an end of the list."""
    return None if block is None or block.block_id == NO_BLOCK_ID else block


@dataclass(frozen=True)
class KVCacheBlocks:
    """Blocks by group of layers, as the later manager takes and returns them."""

    blocks: tuple[Sequence[KVCacheBlock], ...]

    def __add__(self, other: KVCacheBlocks) -> KVCacheBlocks:
        """Group by group, these and then the others."""
        return KVCacheBlocks(tuple([*ours, *more] for ours, more in zip(self.blocks, other.blocks, strict=True)))

    def get_block_ids(
        self,
        allow_none: bool = False,  # noqa: FBT001, FBT002  # the released signature
        *,
        group_ids: Sequence[int] | None = None,
    ) -> tuple[list[int], ...] | None:
        """Block numbers by group of layers; None for no blocks, if `allow_none` is set."""
        groups = self.blocks if group_ids is None else tuple(self.blocks[group] for group in group_ids)
        if allow_none and not any(groups):
            return None
        if len(groups) == 1:
            return ([block.block_id for block in groups[0]],)
        return tuple([block.block_id for block in group] for group in groups)

    def get_unhashed_block_ids(self) -> list[int]:
        """Numbers of the unregistered blocks. For one group of layers only."""
        (group,) = self.blocks
        return [block.block_id for block in group if block.block_hash is None]

    def get_unhashed_block_ids_all_groups(self) -> list[list[int]]:
        """Numbers of the unregistered blocks by group of layers, without the null block."""
        return [
            [block.block_id for block in its if block.block_hash is None and not block.is_null] for its in self.blocks
        ]

    def new_empty(self) -> KVCacheBlocks:
        """An empty list for each group of layers."""
        return KVCacheBlocks(tuple(() for _ in self.blocks))
