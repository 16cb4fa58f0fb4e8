"""Requests that bring keys and depend on tokens only: no object is made for a block.

Look-ups and admissions are of one group of full attention. Several groups, windows among them, register blocks so.

Each method does what the general one does. It returns None or False, and changes nothing, if the call needs more or
has to be refused; the caller then uses the general path.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import repeat, takewhile
from operator import add
from typing import Any

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock, keys_of
from cacheimpl.kv_cache_manager.contents import WIDTH, is_plain, packed
from cacheimpl.kv_cache_manager.finding import Holding, PackedLookUp
from cacheimpl.kv_cache_manager.packed_prefix import PackedPrefix, are_leading, packed_of
from cacheimpl.kv_cache_manager.progress import executed_of
from cacheimpl.kv_cache_manager.reach import Kind
from cacheimpl.kv_cache_manager.rules import Register
from cacheimpl.kv_cache_manager.tables import Tables
from cacheimpl.request import ComputedRequest


class PackedTables(Tables):
    """Tables of layers that read tokens, with contents in one buffer for each prefix."""

    def found_packed(self, request: ComputedRequest) -> list[KVCacheBlock] | None:
        """The blocks of the longest cached prefix of the request, compared with its tokens at once (KV-7)."""
        given: Any = getattr(request, "block_hashes", None)
        tokens: Any = getattr(request, "all_token_ids", None)
        if type(given) is not list or not hasattr(tokens, "__len__") or getattr(request, "request_id", None) is None:
            return None
        chains, rules, count = self.chains, self.rules, len(tokens) - self.rules.leaves_a_token
        count //= self.block_size
        if chains.group is not None or chains.lookahead or self.drops_last:
            return None
        if count < 1 or len(given) < count * chains.scale or not is_plain(request):
            return None
        registered, one = self.pool.registered, given[chains.scale - 1]
        if type(one) is bytes and one + chains.ending not in registered.first:
            return []
        hashes, keys = self._brought(given, 0, count)
        blocks: list[Any] = list(map(registered.first.get, keys))
        if not all(blocks):  # a block is true, and no block is None
            blocks = list(takewhile(bool, blocks))
        found = len(blocks)
        if not found:
            return None
        its = packed_of(blocks[-1])
        if its is None or not are_leading(blocks, its):
            return None
        if rules.verified or rules.whole_prefixes:
            data = packed(tokens[: found * self.block_size])
            if data is None or not its.begins_with(data, found):
                return None
        self.looked_up = PackedLookUp(request, its, hashes[:found], blocks, keys, registered.removals)
        return blocks.copy()

    def admit_packed(
        self,
        request: ComputedRequest,
        tokens: int,
        hits: Sequence[KVCacheBlock],
        lookahead: int,
        reserved: int,
        watermark: int,
        whole: bool,  # noqa: FBT001  # as the caller has it
    ) -> list[KVCacheBlock] | None:
        """Slots for a new request, behind the hits of its look-up; the new blocks."""
        name, pool, size = getattr(request, "request_id", None), self.pool, self.block_size
        computed, everything = getattr(request, "num_computed_tokens", None), getattr(request, "all_token_ids", None)
        total = len(everything) if everything is not None and hasattr(everything, "__len__") else 0
        count, end, longest = len(hits), len(hits) * size + tokens, self.longest
        if not total or type(computed) is not int or computed or tokens <= 0 or end > longest or not self.caching:
            return None
        if name is None or name in self.holdings:
            return None
        given = getattr(request, "block_hashes", None) or ()
        if len(given) < min(end, total) // size * self.chains.scale:
            return None
        holding, room = Holding(request, list(hits), count, count * size, end), pool.free_block_queue.num_free_blocks
        if count:
            seen, blocks = self.looked_up, holding.blocks
            if type(seen) is not PackedLookUp or seen.request is not request or seen.blocks[:count] != blocks:
                return None
            its = seen.packed if count == len(seen.blocks) else packed_of(blocks[-1])
            if its is None or not self._are_as_seen(blocks, its, seen):
                return None
            holding.packed, holding.hashes = its, seen.hashes[:count]
            room -= [block.ref_cnt for block in blocks].count(0)
        needed = -(-min(end + lookahead, longest) // size) - count
        if needed > room - watermark - reserved:
            return None
        if whole and -(-min(total, longest) // size) - count > room - watermark:
            return None
        if count:
            pool._touch_all(hits)  # noqa: SLF001  # a table's own
        self.req_to_blocks[name], self.holdings[name] = holding.blocks, holding
        fresh = pool._take_all(needed)  # noqa: SLF001  # the same
        holding.blocks += fresh
        if self.records_new_block_ids:
            self.new_block_ids.extend(block.block_id for block in fresh)
        if self.rules.register is Register.SCHEDULED:
            self.register_holding(request, holding, end)
        return fresh

    def _are_as_seen(self, blocks: Sequence[KVCacheBlock], its: PackedPrefix, seen: PackedLookUp) -> bool:
        """Whether these first blocks of a look-up are registered under the same keys, with the same contents."""
        keys = keys_of(blocks)
        if seen.removals == self.pool.registered.removals:
            return all(keys)  # nothing else can have changed: a block itself can be made to drop its key
        return keys == seen.keys[: len(blocks)] and are_leading(blocks, its)

    def register_holding(self, request: ComputedRequest, holding: Holding, tokens: int) -> None:
        """Register the full blocks of the first `tokens` tokens (see `Execution.register`)."""
        if not self._register_packed(request, holding, tokens):
            super().register_holding(request, holding, tokens)

    def commit(self, request: ComputedRequest, computed: int) -> None:
        """The request's tokens before `computed` are written: what they fill can be found (see `Execution.commit`)."""
        holding = self.holdings.get(getattr(request, "request_id", ""))
        if holding is None or not self._commit_packed(request, holding, computed):
            super().commit(request, computed)

    def _commit_packed(self, request: ComputedRequest, holding: Holding, computed: int) -> bool:
        if holding.request is not request or not holding.computed <= computed <= holding.scheduled:
            return False
        if not self.caching or self.rules.register is Register.SCHEDULED:
            return False
        if not self._register_packed(request, holding, computed):
            return False
        holding.computed, holding.loads = computed, False
        return True

    def finish(self, request: ComputedRequest) -> bool:
        """The request has no table any more; what was executed of it is registered before."""
        name: Any = getattr(request, "request_id", None)
        holding = None if name is None else self.holdings.get(name)
        if holding is None or holding.request is not request or holding.loads:
            return False
        computed, ahead = getattr(request, "num_computed_tokens", None), getattr(request, "num_in_flight_tokens", None)
        executed = computed - ahead if type(computed) is type(ahead) is int and ahead >= 0 else executed_of(request)
        if self.rules.register is Register.PASSED and holding.computed < executed <= holding.scheduled:
            self.commit(request, executed)
        self.release(name)
        return True

    def _register_packed(self, request: ComputedRequest, holding: Holding, tokens: int) -> bool:
        given: Any = getattr(request, "block_hashes", None)
        if type(given) is not list or self.chains.lookahead or self.pool.events is not None:
            return False
        begin, size, rules, reads_all = holding.registered, self.block_size, self.rules, self.reach.kind is Kind.FULL
        if self.alignment != size or self.drops_last:
            return False
        if not reads_all and (self.retention is not None or rules.aligned):
            return False
        full = min(min(tokens, len(request.all_token_ids)) // size, len(holding.blocks))
        if rules.register is Register.SCHEDULED and given:
            full = min(full, len(given) // self.chains.scale)
        if full <= begin:
            return True
        fresh, is_packed = holding.blocks[begin:full], not holding.is_listed and len(holding.hashes) == begin
        if not is_packed or len(given) < full * self.chains.scale or not is_plain(request):
            return False
        if begin and reads_all and rules.whole_prefixes and holding.blocks[begin - 1].block_hash is None:
            return False
        if not reads_all and self.pool.null_block in fresh:
            return False
        hashes, keys = self._brought(given, begin, full)
        data = packed(request.all_token_ids[begin * size : full * size])
        if data is None or not keys or keys_of(fresh).count(None) != len(fresh):
            return False
        its = self._packed_behind(request, holding.packed, begin, data, keys[-1])
        self.pool._register_packed(fresh, keys, its, begin)  # noqa: SLF001  # the same
        holding.packed_further(its, hashes)
        holding.registered = full
        return True

    def _brought(self, given: list[Any], begin: int, end: int) -> tuple[list[Hashable], list[bytes]]:
        """The hashes and keys of these full blocks, as a request brings them; no keys if they are not bytes."""
        scale = self.chains.scale
        hashes = given[begin:end] if scale == 1 else given[(begin + 1) * scale - 1 : end * scale : scale]
        try:
            return hashes, list(map(add, hashes, repeat(self.chains.ending)))
        except TypeError:
            return hashes, []

    def _packed_behind(
        self, request: ComputedRequest, before: PackedPrefix | None, start: int, data: bytes, key: bytes
    ) -> PackedPrefix:
        """An object that has these tokens behind those of `before`.

        That of a registered block, or of the request's table in another group, if one has them.
        """
        block, beside = self.pool.registered.first.get(key), self.holding_beside(request)
        for its in (None if block is None else packed_of(block), None if beside is None else beside.packed):
            if its is not None and its.has(before, start, data):
                return its
        if before is None:
            return PackedPrefix(None, 0, data, self.block_size * WIDTH)
        return before.followed_by(start, data)
