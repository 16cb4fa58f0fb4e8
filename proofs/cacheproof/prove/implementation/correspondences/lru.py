"""`lru`: ranks are the order, and a key with a rank is an entry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.cells import Cell
from cacheproof.prove.implementation.correspondence import Correspondence, number, scalar
from cacheproof.prove.implementation.encodings import dense_ranks
from cacheproof.prove.implementation.finite import FiniteMap, FiniteQueue, cell_of, value_of
from cacheproof.prove.implementation.tensors import CellTensor
from cachespec import lru
from cachespec.kernel import Operation
from cachespec.lru.state import Cache


def unknown() -> lru.Config:
    """Any capacity; the transitions read nothing else."""
    return lru.Config(capacity=number("capacity"), sizes=())  # type: ignore[arg-type]  # an unknown integer


def parameters(config: Any) -> Iterable[CellTensor]:
    """The capacity."""
    return (scalar(config.capacity),)


def decode(config: Any, cache: Any) -> Cache:
    """Keys with a rank are entries, in the order of the ranks; a pinned key is pinned with its size."""
    keys = range(cache.ranks.shape[0])
    sizes = {key: value_of(cache.sizes.cells[key]) for key in keys}
    present = {key: cells.at_most(0, cache.ranks.cells[key]) for key in keys}
    counters = {
        name: value_of(getattr(cache, name).cells[0])
        for name in ("used", "hits", "total", "reported_hits", "reported_total")
    }
    return Cache(
        entries=FiniteMap(present, sizes),
        order=FiniteQueue(dict(enumerate(cache.ranks.cells)), dict.fromkeys(keys, 1)),
        pinned=FiniteMap({key: cache.pinned.cells[key] for key in keys}, sizes),
        **counters,
    )


def invariant(config: Any, cache: Any) -> Iterable[Cell]:
    """LRU-1 to LRU-4, and how the tensors say it: dense ranks, no size without an entry."""
    yield from dense_ranks(cache.ranks.cells)
    for rank, size, pinned in zip(cache.ranks.cells, cache.sizes.cells, cache.pinned.cells, strict=True):
        present = cells.at_most(0, rank)
        yield cells.at_most(0, size)
        yield cells.some((present, cells.equal(size, 0)))
        yield cells.some((present, cells.inverse(pinned)))
    (used,), capacity = cache.used.cells, cell_of(config.capacity)
    yield cells.equal(used, cells.total(cache.sizes.cells))
    yield cells.at_most(used, capacity)
    hits, total, reported_hits, reported_total = (
        getattr(cache, name).cells[0] for name in ("hits", "total", "reported_hits", "reported_total")
    )
    yield cells.every((cells.at_most(0, reported_hits), cells.at_most(0, reported_total)))
    yield cells.every((cells.at_most(reported_hits, hits), cells.at_most(reported_total, total)))
    yield cells.at_most(hits, total)


def operations(keys: int) -> Iterable[Operation]:
    """Each with every key, and with any size."""
    for key in range(keys):
        yield from (kind(key) for kind in (lru.Contains, lru.Lookup, lru.Get, lru.Touch, lru.Pop, lru.Pin))
        yield lru.Put(key, number("size"))  # type: ignore[arg-type]  # an unknown integer
    yield lru.Clear()
    yield lru.Stat()


def valid(config: Any, cache: Any, operation: Any) -> Iterable[Cell]:
    """There is a capacity, and no size is negative."""
    yield cells.less(0, cell_of(config.capacity))
    if type(operation) is lru.Put:
        yield cells.at_most(0, cell_of(operation.size))


def of(keys: int, *, nightly: bool = False) -> Correspondence:
    """The correspondence for this number of keys."""
    return Correspondence(
        component="lru",
        shape=f"{keys} keys",
        config=lru.Config(capacity=1, sizes=(1,) * keys, lookups=1, pins=1),
        unknown=lambda: unknown()._replace(sizes=(1,) * keys),
        parameters=parameters,
        decode=decode,
        invariant=invariant,
        operations=lambda: operations(keys),
        valid=valid,
        nightly=nightly,
    )


CORRESPONDENCES = (of(3), of(4, nightly=True))
