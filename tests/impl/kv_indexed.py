"""A pool with its index and the specification's pool, side by side."""

from __future__ import annotations

import torch
from tests.impl.kv_bursts import Sides, row_of
from torch import Tensor

from cacheimpl import kv_blocks as tensors
from cacheimpl.kv_blocks.index import Index, above, index_of, settle
from cacheimpl.kv_blocks.prefix import NEVER
from cacheimpl.writing import IN_PLACE
from cacheproof.tensor_models.kv_blocks import decode
from cachespec.kv_blocks import NORMATIVE_KV_BLOCKS, Config


class IndexedSides(Sides):
    """`Sides` whose tensors are those of `IndexedServing`; history is kept by nobody."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, IN_PLACE)
        self.passes = 0
        """How many look-ups had to pass over all blocks."""

    def start(self) -> tensors.Pool:
        self.engine = tensors.IndexedServing(self.tables, self.config.blocks)
        return self.engine.pool

    @property
    def pool(self) -> tensors.Pool:
        """Of the engine."""
        return self.engine.pool

    @pool.setter
    def pool(self, pool: tensors.Pool) -> None:
        self.engine.pool = pool

    def agree(self) -> None:
        """The whole states are equal but for history, and the index says what one says that is made anew."""
        ours = decode(self.config, row_of(self.pool))._replace(bytes=self.spec.bytes)
        assert NORMATIVE_KV_BLOCKS.view(self.config, ours) == NORMATIVE_KV_BLOCKS.view(self.config, self.spec)
        rows = torch.arange(tensors.nobody(self.pool))
        settled = settle(self.pool, self.engine._index, rows, 1000)
        same_index(self.pool, settled, index_of(self.tables, self.pool))
        assert bool((self.engine._marks == NEVER).all())

    def found(self, requests: Tensor, tokens: Tensor) -> tensors.Hits:
        before = self.engine._index.first
        hits = self.engine.get_computed_blocks(requests, tokens)
        self.passes += self.engine._index.first is not before
        return hits

    def admitted(self, requests: Tensor, computed: Tensor, tokens: Tensor, hits: tensors.Hits) -> tensors.Slots:
        return self.engine.admit(requests, computed, tokens, hits, width=self.positions)

    def let_go(self, name: str, requests: Tensor) -> Tensor:
        codes: Tensor = getattr(self.engine, name)(requests)
        return codes

    def forgotten(self, name: str, *blocks: Tensor) -> Tensor:
        codes: Tensor = getattr(self.engine, name)(*blocks)
        return codes


def same_index(pool: tensors.Pool, ours: Index, anew: Index) -> None:
    """All that is read is equal; the least key may be one of a copy that is gone, and then it is less."""
    counted = anew.copies >> above(pool) > 0
    counted[-1] = False
    assert torch.equal(ours.counted[:-1], anew.counted[:-1])
    assert torch.equal(ours.copies[:-1], anew.copies[:-1])
    assert bool((ours.first <= anew.first)[counted].all())
    assert torch.equal(ours.settled[:-1], anew.settled[:-1])
    free = (pool.references == 0)[:-1]
    assert torch.equal(ours.places[:-1][free], anew.places[:-1][free])
