"""`lru`: the layout's fields as the specification's fields, normatively and in its eras."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from cacheimpl import lru as tensors
from cacheimpl.lru import eras, ghosts
from cacheproof.model.registry import component_named
from cacheproof.tensor_models.model import Function, Row, TensorModel, TensorOperation, named, no_operands, table
from cachespec.kernel import NORMATIVE, FrozenMap, FrozenQueue
from cachespec.lru import operations as calls
from cachespec.lru.configuration import Config
from cachespec.lru.state import Cache


def row_of(config: Config, key: int) -> int:
    """The key is the row of the tables."""
    return named("key", key, len(config.sizes))


def decode(row: Row) -> Cache:
    """Ranks are the order; what is pinned is pinned with its size."""
    sizes, ranks = row["sizes"], row["ranks"]
    queued = [key for key, rank in enumerate(ranks) if rank >= 0]
    present = row["present"] if "present" in row else [rank >= 0 for rank in ranks]
    return Cache(
        entries=FrozenMap((key, sizes[key]) for key, there in enumerate(present) if there),
        order=FrozenQueue((key, 1) for key in sorted(queued, key=ranks.__getitem__)),
        used=row["used"],
        pinned=FrozenMap((key, sizes[key]) for key, pinned in enumerate(row["pinned"]) if pinned),
        hits=row["hits"],
        total=row["total"],
        reported_hits=row["reported_hits"],
        reported_total=row["reported_total"],
    )


def decode_ghosts(row: Row) -> Cache:
    """The order may have keys without an entry, and a call may be in progress for ever."""
    in_progress = {name: row[name] for name in ("doing", "putting", "putting_size")}
    return decode(row)._replace(**in_progress)


def counting_goes_on(config: Config) -> Callable[..., Tensor]:
    """The scope bounds the counted look-ups."""
    return lambda parameters, cache, *operands: cache.total < config.lookups


def pins_are_left(config: Config) -> Callable[..., Tensor]:
    """The scope bounds the pins."""
    return lambda parameters, cache, *operands: cache.pinned.sum() < config.pins


PUTS: Mapping[str, Function] = MappingProxyType({
    "M3": eras.put_until_pinned,
    "stale-growth": eras.put_counting_twice,
})  # fmt: skip
ERAS = (*PUTS, "M2")
"""What can be asked for beside the normative variant."""


def model(config: Config, device: str, era: str = NORMATIVE) -> TensorModel:
    """The tensor code in this configuration."""
    component = component_named("lru")
    counting, pinning = counting_goes_on(config), pins_are_left(config)

    def key_of(operation: Any) -> tuple[int, ...]:
        return (row_of(config, operation.key),)

    def key_and_size_of(operation: Any) -> tuple[int, ...]:
        return row_of(config, operation.key), operation.size

    code: Any = ghosts if era == "M2" else tensors
    keys, largest = len(config.sizes), max((*config.sizes, *config.grown))
    variant = component.variants[era]
    found = TensorModel(
        component=component,
        variant=variant,
        config=config,
        parameters=tensors.Config(torch.tensor(config.capacity, device=device)),
        initial=code.empty(keys, device),
        layout=code.layout(keys, config.capacity, largest, config.lookups),
        operations=table(
            TensorOperation(calls.Contains, code.contains, key_of),
            TensorOperation(calls.Lookup, code.lookup, key_of, counting),
            TensorOperation(calls.Get, code.get, key_of, counting),
            TensorOperation(calls.Put, PUTS.get(era, code.put), key_and_size_of),
            TensorOperation(calls.Touch, code.touch, key_of),
            TensorOperation(calls.Pop, code.pop, key_of),
            TensorOperation(calls.Pin, code.pin, key_of, pinning),
            TensorOperation(calls.Clear, code.clear, no_operands),
            TensorOperation(calls.Stat, code.stat, no_operands),
        ),
        domain=lambda: variant.alphabet(config, variant.start(config)),
        decode=decode,
    )
    return with_endless_calls(found) if era == "M2" else found


# The era whose calls may not return ---------------------------------------------------------------------------------


def is_idle(parameters: Any, cache: ghosts.GhostCache, *operands: Tensor) -> Tensor:
    """No call is in progress."""
    return cache.doing == ghosts.IDLE


def with_endless_calls(model: TensorModel) -> TensorModel:
    """While a call is in progress, its next turn is all that happens."""

    def guarded(operation: TensorOperation) -> TensorOperation:
        enabled = operation.enabled

        def allowed(*arguments: Any) -> Tensor:
            return enabled(*arguments) & is_idle(*arguments)

        return replace(operation, enabled=allowed)

    turn = TensorOperation(calls.Evict, ghosts.evict, no_operands, lambda *arguments: ~is_idle(*arguments))
    domain = model.domain
    return replace(
        model,
        operations=table(*map(guarded, model.operations.values()), turn),
        domain=lambda: (*domain(), calls.Evict()),
        decode=decode_ghosts,
    )
