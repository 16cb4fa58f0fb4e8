"""Blocks that look-ups find, by key."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock


class Registered:
    """Registered blocks by key. Most keys have one block, so only the others have a dictionary of their own."""

    def __init__(self) -> None:
        self.first: dict[Hashable, KVCacheBlock] = {}
        """The block that was registered first under each key."""
        self.several: dict[Hashable, dict[int, KVCacheBlock]] = {}
        """All blocks under a key that has several, by number, the first registered first."""
        self.removals = 0
        """Grows whenever blocks are removed: until then, what a look-up has found is still registered."""

    def copies(self, key: Hashable) -> Collection[KVCacheBlock]:
        """The blocks under a key, the first registered first."""
        copies = self.several.get(key)
        if copies is not None:
            return copies.values()
        block = self.first.get(key)
        return () if block is None else (block,)

    def again(self, key: Hashable, block: KVCacheBlock) -> None:
        """Add a block under a key that has one."""
        first = self.first[key]
        self.several.setdefault(key, {first.block_id: first})[block.block_id] = block

    def remove(self, key: Hashable, block: KVCacheBlock) -> int:
        """Remove a block; the number of those that are left under its key."""
        copies, self.removals = self.several.get(key), self.removals + 1
        if copies is None:
            del self.first[key]
            return 0
        del copies[block.block_id]
        self.first[key] = next(iter(copies.values()))
        if len(copies) == 1:
            del self.several[key]
        return len(copies)

    def clear(self) -> None:
        """No block is registered any more."""
        self.removals += 1
        self.first.clear()
        self.several.clear()
