"""Copies on the device of pages that prefixes find on the host."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.contents import Content, alike


class DeviceCopies:
    """For the key of a host block the blocks on the device with the same content, until the pool hands one out."""

    def __init__(self, *, verified: bool) -> None:
        self.verified = verified
        """Whether contents are compared; otherwise keys only."""
        self.by_key: dict[Hashable, tuple[KVCacheBlock, ...]] = {}
        """One block for each group of pages on the device."""
        self.contents: dict[Hashable, Content | None] = {}
        """The content of the host block of each key."""
        self._key_of: dict[int, Hashable] = {}

    def record(self, host_block: KVCacheBlock, blocks: Sequence[KVCacheBlock]) -> None:
        """These blocks hold what the host block holds. They take the place of earlier ones."""
        key = host_block.block_hash
        self.drop(key)
        for block in blocks:
            self.drop_block(block)
        self.by_key[key], self.contents[key] = tuple(blocks), host_block.content
        for block in blocks:
            self._key_of[block.block_id] = key

    def find(self, host_block: KVCacheBlock) -> tuple[KVCacheBlock, ...]:
        """The copies of a host block that can be found; none if there are none, or of another content."""
        key = host_block.block_hash
        if key is None or key not in self.by_key:
            return ()
        same = not self.verified or alike(self.contents[key], host_block.content)
        return self.by_key[key] if same else ()

    def drop(self, key: Hashable) -> None:
        """Forget the copies under a key."""
        self.contents.pop(key, None)
        for block in self.by_key.pop(key, ()):
            del self._key_of[block.block_id]

    def drop_block(self, block: KVCacheBlock) -> None:
        """Forget the copies to which this block belongs."""
        key = self._key_of.get(block.block_id)
        if key is not None:
            self.drop(key)
