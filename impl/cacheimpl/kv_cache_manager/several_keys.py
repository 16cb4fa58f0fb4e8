"""A pool whose blocks can have several keys: of the whole block, and of prefixes that end within it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.contents import Content, alike
from cacheimpl.kv_cache_manager.errors import FreeQueueError
from cacheimpl.kv_cache_manager.pool import BlockPool


class SeveralKeysPool(BlockPool):
    """The same pool. The first key of a block is with the block, and the others are here."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._others: dict[int, dict[Hashable, Content]] = {}
        """By the number of a block, what it can be found by beside its first key."""

    def keys_of(self, block: KVCacheBlock) -> Iterator[tuple[Hashable, Content]]:
        """Everything that the block can be found by, and what it then holds."""
        if block.block_hash is not None:
            yield block.block_hash, block.content
        yield from self._others.get(block.block_id, {}).items()

    def has(self, block: KVCacheBlock, key: Hashable) -> bool:
        """Whether the block can be found by this key."""
        return block.block_hash == key or key in self._others.get(block.block_id, ())

    def add(self, block: KVCacheBlock, key: Hashable, content: Content, *, first: bool = False) -> None:
        """The block can be found by this key, too, behind the blocks that there are (PH-3).

        `first`: it becomes the block's first key, as that of a whole block does: look-ups of whole blocks read it.
        """
        if self.has(block, key):
            return
        if block.block_hash is None:
            block.block_hash, block.content = key, content
        elif first:
            self._others.setdefault(block.block_id, {})[block.block_hash] = block.content
            block.reset_hash()
            block.block_hash, block.content = key, content
        else:
            self._others.setdefault(block.block_id, {})[key] = content
        if self.registered.first.setdefault(key, block) is not block:
            self.registered.again(key, block)

    def move(self, source: KVCacheBlock, target: KVCacheBlock) -> list[Hashable]:
        """Whatever the one block could be found by finds the other; no event says so. Returns those keys."""
        moved = list(self.keys_of(source))
        events, self.events = self.events, None
        self.forget(source)
        for key, content in moved:
            self.add(target, key, content)
        self.events = events
        return [key for key, _ in moved]

    def find(self, key: Hashable, content: Content) -> KVCacheBlock | None:
        """The first block with this content that can be found by this key; None if there is none."""
        if not self.rules.verified:
            return self.registered.first.get(key)
        return next((block for block in self.copies(key) if alike(self._content(block, key), content)), None)

    def let_all_go(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Remove a reference to each. Of those that become free, unregistered ones are taken first, in this order."""
        first, last = list[KVCacheBlock](), list[KVCacheBlock]()
        for block in blocks:
            block.ref_cnt -= 1
            if block.ref_cnt == 0:
                (first if block.block_hash is None and self.rules.unhashed_first else last).append(block)
        self.free_block_queue.prepend_n(first)
        self.free_block_queue.append_n(last)

    def free_blocks(self, ordered_blocks: Iterable[Any]) -> None:
        """Remove the references of a request's blocks, in reverse order, or of the blocks of copies."""
        held = [block for block in self.own(ordered_blocks) if block is not self.null_block]
        for block, count in Counter(held).items():
            if block.ref_cnt < count:
                raise FreeQueueError(f"block {block.block_id} is given back {count} times, and held {block.ref_cnt}")
        self.let_all_go(held)

    def reset_prefix_cache(self) -> bool:
        """The same, for all keys."""
        done = super().reset_prefix_cache()
        if done:
            self._others.clear()
        return done

    def _content(self, block: KVCacheBlock, key: Hashable) -> Content:
        its: Content = block.content if block.block_hash == key else self._others[block.block_id][key]
        return its

    def _forget(self, block: KVCacheBlock, key: Hashable) -> None:
        super()._forget(block, key)
        for other, content in self._others.pop(block.block_id, {}).items():
            block.block_hash, block.content = other, content
            super()._forget(block, other)

    def _take_all(self, count: int) -> list[KVCacheBlock]:
        blocks = self.free_block_queue.popleft_n(count)
        for block in blocks:
            self.forget(block)
            block.ref_cnt += 1
        return blocks

    def _release(self, blocks: Sequence[KVCacheBlock]) -> None:
        self.let_all_go(reversed(blocks))
