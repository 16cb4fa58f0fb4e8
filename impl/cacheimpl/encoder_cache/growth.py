"""The same state in larger tables: new rows are empty, so nothing that can be asked changes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.encoder_cache.state import NO_INPUT, Cache, Config
from cacheimpl.recency import OUTSIDE


class Extent(NamedTuple):
    """How many rows the tables have."""

    requests: int
    positions: int
    contents: int


def extent_of(cache: Cache) -> Extent:
    """The extent of a state."""
    requests, positions = cache.held.shape
    return Extent(requests, positions, cache.sizes.shape[0])


def enlarged(table: Tensor, shape: tuple[int, ...], filler: int) -> Tensor:
    """The table at the beginning of one of this shape, which is as large on every axis."""
    larger = torch.full(shape, filler, dtype=table.dtype, device=table.device)
    larger[tuple(slice(count) for count in table.shape)] = table
    return larger


def grown_config(config: Config, extent: Extent) -> Config:
    """New requests and positions have no input."""
    shape = (extent.requests, extent.positions)
    return config._replace(
        contents=enlarged(config.contents, shape, NO_INPUT), claims=enlarged(config.claims, shape, 0)
    )


def grown_cache(cache: Cache, extent: Extent) -> Cache:
    """New contents are absent, new inputs hold nothing."""
    inputs, contents = (extent.requests, extent.positions), (extent.contents,)
    return cache._replace(
        resident=enlarged(cache.resident, contents, False),
        sizes=enlarged(cache.sizes, contents, 0),
        references=enlarged(cache.references, contents, 0),
        held=enlarged(cache.held, inputs, False),
        idle=enlarged(cache.idle, contents, OUTSIDE),
        freed=enlarged(cache.freed, contents, OUTSIDE),
        promised=enlarged(cache.promised, inputs, OUTSIDE),
        attempted=enlarged(cache.attempted, inputs, OUTSIDE),
    )
