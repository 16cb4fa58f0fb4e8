"""`encoder_cache`: the layout's fields as the specification's fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from cacheimpl import encoder_cache as tensors
from cacheproof.model.registry import component_named
from cacheproof.tensor_models.encoder_environment import claims_of, every_call, guards
from cacheproof.tensor_models.model import (
    Function,
    Row,
    TensorModel,
    TensorOperation,
    always,
    named,
    no_operands,
    table,
)
from cachespec.encoder_cache import configuration
from cachespec.encoder_cache import operations as calls
from cachespec.encoder_cache.configuration import Config
from cachespec.encoder_cache.state import Cache
from cachespec.kernel import FrozenMap, FrozenQueue, Operation


def tables_of(config: Config, device: str) -> tensors.Config:
    """Requests of fewer inputs than the longest have no content at the positions that they lack."""
    longest = max(1, *(len(contents) for contents in config.requests))

    def padded(request: int, values: tuple[int, ...]) -> list[int]:
        return [*values, *[tensors.NO_INPUT] * (longest - len(config.requests[request]))]

    contents = [padded(request, contents) for request, contents in enumerate(config.requests)]
    claims = [padded(request, claims_of(config, request)) for request in range(len(config.requests))]
    return tensors.Config(
        capacity=torch.tensor(config.capacity, device=device),
        contents=torch.tensor(contents, device=device),
        claims=torch.tensor(claims, device=device).clamp(min=0),
        abandonable=torch.tensor(config.failures == 1, device=device),
    )


# Operands -----------------------------------------------------------------------------------------------------------


class Operands:
    """The operands of each operation, for the names that a configuration has."""

    def __init__(self, config: Config) -> None:
        self._requests = config.requests

    def of_request(self, operation: Any) -> tuple[int, ...]:
        """The row."""
        return (named("request", operation.request, len(self._requests)),)

    def of_input(self, operation: Any) -> tuple[int, ...]:
        """The row and the position."""
        (request,) = self.of_request(operation)
        return request, named("input", operation.input, len(self._requests[request]))

    def of_question(self, operation: Any) -> tuple[int, ...]:
        """The input, the compute budget, and the pending claims."""
        return *self.of_input(operation), operation.budget, operation.pending


# State --------------------------------------------------------------------------------------------------------------


def decode(config: Config, cache: Row) -> Cache:
    """Ranks are queues; the members of a queue add up to the occupied or claimed room."""
    sizes, counts = cache["sizes"], enumerate(cache["references"])
    claims = {name: configuration.size_of(config, *name) for name, _ in inputs_of(config, cache["held"])}
    return Cache(
        free=cache["free"],
        freeable=cache["freeable"],
        sizes=FrozenMap((content, sizes[content]) for content, resident in enumerate(cache["resident"]) if resident),
        references=FrozenMap((content, count) for content, count in counts if count != 0),
        held=FrozenMap((name, 1) for name, held in inputs_of(config, cache["held"]) if held),
        idle=FrozenQueue((content, sizes[content]) for content in in_order(enumerate(cache["idle"]))),
        freed=FrozenQueue((content, sizes[content]) for content in in_order(enumerate(cache["freed"]))),
        promised=FrozenQueue((name, claims[name]) for name in in_order(inputs_of(config, cache["promised"]))),
        attempted=FrozenQueue((name, 1) for name in in_order(inputs_of(config, cache["attempted"]))),
    )


def inputs_of(config: Config, values: list[list[int]]) -> Iterator[tuple[tuple[int, int], int]]:
    """Every input that the configuration has, with its element of a table."""
    for request in range(len(config.requests)):
        for position in configuration.positions(config, request):
            yield (request, position), values[request][position]


def in_order(ranks: Any) -> list[Any]:
    """Names in the order of their ranks, of pairs of name and rank."""
    return [name for _, name in sorted((rank, name) for name, rank in ranks if rank >= 0)]


def model(config: Config, device: str) -> TensorModel:
    """The tensor code in this configuration."""
    component = component_named("encoder_cache")
    tables, contents = tables_of(config, device), len(config.sizes)
    requests, positions = tables.contents.shape
    operands, enabled = Operands(config), guards(config)
    functions: tuple[tuple[type[Operation], Function, Callable[[Any], tuple[int, ...]]], ...] = (
        (calls.CheckAndUpdate, tensors.check_and_update, operands.of_input),
        (calls.CanAllocate, tensors.can_allocate, operands.of_question),
        (calls.Allocate, tensors.allocate, operands.of_input),
        (calls.FreeInput, tensors.free_input, operands.of_input),
        (calls.FreeRequest, tensors.free_request, operands.of_request),
        (calls.CachedInputs, tensors.cached_inputs, operands.of_request),
        (calls.Abandon, tensors.abandon, operands.of_request),
        (calls.Report, tensors.report, no_operands),
        (calls.Reset, tensors.reset, no_operands),
    )
    return TensorModel(
        component=component,
        variant=component.normative,
        config=config,
        parameters=tables,
        initial=tensors.empty(tables.capacity, requests, positions, contents),
        layout=tensors.layout(tables, contents),
        operations=table(*(TensorOperation(*parts, enabled.get(parts[0], always)) for parts in functions)),
        domain=lambda: every_call(config),
        decode=lambda row: decode(config, row),
    )
