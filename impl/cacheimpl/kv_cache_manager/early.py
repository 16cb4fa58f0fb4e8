"""The calls of `KVCacheManager` until 0.7: made from block counts, with `append_slots` for running requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cacheimpl.kv_cache_manager.blocks import FreeKVCacheBlockQueue, KVCacheBlock
from cacheimpl.kv_cache_manager.cached import CachedBlocks
from cacheimpl.kv_cache_manager.common import CommonCalls, check_running, several
from cacheimpl.kv_cache_manager.contents import HashFunction, Links, check_request
from cacheimpl.kv_cache_manager.progress import executed_of, tokens_of
from cacheimpl.kv_cache_manager.rules import NORMATIVE, Register, Rules
from cacheimpl.kv_cache_manager.sizes import at_least, blocks_for, whole
from cacheimpl.kv_cache_manager.slots import Demand
from cacheimpl.request import ComputedRequest


class EarlyCalls(CommonCalls):
    """The calls of `EarlyKVCacheManager`."""

    def __init__(
        self,
        block_size: int,
        num_gpu_blocks: int,
        max_model_len: int,
        sliding_window: int | None = None,
        enable_caching: bool = True,  # noqa: FBT001, FBT002  # the released signature
        num_preallocate_tokens: int = 64,
        log_stats: bool = False,  # noqa: FBT001, FBT002  # the released signature
        *,
        rules: Rules = NORMATIVE,
        hash_function: HashFunction = hash,
    ) -> None:
        self._begin(
            block_size,
            num_gpu_blocks,
            max_model_len,
            enable_caching=enable_caching,
            rules=rules,
            hash_function=hash_function,
            null_block=False,
        )
        self.sliding_window, self.log_stats = sliding_window, log_stats
        self.num_preallocate_tokens = at_least("num_preallocate_tokens", num_preallocate_tokens, 0)
        self.num_preallocate_blocks = blocks_for(self.num_preallocate_tokens, self.block_size)
        self.max_num_blocks_per_req = self._tables.widest()

    @property
    def block_pool(self) -> list[KVCacheBlock]:
        """All blocks, by number."""
        return self._pool.blocks

    @property
    def free_block_queue(self) -> FreeKVCacheBlockQueue:
        """Free blocks, the next one first."""
        return self._pool.free_block_queue

    @property
    def cached_block_hash_to_block(self) -> CachedBlocks:
        """Registered blocks, by key and block number."""
        return self._pool.cached_block_hash_to_block

    def get_computed_blocks(self, request: ComputedRequest) -> tuple[list[KVCacheBlock], int]:
        """The blocks of the longest cached prefix, and their number of tokens; at least one token is left to compute.

        If the request has `set_kv_block_hashes`, it is called with the keys of the request's full blocks.
        """
        check_request(request)
        if not self.enable_caching:
            return [], 0
        (hits,), _, _ = self._found(request)
        self._stats.record(len(request.all_token_ids) // self.block_size, len(hits))
        self._tell_hashes(request)
        return hits, len(hits) * self.block_size

    def allocate_slots(
        self,
        request: ComputedRequest,
        num_tokens: int,
        computed_blocks: Sequence[KVCacheBlock] | None = None,
        *,
        new_computed_blocks: Sequence[KVCacheBlock] | None = None,
    ) -> list[KVCacheBlock] | None:
        """Allocate slots for `num_tokens` more tokens, behind the hits of a new request.

        Returns the new blocks, preallocated ones included; None if the pool lacks room. Raises `InvalidCountError` for
        a count that is not positive, `TooManyTokensError`, `AlreadyAllocatedError`, `StaleCountError`,
        `StaleBlocksError`, `ForeignBlockError`, `RequestMismatchError`.
        """
        for brought in (computed_blocks, new_computed_blocks):
            several("computed_blocks", () if brought is None else brought)
        hits = computed_blocks if computed_blocks is not None else new_computed_blocks
        demand = Demand(
            computed=tokens_of(request),
            executed=executed_of(request),
            tokens=whole("num_tokens", num_tokens),
            preallocated=self.num_preallocate_blocks,
        )
        fresh = self._allocated(request, demand, [hits or ()])
        return None if fresh is None else fresh[0]

    def append_slots(self, request: ComputedRequest, num_tokens: int) -> list[KVCacheBlock] | None:
        """Allocate slots for `num_tokens` more tokens of a request that has a table, as `allocate_slots` does.

        Under the rules of an era none are allocated for no tokens; normatively that is an `InvalidCountError`. Raises
        `UnknownRequestError`, a `KeyError`, if the request has no table.
        """
        check_request(request)
        self._tables.known(request)
        if self.rules.register is Register.SCHEDULED and whole("num_tokens", num_tokens) == 0:
            return []
        fresh = self.allocate_slots(request, num_tokens)
        if fresh is not None and self.enable_caching:
            self._tell_hashes(request)
        return fresh

    def get_num_common_prefix_blocks(
        self, request: ComputedRequest, num_running_requests: int, *, running: Iterable[str] | None = None
    ) -> int:
        """The number of leading blocks that all running requests share.

        `running`: the ids of the running requests. Without it all tables are compared: then a finished request that
        still holds blocks can lower the result, and never raises it. Raises `UnknownRequestError`, `NotRunningError`,
        `InvalidCountError`.
        """
        count = at_least("num_running_requests", num_running_requests, 1)
        check_request(request)
        self._tables.known(request)
        check_running(request)
        return self._common_prefix(request.request_id, running, count)[0]

    def free_block_hashes(self, request: ComputedRequest) -> None:
        """Does nothing: no hashes are kept of a request without a table. A call of 0.7.3."""

    def _tell_hashes(self, request: ComputedRequest) -> None:
        """Give the request the keys of its full blocks, if it keeps them."""
        keeper: Any = request
        if hasattr(keeper, "set_kv_block_hashes"):
            full = self._tables.chains.full_blocks(request, len(request.all_token_ids))
            keys = self._tables.chains.keys(self._tables.chains.extended(request, Links(), full).hashes)
            if list(keeper.kv_block_hashes) != keys:
                keeper.set_kv_block_hashes(keys)
