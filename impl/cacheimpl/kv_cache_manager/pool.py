"""The pool of blocks: who is referred to, who is free, and who can be found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from cacheimpl import counts
from cacheimpl.kv_cache_manager.blocks import FreeKVCacheBlockQueue, KVCacheBlock
from cacheimpl.kv_cache_manager.contents import Link
from cacheimpl.kv_cache_manager.errors import ForeignBlockError, FreeQueueError, InvalidCountError, InvalidSettingError
from cacheimpl.kv_cache_manager.events import AllBlocksCleared, KVCacheEvent, removed
from cacheimpl.kv_cache_manager.rules import Rules


class BlockPool:
    """Blocks by number, the free queue, and the prefix map from keys to the blocks that carry them.

    The first registered copy of a key comes first. Copies are never merged, so that tables only ever grow.
    """

    def __init__(
        self,
        num_gpu_blocks: int,
        rules: Rules,
        *,
        null_block: bool = False,
        several_groups: bool = False,
        events: bool = False,
    ) -> None:
        counts.whole("num_gpu_blocks", num_gpu_blocks, InvalidCountError, least=1 + int(null_block))
        if not isinstance(rules, Rules):
            raise InvalidSettingError(f"rules must be Rules, as `KV_2026_11` is, not {type(rules).__name__}")
        self.num_gpu_blocks = num_gpu_blocks
        self.rules = rules
        self.events: list[KVCacheEvent] | None = [] if events else None
        """What others were not told yet; None where nobody is told."""
        self.several_groups = several_groups
        """Whether a key names the group of layers too."""
        self.blocks = [KVCacheBlock(number) for number in range(num_gpu_blocks)]
        self.free_block_queue = FreeKVCacheBlockQueue(self.blocks)
        self.cached_block_hash_to_block: dict[Any, dict[int, KVCacheBlock]] = defaultdict(dict)
        self.null_block: KVCacheBlock | None = None
        if null_block:
            self.null_block = self.free_block_queue.popleft()
            self.null_block.is_null = True

    # Finding --------------------------------------------------------------------------------------------------------

    def find(self, link: Link) -> KVCacheBlock | None:
        """The first registered block that holds this content; None where there is none."""
        for block in self.copies(link.key):
            if not self.rules.verified or block.content is link.content:
                return block
        return None

    def copies(self, key: Hashable) -> Iterable[KVCacheBlock]:
        """The blocks that carry a key, the first registered first."""
        return self.cached_block_hash_to_block.get(key, {}).values()

    def get_cached_block(
        self, block_hash: Hashable, kv_cache_group_ids: Sequence[int] = (0,)
    ) -> list[KVCacheBlock] | None:
        """The first block that carries this hash, in each of these groups of layers; None where one has none.

        By the hash alone: whoever takes a block as a hit has its content checked (KV-7).
        """
        keys = [(block_hash, group) if self.several_groups else block_hash for group in kv_cache_group_ids]
        first = [block for key in keys if (block := next(iter(self.copies(key)), None)) is not None]
        return first if len(first) == len(keys) else None

    def register(self, block: KVCacheBlock, link: Link) -> None:
        """The block can be found from now on, behind the copies that there are (KV-3)."""
        self.own((block,))
        block.block_hash, block.content = link.key, link.content
        self.cached_block_hash_to_block[link.key][block.block_id] = block

    def forget(self, block: KVCacheBlock) -> None:
        """The block cannot be found any more; neither side of the map keeps it (KV-3)."""
        self.own((block,))
        if block.block_hash is None:
            return
        if self.events is not None:
            block_hash, group = block.block_hash if self.several_groups else (block.block_hash, 0)
            self.events.append(removed(block_hash, group))
        copies = self.cached_block_hash_to_block[block.block_hash]
        del copies[block.block_id]
        if not copies:
            del self.cached_block_hash_to_block[block.block_hash]
        block.reset_hash()

    # References -----------------------------------------------------------------------------------------------------

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        """One place more holds each: what is held is not free (KV-2)."""
        for block in self.own(blocks):
            if block.ref_cnt == 0:
                self.free_block_queue.remove(block)
            block.incr_ref()

    def take(self) -> KVCacheBlock:
        """The next free block; if it could be found, that is its eviction."""
        block = self.free_block_queue.popleft()
        self.forget(block)
        block.incr_ref()
        return block

    def let_go(self, block: KVCacheBlock) -> None:
        """One place fewer holds it; the last one makes it free (KV-11)."""
        self._check_held((block,))
        self._let_go(block)

    def _check_held(self, blocks: Iterable[Any]) -> list[KVCacheBlock]:
        """Raises `FreeQueueError` where a block has fewer places than it is to lose, or is the null block."""
        own = self.own(blocks)
        for block in own:
            if block.is_null or block.ref_cnt < 1:
                raise FreeQueueError(f"block {block.block_id} is in no table, and cannot be given back")
        return own

    def _let_go(self, block: KVCacheBlock) -> None:
        block.decr_ref()
        if block.ref_cnt > 0:
            return
        if self.rules.unhashed_first and block.block_hash is None:
            self.free_block_queue.prepend(block)
        else:
            self.free_block_queue.append(block)

    def release(self, blocks: Sequence[KVCacheBlock]) -> None:
        """All places of a table are given back; the end of the sequence is evicted before its beginning (KV-11)."""
        blocks = self._check_held(blocks)
        if len({*blocks}) < len(blocks):
            raise FreeQueueError(f"a table has each block once: {[block.block_id for block in blocks]}")
        if self.rules.unhashed_first:
            for block in blocks:
                if block.block_hash is None:
                    self._let_go(block)
            blocks = [block for block in blocks if block.block_hash is not None]
        for block in reversed(blocks):
            self._let_go(block)

    # Asking ---------------------------------------------------------------------------------------------------------

    def own(self, blocks: Iterable[Any]) -> list[KVCacheBlock]:
        """Blocks that a caller brings along, if they are blocks of this pool. Raises `ForeignBlockError`."""
        if not isinstance(blocks, Iterable):
            raise ForeignBlockError(f"blocks must be several of this pool, in a list or the like, not {blocks!r}")
        brought = list(blocks)
        for block in brought:
            number = getattr(block, "block_id", None)
            if not isinstance(number, int) or not 0 <= number < len(self.blocks) or self.blocks[number] is not block:
                raise ForeignBlockError(f"blocks must be of this pool, as it has given them, and {block!r} is not")
        return brought

    def block(self, number: Any) -> KVCacheBlock:
        """The block of this number. Raises `ForeignBlockError`."""
        return self.blocks[
            counts.whole("the number of a block", number, ForeignBlockError, least=0, most=len(self.blocks) - 1)
        ]

    def get_num_free_blocks(self) -> int:
        """How many may be taken."""
        return self.free_block_queue.num_free_blocks

    @property
    def num_held_blocks(self) -> int:
        """How many are in a table; the null block is in none."""
        return self.num_gpu_blocks - self.get_num_free_blocks() - int(self.null_block is not None)

    def get_usage(self) -> float:
        """The part of all blocks, but the null block, that is in tables."""
        return self.num_held_blocks / (self.num_gpu_blocks - int(self.null_block is not None))

    def reset_prefix_cache(self) -> bool:
        """Nothing can be found any more. False, and nothing is changed, while a request holds a block."""
        if self.num_held_blocks > 0:
            return False
        for block in self.blocks:
            block.reset_hash()
        self.cached_block_hash_to_block.clear()
        if self.events is not None:
            self.events.append(AllBlocksCleared())
        return True

    def take_events(self) -> list[KVCacheEvent]:
        """What happened since the last call, in its order; nothing where events are off."""
        if self.events is None:
            return []
        taken, self.events = self.events, []
        return taken
