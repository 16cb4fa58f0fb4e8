"""The pool of a serving engine with an index: for large pools on a CPU, where a pass over all blocks is slow."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.counts import whole
from cacheimpl.kv_blocks import admission, prefix, slots
from cacheimpl.kv_blocks.index import (
    MOST_BLOCKS,
    adopted,
    distances,
    index_of,
    look_up,
    placed,
    refreshed,
    released,
    settle,
    waiting,
)
from cacheimpl.kv_blocks.serving import BurstError, Serving
from cacheimpl.kv_blocks.state import Config, nowhere
from cacheimpl.writing import SERVING


class IndexedServing(Serving):
    """`Serving` with look-ups, admissions and releases whose cost depends on the burst, not on the size of the pool.

    These calls read counts back to the host, so they cannot be captured. `decode`, `allocate_slots` and `commit` are
    those of `Serving` and leave the index alone; other code may change `pool` by these three functions only. The calls
    still pass over all blocks if the first of several duplicates is gone, for evictions by number, and for resets.

    Raises `BurstError` also for more than 2,097,151 blocks.
    """

    _marks: Tensor

    def __init__(self, config: Config, blocks: int, *, checked: bool = True) -> None:
        whole("blocks", blocks, BurstError, least=1, most=MOST_BLOCKS)
        super().__init__(config, blocks, checked=checked)
        self._index = index_of(config, self.pool)
        self._marks = torch.full_like(self.pool.references, prefix.NEVER)
        self._rows = torch.arange(self.pool.blocks.shape[0] - 1, device=self.pool.blocks.device)

    def get_computed_blocks(self, requests: Tensor, tokens: Tensor) -> prefix.Hits:
        """The longest cached prefix of each request. Updates the index only."""
        self._look_at(requests, tokens)
        self._settle(self._rows)
        looked_up = look_up(self.config, self.pool, self._index, requests, tokens)
        if not bool(looked_up.certain.all()):
            self._index = refreshed(self.config, self.pool, self._index)
            looked_up = look_up(self.config, self.pool, self._index, requests, tokens)
        return looked_up.hits

    def admit(
        self, requests: Tensor, computed: Tensor, tokens: Tensor, hits: prefix.Hits, *, width: int
    ) -> slots.Slots:
        """Allocate slots behind hits. Hits leave the free queue from the end that is nearer to all of them."""
        self._look_at_admissions(requests, computed, tokens, hits, width)
        self._settle(self._rows)
        front, back = (min(cells, nowhere(self.pool)) for cells in distances(self.pool, self._index, hits).tolist())
        behind = back < front
        reach = admission.Reach(self._index.places, back if behind else front, behind, self._marks)
        after, given = admission.admit(
            self.config, self.pool, requests, computed, tokens, hits, width=width, reach=reach, write=SERVING
        )
        self._keep(after)
        ends = (0, reach.cells) if behind else (reach.cells, 0)
        self._index = placed(self.pool, adopted(self.pool, self._index, requests, SERVING), *ends, SERVING)
        return given

    def free_request(self, requests: Tensor) -> Tensor:
        """Release finished requests. Returns the code of each turn."""
        self._look_at(requests)
        self._settle(requests)
        codes = super().free_request(requests)
        self._index = released(self.pool, self._index, requests, SERVING)
        return codes

    def withdraw(self, requests: Tensor) -> Tensor:
        """Release requests whose steps were not executed. Returns the code of each turn."""
        self._look_at(requests)
        self._settle(requests)
        codes = super().withdraw(requests)
        self._index = released(self.pool, self._index, requests, SERVING)
        return codes

    def evict_block(self, block: Tensor) -> Tensor:
        """Unregister a block. Returns the code."""
        code = super().evict_block(block)
        self._index = index_of(self.config, self.pool)
        return code

    def evict_blocks(self, blocks: Tensor) -> Tensor:
        """Unregister blocks, one after the other. Returns the code of each turn."""
        codes = super().evict_blocks(blocks)
        self._index = index_of(self.config, self.pool)
        return codes

    def reset_prefix_cache(self) -> Tensor:
        """Unregister all blocks. Returns the code."""
        code = super().reset_prefix_cache()
        self._index = index_of(self.config, self.pool)
        return code

    def _settle(self, requests: Tensor) -> None:
        """Index the blocks of these tables that were reallocated or are not full yet."""
        most = int(waiting(self.pool, self._index, requests))
        if most:
            self._index = settle(self.pool, self._index, requests, most, SERVING)
