"""The map of registered blocks under the name and with the calls of the releases, as connectors read it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.registered import Registered


class CachedBlocks(Mapping[Any, dict[int, KVCacheBlock]]):
    """For each key the blocks that are registered under it, by number. It always shows the pool as it is."""

    def __init__(self, registered: Registered, forget: Callable[[KVCacheBlock], None]) -> None:
        self._registered, self._forget = registered, forget

    def __getitem__(self, key: Hashable) -> dict[int, KVCacheBlock]:
        """The blocks under a key, in a dictionary that is made for the caller."""
        first = self._registered.first[key]
        return dict(self._registered.several.get(key) or {first.block_id: first})

    def __iter__(self) -> Iterator[Hashable]:
        """Each key."""
        return iter(self._registered.first)

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._registered.first)

    def get_one_block(self, key: Hashable) -> KVCacheBlock | None:
        """The block that was registered first under this key; None if there is none."""
        return self._registered.first.get(key)

    def pop(self, key: Hashable, block_id: int) -> KVCacheBlock | None:
        """Unregister the block with this number, if it is registered under this key, and return it; else None."""
        block = self.get(key, {}).get(block_id)
        if block is not None:
            self._forget(block)
        return block
