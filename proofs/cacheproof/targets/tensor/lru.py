"""`lru`: the layout's fields as the specification's fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cacheimpl import lru as tensors
from cacheproof.registry import component_named
from cacheproof.targets.tensor.model import Row, TensorModel, TensorOperation, named, no_operands, table
from cachespec.kernel import FrozenMap, FrozenQueue
from cachespec.lru import operations as calls
from cachespec.lru.configuration import Config
from cachespec.lru.state import Cache


def row_of(config: Config, key: int) -> int:
    """The key is the row of the tables."""
    return named("key", key, len(config.sizes))


def decode(row: Row) -> Cache:
    """Ranks are the order; what is pinned is pinned with its size."""
    present = [key for key, rank in enumerate(row["ranks"]) if rank >= 0]
    sizes = row["sizes"]
    return Cache(
        entries=FrozenMap((key, sizes[key]) for key in present),
        order=FrozenQueue((key, 1) for key in sorted(present, key=row["ranks"].__getitem__)),
        used=row["used"],
        pinned=FrozenMap((key, sizes[key]) for key, pinned in enumerate(row["pinned"]) if pinned),
        hits=row["hits"],
        total=row["total"],
        reported_hits=row["reported_hits"],
        reported_total=row["reported_total"],
    )


def counting_goes_on(config: Config) -> Callable[..., Tensor]:
    """The scope bounds the counted look-ups."""
    return lambda parameters, cache, *operands: cache.total < config.lookups


def pins_are_left(config: Config) -> Callable[..., Tensor]:
    """The scope bounds the pins."""
    return lambda parameters, cache, *operands: cache.pinned.sum() < config.pins


def model(config: Config, device: str) -> TensorModel:
    """The tensor code in this configuration."""
    component = component_named("lru")
    counting, pinning = counting_goes_on(config), pins_are_left(config)

    def key_of(operation: Any) -> tuple[int, ...]:
        return (row_of(config, operation.key),)

    def key_and_size_of(operation: Any) -> tuple[int, ...]:
        return row_of(config, operation.key), operation.size

    keys, largest = len(config.sizes), max((*config.sizes, *config.grown))
    variant = component.normative
    return TensorModel(
        component=component,
        variant=variant,
        config=config,
        parameters=tensors.Config(torch.tensor(config.capacity, device=device)),
        initial=tensors.empty(keys, device),
        layout=tensors.layout(keys, config.capacity, largest, config.lookups),
        operations=table(
            TensorOperation(calls.Contains, tensors.contains, key_of),
            TensorOperation(calls.Lookup, tensors.lookup, key_of, counting),
            TensorOperation(calls.Get, tensors.get, key_of, counting),
            TensorOperation(calls.Put, tensors.put, key_and_size_of),
            TensorOperation(calls.Touch, tensors.touch, key_of),
            TensorOperation(calls.Pop, tensors.pop, key_of),
            TensorOperation(calls.Pin, tensors.pin, key_of, pinning),
            TensorOperation(calls.Clear, tensors.clear, no_operands),
            TensorOperation(calls.Stat, tensors.stat, no_operands),
        ),
        domain=lambda: variant.alphabet(config, variant.start(config)),
        decode=decode,
    )
