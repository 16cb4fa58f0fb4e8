"""The pool of blocks: reference counts, the free queue, and the map of registered prefixes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from itertools import takewhile
from operator import is_
from typing import Any

from cacheimpl import counts
from cacheimpl.kv_cache_manager.blocks import UNPACKED, FreeKVCacheBlockQueue, KVCacheBlock, keys_of
from cacheimpl.kv_cache_manager.cached import CachedBlocks
from cacheimpl.kv_cache_manager.chains import Chains
from cacheimpl.kv_cache_manager.contents import Content, HashFunction, Links, alike, check_request, hash_of, key_of
from cacheimpl.kv_cache_manager.errors import (
    ForeignBlockError,
    FreeQueueError,
    InvalidCountError,
    InvalidSettingError,
    NoFreeBlocksError,
    StaleBlocksError,
)
from cacheimpl.kv_cache_manager.events import MAPS, Form, KVCacheEvent, removed, stored
from cacheimpl.kv_cache_manager.packed_prefix import PackedPrefix
from cacheimpl.kv_cache_manager.registered import Registered
from cacheimpl.kv_cache_manager.rules import Rules
from cacheimpl.request import TokenRequest


class BlockPool:
    """Blocks by number, the free queue, and the map from keys to registered blocks.

    Several blocks may be registered under one key; the first registered is found first. Duplicates are never merged, so
    that a table never changes a block that it has.
    """

    is_host = False
    """Whether the blocks are in the host's memory."""

    def __init__(
        self,
        num_gpu_blocks: int,
        rules: Rules,
        *,
        null_block: bool = False,
        several_groups: bool = False,
        events: bool = False,
        form: Form = MAPS,
        hash_block_size: int = 1,
    ) -> None:
        counts.whole("num_gpu_blocks", num_gpu_blocks, InvalidCountError, least=1 + int(null_block))
        if not isinstance(rules, Rules):
            raise InvalidSettingError(f"rules must be Rules, as `KV_2026_11` is, not {type(rules).__name__}")
        self.num_gpu_blocks = num_gpu_blocks
        self.rules = rules
        self.events: list[KVCacheEvent] | None = [] if events else None
        """Events that were not taken yet; None if events are off."""
        self.form = form
        self.hash_block_size = hash_block_size
        """Tokens of a block for which a request brings one hash."""
        self.several_groups = several_groups
        """Whether a key names the group of layers too."""
        self.blocks = [KVCacheBlock(number) for number in range(num_gpu_blocks)]
        self.free_block_queue = FreeKVCacheBlockQueue(self.blocks)
        self.registered = Registered()
        """Blocks that can be found."""
        self.host_pool: BlockPool | None = None
        """Blocks in the host's memory, if there are any: `free_blocks` takes them, too."""
        self.metrics_collector: Any = None
        """Always None: the lives of blocks are not sampled."""
        self._watched: dict[int, Callable[[KVCacheBlock], None]] = {}
        """What is called when the block of this number is taken."""
        self.lookahead = 0
        """Tokens behind a block that its hash covers, too."""
        self.hash_function: HashFunction = hash
        """Hashes the tokens of requests that bring no keys."""
        self.before_evicting: Callable[[KVCacheBlock], None] | None = None
        """What is done before a block is evicted by number; the manager unregisters what is behind it (C-KV-19)."""
        self.null_block: KVCacheBlock | None = None
        if null_block:
            self.null_block = self.free_block_queue.popleft()
            self.null_block.is_null = True

    # Finding --------------------------------------------------------------------------------------------------------

    @property
    def cached_block_hash_to_block(self) -> CachedBlocks:
        """Registered blocks by key and number."""
        return CachedBlocks(self.registered, self.forget)

    def find(self, key: Hashable, content: Content) -> KVCacheBlock | None:
        """The first block with this content that is registered under the key; None if there is none."""
        block, verified = self.registered.first.get(key), self.rules.verified
        if block is None or not verified or block._content is content or block.content is content:  # noqa: SLF001  # no call
            return block
        return next((one for one in self.registered.copies(key) if alike(one.content, content)), None)

    def copies(self, key: Hashable) -> Collection[KVCacheBlock]:
        """The blocks registered under a key, the first registered first."""
        return self.registered.copies(key)

    def get_cached_block(
        self, block_hash: Hashable, kv_cache_group_ids: Sequence[int] = (0,)
    ) -> list[KVCacheBlock] | None:
        """The first block with this hash in each of these groups of layers; None if a group has none.

        Compares hashes only. `allocate_slots` compares contents when a block is used as a hit (KV-7).
        """
        keys = [key_of(block_hash, group if self.several_groups else None) for group in kv_cache_group_ids]
        first = [block for key in keys if (block := next(iter(self.copies(key)), None)) is not None]
        return first if len(first) == len(keys) else None

    def register(self, block: KVCacheBlock, key: Hashable, content: Content) -> None:
        """Register the block: look-ups find it, after blocks registered earlier under the same key (KV-3)."""
        self._check_own(block)
        self._register_all((block,), (key,), (content,))

    def _register_all(
        self, blocks: Sequence[KVCacheBlock], keys: Sequence[Hashable], contents: Iterable[Content]
    ) -> None:
        """Register blocks of a table; none of them is registered."""
        assert keys_of(blocks).count(None) == len(blocks), "the block already has a hash"
        first_under = self.registered.first.setdefault
        for block, key, content in zip(blocks, keys, contents, strict=True):
            block._block_hash, block._content, block._position = key, content, UNPACKED  # noqa: SLF001  # no call
            if first_under(key, block) is not block:
                self.registered.again(key, block)

    def _register_packed(
        self, blocks: Sequence[KVCacheBlock], keys: Sequence[Hashable], packed: PackedPrefix, start: int
    ) -> None:
        """The same of blocks that have their contents in this object, from the position `start` on."""
        first_under, position = self.registered.first.setdefault, start
        for block, key in zip(blocks, keys, strict=True):
            block._block_hash, block._content, block._position = key, packed, position  # noqa: SLF001  # the same
            position += 1
            if first_under(key, block) is not block:
                self.registered.again(key, block)

    def _register_told(
        self, request: TokenRequest, blocks: Sequence[KVCacheBlock], links: Links, first: int, chains: Chains
    ) -> None:
        """Register the full blocks of a request from position `first` on, and report them.

        `links` are all of the request's up to the last of these blocks.
        """
        last = first + len(blocks)
        keys = chains.keys(links.hashes[first:last])
        told = self._untold(keys, first)
        self._register_all(blocks, keys, links.contents[first:last])
        for begin, end in told:
            before = links.hashes[begin - 1] if begin > 0 else None
            group, its, size = chains.group or 0, links[begin:end], chains.block_size
            self.kv_event_queue.append(stored(self.form, request, before, its, begin * size, size, group))

    def cache_full_blocks(
        self,
        request: TokenRequest,
        blocks: Sequence[KVCacheBlock],
        num_cached_blocks: int,
        num_full_blocks: int,
        block_size: int,
        kv_cache_group_id: int = 0,
        block_mask: Sequence[bool] | None = None,
    ) -> None:
        """Register the full blocks of a request from position `num_cached_blocks` to before `num_full_blocks`.

        A call of connectors, which fill blocks themselves and are responsible for the KV in them. `blocks`: all of the
        request's in one group of layers. Null blocks are left out, and those for which `block_mask` is false. Raises
        `InvalidCountError` for more blocks than are full, `ForeignBlockError`, and `StaleBlocksError` for a block that
        is registered. A call that raises registers nothing.
        """
        check_request(request)
        first = counts.whole("num_cached_blocks", num_cached_blocks, InvalidCountError, least=0)
        last = counts.whole("num_full_blocks", num_full_blocks, InvalidCountError, least=0)
        size = counts.whole("block_size", block_size, InvalidCountError, least=1)
        group = counts.whole("kv_cache_group_id", kv_cache_group_id, InvalidCountError, least=0)
        if size % self.hash_block_size or (group and not self.several_groups):
            raise InvalidCountError(f"there is no group {group} with blocks of {size} tokens")
        own = self.own(blocks)[first:last]
        if first >= last:
            return
        if last > min(len(blocks), len(request.all_token_ids) // size):
            raise InvalidCountError(f"num_full_blocks must be of full blocks that the request has, not {last}")
        mask: Any = [True] * len(own) if block_mask is None else block_mask
        if not isinstance(mask, Sequence) or len(mask) != len(own):
            raise InvalidCountError(f"block_mask must have {len(own)} values, and is {mask!r}")
        kept = [not block.is_null and bool(wanted) for block, wanted in zip(own, mask, strict=True)]
        if any(wanted and block.block_hash is not None for block, wanted in zip(own, kept, strict=True)):
            raise StaleBlocksError("a block is registered already")
        chains = Chains(
            size,
            self.hash_function,
            group if self.several_groups else None,
            self.hash_block_size,
            compared=self.rules.verified or self.rules.whole_prefixes,
            registered=self.registered,
            lookahead=self.lookahead,
        )
        links = chains.extended(request, Links(), last)
        for begin in [place for place, wanted in enumerate(kept) if wanted and not (place and kept[place - 1])]:
            run = list(takewhile(lambda place: kept[place], range(begin, len(own))))
            self._register_told(request, own[begin : run[-1] + 1], links, first + begin, chains)

    def evict_blocks(self, block_ids: Iterable[int]) -> None:
        """Unregister these blocks by number, also while requests hold them. Raises `ForeignBlockError`."""
        if isinstance(block_ids, str | bytes) or not isinstance(block_ids, Iterable):
            raise ForeignBlockError(f"block_ids must be several numbers, in a list or the like, not {block_ids!r}")
        for block in [self.block(number) for number in block_ids]:
            if self.before_evicting is not None:
                self.before_evicting(block)
            self.forget(block)

    def _untold(self, keys: Sequence[Hashable], first: int) -> list[tuple[int, int]]:
        """Of blocks from `first` on that are going to be registered, those to tell of: runs of keys without a block."""
        if self.events is None:
            return []
        if self.rules.told_by_copy:
            return [(first, first + len(keys))]
        told, seen = list[tuple[int, int]](), set[Hashable]()
        for position, key in enumerate(keys, first):
            if key in self.registered.first or key in seen:
                continue
            seen.add(key)
            begin = told.pop()[0] if told and told[-1][1] == position else position
            told.append((begin, position + 1))
        return told

    def forget(self, block: KVCacheBlock) -> None:
        """Unregister the block, on both sides of the map (KV-3). Does nothing if it is not registered."""
        self._check_own(block)
        if block.block_hash is not None:
            self._forget(block, block.block_hash)

    def _forget(self, block: KVCacheBlock, key: Hashable) -> None:
        left = self.registered.remove(key, block)
        if self.events is not None and (not left or self.rules.told_by_copy):
            block_hash, group = hash_of(key, several=self.several_groups)
            self.events.append(removed(self.form, block_hash, group))
        block._block_hash = block._content = None  # noqa: SLF001  # as `reset_hash`, without a call

    # References -----------------------------------------------------------------------------------------------------

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Add a reference to each block, and take referenced blocks out of the free queue (KV-2)."""
        self._touch_all(self.own(blocks))

    def _touch_all(self, blocks: Iterable[KVCacheBlock]) -> None:
        """The same of blocks of this pool that were looked at."""
        queue = self.free_block_queue
        for block in blocks:
            if block.ref_cnt == 0:  # as `queue.remove`, without a call
                before, after = block.prev_free_block, block.next_free_block
                if before is None or after is None:
                    raise FreeQueueError(f"block {block.block_id} is not in the free queue")
                before.next_free_block, after.prev_free_block = after, before
                block.prev_free_block = block.next_free_block = block._queue = None  # noqa: SLF001  # the queue's mark
                queue.num_free_blocks -= 1
            block.ref_cnt += 1

    def take(self) -> KVCacheBlock:
        """Take the next free block. If it is registered, it is evicted. Raises `NoFreeBlocksError`."""
        return self._take_all(1)[0]

    def _take_all(self, count: int) -> list[KVCacheBlock]:
        """Take the next `count` free blocks, as `take` does."""
        blocks = self.free_block_queue.popleft_n(count)
        if self._watched:
            self._tell_watchers(blocks)
        registered, plainly = self.registered, self.events is None and not self.registered.several
        first, registered.removals = registered.first, registered.removals + 1
        for block in blocks:
            key = block._block_hash  # noqa: SLF001  # as `block_hash`, without a call
            if key is not None:
                if plainly:
                    del first[key]
                    block._block_hash = block._content = None  # noqa: SLF001  # as `_forget`, without a call
                else:
                    self._forget(block, key)
            block.ref_cnt += 1
        return blocks

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        """Take the next free blocks, each with one reference. Raises `NoFreeBlocksError` if there are fewer."""
        count = counts.whole("num_blocks", num_blocks, NoFreeBlocksError, least=0, most=self.get_num_free_blocks())
        return self._take_all(count)

    def let_go(self, block: KVCacheBlock) -> None:
        """Remove a reference; a block without references becomes free (KV-11)."""
        self._check_held((block,))
        self._let_go(block)

    def _check_held(self, blocks: Iterable[Any]) -> list[KVCacheBlock]:
        """Raises `FreeQueueError` for a block without references and for the null block."""
        own = self.own(blocks)
        for block in own:
            if block.is_null or block.ref_cnt < 1:
                raise FreeQueueError(f"block {block.block_id} is in no table, and cannot be given back")
        return own

    def _let_go(self, block: KVCacheBlock) -> None:
        block.ref_cnt -= 1
        if block.ref_cnt > 0:
            return
        if self.rules.unhashed_first and block.block_hash is None:
            self.free_block_queue.prepend(block)
        else:
            self.free_block_queue.append(block)

    def release(self, blocks: Sequence[KVCacheBlock]) -> None:
        """Remove the references of a whole table, so that its last blocks are evicted first (KV-11)."""
        blocks = self._check_held(blocks)
        if len({*blocks}) < len(blocks):
            raise FreeQueueError(f"a table has each block once: {[block.block_id for block in blocks]}")
        self._release(blocks)

    def _release(self, blocks: Sequence[KVCacheBlock]) -> None:
        """The same of blocks that are a table's, so each is held and there once."""
        keys = [block._block_hash for block in blocks]  # noqa: SLF001  # as `block_hash`, without a call
        if None in keys and self.rules.unhashed_first:
            for block, key in zip(blocks, keys, strict=True):
                if key is None:
                    self._let_go(block)
            blocks = [block for block, key in zip(blocks, keys, strict=True) if key is not None]
        self.free_block_queue._append_released(reversed(blocks))  # noqa: SLF001  # a pool's own

    def free_blocks(self, ordered_blocks: Iterable[Any]) -> None:
        """Remove the references of blocks that `pop_blocks_for_free` has given, in reverse order."""
        host_pool, blocks = self.host_pool, ordered_blocks
        if host_pool is not None:
            given = list(ordered_blocks)
            host_pool.free_blocks([block for block in given if host_pool.is_mine(block)])
            blocks = [block for block in given if not host_pool.is_mine(block)]
        held = [block for block in self.own(blocks) if block is not self.null_block]
        self.release(held[::-1])

    def unpin_blocks(self, blocks: Iterable[KVCacheBlock], on_reuse: Callable[[KVCacheBlock], None]) -> None:
        """Remove a reference of blocks that are read until they are taken; then `on_reuse` is called with the block.

        Free ones become the last of the queue, in this order. Raises `FreeQueueError` for a block without references.
        """
        held = self._check_held(blocks)
        freed = list[KVCacheBlock]()
        for block in held:
            block.ref_cnt -= 1
            self._watched[block.block_id] = on_reuse
            if block.ref_cnt == 0:
                freed.append(block)
        self.free_block_queue.append_n(freed)

    def _tell_watchers(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            on_reuse = self._watched.pop(block.block_id, None)
            if on_reuse is not None:
                on_reuse(block)

    # Asking ---------------------------------------------------------------------------------------------------------

    def own(self, blocks: Iterable[Any]) -> list[KVCacheBlock]:
        """The caller's blocks as a list. Raises `ForeignBlockError` unless all are blocks of this pool."""
        if not isinstance(blocks, Iterable):
            raise ForeignBlockError(f"blocks must be several of this pool, in a list or the like, not {blocks!r}")
        brought = list(blocks)
        try:
            mine = self.blocks
            if all(map(is_, [mine[block.block_id] for block in brought], brought)):
                return brought
        except (AttributeError, IndexError, TypeError):
            pass  # the check names the block
        for block in brought:
            self._check_own(block)
        return brought

    def is_mine(self, block: Any) -> bool:
        """Whether this is a block of this pool."""
        number = getattr(block, "block_id", None)
        return isinstance(number, int) and 0 <= number < len(self.blocks) and self.blocks[number] is block

    def _check_own(self, block: Any) -> None:
        """Raises `ForeignBlockError` for anything but a block of this pool."""
        if not self.is_mine(block):
            raise ForeignBlockError(f"blocks must be of this pool, as it has given them, and {block!r} is not")

    def block(self, number: Any) -> KVCacheBlock:
        """The block of this number. Raises `ForeignBlockError`."""
        return self.blocks[
            counts.whole("the number of a block", number, ForeignBlockError, least=0, most=len(self.blocks) - 1)
        ]

    def get_num_free_blocks(self) -> int:
        """The number of free blocks."""
        return self.free_block_queue.num_free_blocks

    @property
    def num_held_blocks(self) -> int:
        """The number of blocks in tables; the null block is in none."""
        return self.num_gpu_blocks - self.get_num_free_blocks() - int(self.null_block is not None)

    def get_usage(self) -> float:
        """The fraction of blocks in tables, from 0 to 1; the null block does not count."""
        return self.num_held_blocks / (self.num_gpu_blocks - int(self.null_block is not None))

    def reset_prefix_cache(self) -> bool:
        """Unregister all blocks. Returns False and changes nothing while a request holds a block."""
        if self.num_held_blocks > 0:
            return False
        self._tell_watchers([self.blocks[number] for number in self._watched])
        for block in self.blocks:
            block.reset_hash()
        self.registered.clear()
        if self.events is not None:
            self.events.append(self.form.cleared())
        return True

    @property
    def kv_event_queue(self) -> list[KVCacheEvent]:
        """Events that were not taken yet."""
        return [] if self.events is None else self.events

    def take_events(self) -> list[KVCacheEvent]:
        """Events since the last call, in order; none if events are off."""
        if self.events is None:
            return []
        taken = self.events.copy()
        self.events.clear()  # the host's pool has the same list
        return taken
