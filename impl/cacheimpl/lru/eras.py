"""`put` of an earlier era, on request: eviction begins before pinned entries are checked for room.

Both turn the cache over to whoever calls again half evicted, where all that is left is pinned (C-LRU-1). They are held
to the eras `M3` and `stale-growth` of the specification's `lru`; the era of ghosts has a state of its own (`ghosts`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.answer import Code, answer, either
from cacheimpl.lru.operations import Result, present, removed, stored
from cacheimpl.lru.state import Cache, Config
from cacheimpl.recency import oldest_until
from cacheimpl.table import choose, is_row, row


def put_until_pinned(config: Config, cache: Cache, key: Tensor, size: Tensor) -> Result:
    """As 0.20.2 and 0.33.0 (`M3`): where what is pinned leaves too little room, everything else is evicted first."""
    need = cache.used - row(cache.sizes, key) + size - config.capacity
    gains = torch.where(is_row(cache.sizes, key), 0, cache.sizes)
    return _put_after_evicting(config, cache, key, size, need=need, gains=gains)


def put_counting_twice(config: Config, cache: Cache, key: Tensor, size: Tensor) -> Result:
    """As with cachetools up to 7.1.6 (`stale-growth`): a key that grows counts with its old size too (C-LRU-2)."""
    grows = ~present(cache, key) | (row(cache.sizes, key) < size)
    need = torch.where(grows, cache.used + size - config.capacity, 0)
    return _put_after_evicting(config, cache, key, size, need=need, gains=cache.sizes)


def _put_after_evicting(
    config: Config, cache: Cache, key: Tensor, size: Tensor, *, need: Tensor, gains: Tensor
) -> Result:
    """The oldest that are not pinned go until their gains ([keys] int64) meet the need, or none is left."""
    leaving = oldest_until(cache.ranks, ~cache.pinned, gains, need)
    evicted, fits = removed(cache, leaving), torch.where(leaving, gains, 0).sum() >= need
    never = size > config.capacity
    after = choose(fits, stored(evicted, key, size), evicted)
    code = torch.where(never, int(Code.TOO_LARGE), either(fits, Code.DONE, Code.FAILED))
    return choose(never, cache, after), answer(code)
