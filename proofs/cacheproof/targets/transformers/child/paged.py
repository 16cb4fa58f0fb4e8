"""The release's paged cache with prefix sharing, in the order of the calls of its scheduler and batch processor.

A request is looked up and takes what was found; room is asked for, and where there is none, what nobody uses is
evicted, and it is asked for once more; when its step was executed, the blocks that it completed are registered, and
those that are there already replaced; at its end its table is freed. Requests are lists of tokens: each full page has
tokens that name its content.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
from driver.calls import (  # type: ignore[import-not-found]  # of the driver for vLLM, on the child's path only
    DONE,
    MISS,
    Calls,
    Reply,
    operations_of,
)
from requests_in_pages import (  # type: ignore[import-not-found]  # of all such drivers, likewise
    REFUSED,
    SMALLEST,
    tokens_of,
)

BATCHING = "transformers.generation.continuous_batching"
ALIGNMENT = 128
"""Bytes of the smallest sector: blocks are made so small that the sectors have as many as they should."""


def made_cache(page_size: int, blocks: int, blocks_per_sector: int, token_budget: int = 1, sharing: int = 1) -> Any:
    """A cache on the CPU for a model of one layer of full attention, whose keys and values are 64-bit integers."""
    width = ALIGNMENT // (2 * torch.int64.itemsize * page_size * blocks_per_sector)
    model = SimpleNamespace(
        num_hidden_layers=1, num_attention_heads=1, head_dim=width, hidden_size=width, vocab_size=1, layer_types=None
    )
    settings = SimpleNamespace(
        page_size=page_size,
        num_blocks=blocks,
        max_batch_tokens=token_budget,
        max_memory_percent=0.9,
        max_requests_per_batch=1,
        max_blocks_per_request=0,
        fallback_max_blocks_per_request=0,
        allow_block_sharing=bool(sharing),
        return_logprobs=False,
        use_async_batching=False,
    )
    helper = importlib.import_module(f"{BATCHING}.distributed").DistributedHelper(None, None)
    return importlib.import_module(f"{BATCHING}.cache").PagedAttentionCache(
        model, settings, torch.device("cpu"), helper, dtype=torch.int64
    )


class PagedDriver:
    """One cache with one allocator, that of full attention. Its blocks are numbered from 1 here."""

    def __init__(self, calls: Calls) -> None:
        self._requests = importlib.import_module(f"{BATCHING}.requests")
        importlib.import_module(f"{BATCHING}.scheduler")
        self.reset(SMALLEST)
        self.operations = operations_of(self, calls)

    def reset(self, config: Mapping[str, Any]) -> None:
        """A new cache of so many blocks, and the tokens of each request."""
        self._size = config["block_size"]
        self._cache = made_cache(self._size, config["blocks"], config.get("blocks_per_sector", 1))
        (self._allocator,) = self._cache.cache_allocators.values()
        self._first = self._cache.pool.num_reserved_sectors * self._allocator.blocks_per_sector - 1
        self._keys = tokens_of(config)
        self._states: dict[int, Any] = {}
        self._completed: dict[int, Mapping[str, int]] = {}

    def observe(self) -> dict[str, Any]:
        """Blocks, ascending; and what the release itself counts, in slots."""
        pool, ledger = self._cache.pool, self._allocator.ledger
        each = self._allocator.blocks_per_sector
        free = [sector * each + place for sector in pool.free_sectors for place in range(each)]
        trees = pool._free_blocks[self._allocator.index].trees
        free += [block for tree in trees.values() for block in tree]
        capacity = self._cache.compute_free_capacity(relative=False) // self._allocator.bytes_per_block
        return {
            "free": sorted(self._numbered(free)),
            "cached": sorted(self._numbered(ledger.block_to_hash)),
            "evictable": len(ledger.cached_blocks) * self._size,
            "protected": (len(ledger.hash_to_block) - len(ledger.cached_blocks)) * self._size,
            "available": int(capacity) * self._size,
        }

    def _numbered(self, blocks: Any) -> tuple[int, ...]:
        return tuple(block - self._first for block in blocks)

    def _table(self, request: str) -> tuple[int, ...]:
        return self._numbered(self._allocator.block_table[request])

    def do_lookup(self, request: int) -> Reply:
        """Nothing is taken."""
        found = self._allocator.match_prefix_blocks(self._keys[request])
        return Reply("hit", self._numbered(found)) if found else MISS

    def do_admit(self, request: int) -> Reply:
        """What was found is taken, and room for the rest."""
        tokens = self._keys[request]
        state = self._requests.RequestState(str(request), tokens)
        state.position_offset = self._cache.search_prefix_match(state.request_id, tokens)
        missing = len(tokens) - state.position_offset
        if not self._cache.can_store_request_tokens(state, missing):
            self._cache.evict_cached_blocks()
            self._cache.pool.try_to_free_sectors()
            if not self._cache.can_store_request_tokens(state, missing):
                self._cache.free_blocks(state.request_id)
                return REFUSED
        self._states[request] = state
        self._completed[request] = self._cache.count_new_complete_blocks(state, missing)
        return Reply("done", self._table(state.request_id))

    def do_commit(self, request: int) -> Reply:
        """Blocks that are full are registered."""
        state = self._states[request]
        state.position_offset = len(self._keys[request])
        self._cache.mark_complete_blocks(state, self._completed.pop(request))
        return Reply("done", self._table(state.request_id))

    def do_finish(self, request: int) -> Reply:
        """Its table is freed."""
        self._cache.free_blocks(self._states.pop(request).request_id)
        return DONE
