"""The state of the byte-weighted cache, and its layout."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.layout import Field, Layout
from cacheimpl.recency import OUTSIDE


class Config(NamedTuple):
    """What does not change."""

    capacity: Tensor
    """[] int64, bytes"""


class Cache(NamedTuple):
    """Keys are rows. A key is in the cache exactly where its rank is not negative."""

    ranks: Tensor
    """[keys] int32: 0 is the oldest, -1 is absent"""
    sizes: Tensor
    """[keys] int64, bytes: 0 where absent"""
    pinned: Tensor
    """[keys] bool: cannot be evicted"""
    used: Tensor
    """[] int64, bytes: the sum of the sizes (derived)"""
    hits: Tensor
    """[] int64: look-ups that found their key"""
    total: Tensor
    """[] int64: counted look-ups"""
    reported_hits: Tensor
    """[] int64: hits at the time of the last report"""
    reported_total: Tensor
    """[] int64: look-ups at the time of the last report"""


def empty(keys: int, device: torch.device | str = "cpu") -> Cache:
    """Nothing stored, nothing counted."""
    zero = torch.zeros((), dtype=torch.int64, device=device)
    return Cache(
        ranks=torch.full((keys,), OUTSIDE, dtype=torch.int32, device=device),
        sizes=torch.zeros(keys, dtype=torch.int64, device=device),
        pinned=torch.zeros(keys, dtype=torch.bool, device=device),
        used=zero,
        hits=zero,
        total=zero,
        reported_hits=zero,
        reported_total=zero,
    )


def derive(cache: Cache) -> Cache:
    """With the byte count that follows from the sizes."""
    return cache._replace(used=cache.sizes.sum())


def layout(keys: int, capacity: int, largest_size: int, lookups: int) -> Layout[Cache]:
    """Bounds for so many keys of at most `largest_size` bytes, and at most so many counted look-ups."""

    def counter(name: str) -> Field:
        return Field(name, (), torch.int64, 0, lookups)

    return Layout(
        Cache,
        (
            Field("ranks", (keys,), torch.int32, OUTSIDE, keys - 1, axes=("key",)),
            Field("sizes", (keys,), torch.int64, 0, min(largest_size, capacity), axes=("key",)),
            Field("pinned", (keys,), torch.bool, 0, 1, axes=("key",)),
            Field("used", (), torch.int64, 0, capacity, derived=True),
            counter("hits"),
            counter("total"),
            counter("reported_hits"),
            counter("reported_total"),
        ),
        derive,
    )
