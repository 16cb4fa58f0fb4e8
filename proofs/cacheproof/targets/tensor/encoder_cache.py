"""`encoder_cache`: the layout's fields as the specification's fields, and the environment as guards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from cacheimpl import encoder_cache as tensors
from cacheimpl.recency import length, queued
from cacheimpl.table import cell, row
from cacheproof.registry import component_named
from cacheproof.targets.tensor.model import Row, TensorModel, TensorOperation, named, no_operands, table
from cachespec import encoder_cache as spec
from cachespec.encoder_cache import configuration, operations
from cachespec.kernel import FrozenMap, FrozenQueue, Operation


def tables_of(config: spec.Config, device: str) -> tensors.Config:
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


def claims_of(config: spec.Config, request: int) -> tuple[int, ...]:
    """What the request claims for each of its inputs."""
    positions = configuration.positions(config, request)
    return tuple(configuration.size_of(config, request, position) for position in positions)


# Operands -----------------------------------------------------------------------------------------------------------


class Operands:
    """The operands of each operation, for the names that a configuration has."""

    def __init__(self, config: spec.Config) -> None:
        self._requests = config.requests

    def of_request(self, operation: Any) -> tuple[int, ...]:
        """The row."""
        return (named("request", operation.request, len(self._requests)),)

    def of_input(self, operation: Any) -> tuple[int, ...]:
        """The row and the position."""
        (request,) = self.of_request(operation)
        return request, named("input", operation.input, len(self._requests[request]))

    def of_question(self, operation: Any) -> tuple[int, ...]:
        """The input, the compute budget, and what is pending."""
        return *self.of_input(operation), operation.budget, operation.pending


# Environment --------------------------------------------------------------------------------------------------------


class Environment:
    """Where the alphabet of a scope has an operation: the guards of the specification's environment, on tensors.

    `halting` needs no guard: it is for variants whose counts leave their range, and here that is an error of the layout.
    """

    def __init__(self, config: spec.Config) -> None:
        self._config = config
        self._disciplined = config.disciplined == 1

    def may_check(self, tables: Any, cache: Any, request: Tensor, position: Tensor) -> Tensor:
        """A disciplined caller admits one request at a time, and asks for each of its contents once."""
        if not self._disciplined:
            return _yes(cache)
        return ~(_others_turn(cache, request) | _is_granted(tables, cache, request, position))

    def may_ask(
        self, tables: Any, cache: Any, request: Tensor, position: Tensor, budget: Tensor, pending: Tensor
    ) -> Tensor:
        """What is pending is what was granted in this pass; a caller without discipline may also have forgotten it."""
        outstanding = torch.where(queued(cache.promised), tables.claims, 0).sum()
        counted = pending == outstanding
        allowed = counted if self._disciplined else counted | (pending == 0)
        if self._disciplined:
            resident = row(cache.resident, cell(tables.contents, request, position))
            allowed = allowed & self.may_check(tables, cache, request, position) & ~resident
        if self._config.unreported > 0:
            allowed = allowed & (length(cache.freed) < self._config.unreported)
        return allowed

    def may_allocate(self, tables: Any, cache: Any, request: Tensor, position: Tensor) -> Tensor:
        """A disciplined caller allocates what it was granted."""
        return queued(cell(cache.promised, request, position)) if self._disciplined else _yes(cache)

    def may_free(self, tables: Any, cache: Any, request: Tensor, position: Tensor) -> Tensor:
        """A disciplined caller releases what it holds, between two admissions."""
        idle_pass = ~queued(cache.promised).any()
        return cell(cache.held, request, position) & idle_pass if self._disciplined else _yes(cache)

    def may_abandon(self, tables: Any, cache: Any, request: Tensor) -> Tensor:
        """An attempt has begun in this pass; with discipline, of a request that holds nothing else yet."""
        attempted = queued(row(cache.attempted, request))
        begun = (attempted | queued(row(cache.promised, request))).any()
        running = (row(cache.held, request) & ~attempted).any()
        return begun & ~running if self._disciplined else begun

    def may_report(self, tables: Any, cache: Any) -> Tensor:
        """A disciplined caller ends a pass when nothing is granted and not allocated."""
        return ~queued(cache.promised).any() if self._disciplined else _yes(cache)


def _yes(cache: Any) -> Tensor:
    return torch.ones_like(cache.free, dtype=torch.bool)


def _others_turn(cache: Any, request: Tensor) -> Tensor:
    first = (cache.promised == 0).any(1)
    return first.any() & ~row(first, request)


def _is_granted(tables: Any, cache: Any, request: Tensor, position: Tensor) -> Tensor:
    return (queued(cache.promised) & (tables.contents == cell(tables.contents, request, position))).any()


def every_call(config: spec.Config) -> Iterator[Operation]:
    """Every operation that the alphabet of some state may have."""
    pendings = possible_pendings(config)
    for request in range(len(config.requests)):
        for position in configuration.positions(config, request):
            yield spec.CheckAndUpdate(request, position)
            for budget in sorted(set(config.budgets or (configuration.size_of(config, request, position),))):
                yield from (spec.CanAllocate(request, position, budget, pending) for pending in pendings)
            yield spec.Allocate(request, position)
            yield spec.FreeInput(request, position)
        yield spec.FreeRequest(request)
        yield spec.CachedInputs(request)
        if config.failures:
            yield spec.Abandon(request, operations.ENCODER)
            yield spec.Abandon(request, operations.BLOCKS)
    yield spec.Report()
    if config.resets:
        yield spec.Reset()


def possible_pendings(config: spec.Config) -> list[int]:
    """What the grants of one pass may add up to: they fit the capacity together."""
    sums = {0}
    for request in range(len(config.requests)):
        for claim in claims_of(config, request):
            sums |= {total + claim for total in sums if total + claim <= config.capacity}
    return sorted(sums)


# State --------------------------------------------------------------------------------------------------------------


def decode(config: spec.Config, cache: Row) -> spec.Cache:
    """Ranks are queues; what a queue's members weigh is what they occupy or claim."""
    sizes, counts = cache["sizes"], enumerate(cache["references"])
    claims = {name: configuration.size_of(config, *name) for name, _ in inputs_of(config, cache["held"])}
    return spec.Cache(
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


def inputs_of(config: spec.Config, values: list[list[int]]) -> Iterator[tuple[tuple[int, int], int]]:
    """Every input that the configuration has, with its element of a table."""
    for request in range(len(config.requests)):
        for position in configuration.positions(config, request):
            yield (request, position), values[request][position]


def in_order(ranks: Any) -> list[Any]:
    """Names in the order of their ranks, of pairs of name and rank."""
    return [name for _, name in sorted((rank, name) for name, rank in ranks if rank >= 0)]


def model(config: spec.Config, device: str) -> TensorModel:
    """The tensor code in this configuration."""
    component = component_named("encoder_cache")
    tables, contents = tables_of(config, device), len(config.sizes)
    requests, positions = tables.contents.shape
    operands, environment = Operands(config), Environment(config)
    of_request, of_input = operands.of_request, operands.of_input
    return TensorModel(
        component=component,
        variant=component.normative,
        config=config,
        parameters=tables,
        initial=tensors.empty(tables.capacity, requests, positions, contents),
        layout=tensors.layout(tables, contents),
        operations=table(
            TensorOperation(spec.CheckAndUpdate, tensors.check_and_update, of_input, environment.may_check),
            TensorOperation(spec.CanAllocate, tensors.can_allocate, operands.of_question, environment.may_ask),
            TensorOperation(spec.Allocate, tensors.allocate, of_input, environment.may_allocate),
            TensorOperation(spec.FreeInput, tensors.free_input, of_input, environment.may_free),
            TensorOperation(spec.FreeRequest, tensors.free_request, of_request),
            TensorOperation(spec.CachedInputs, tensors.cached_inputs, of_request),
            TensorOperation(spec.Abandon, tensors.abandon, of_request, environment.may_abandon),
            TensorOperation(spec.Report, tensors.report, no_operands, environment.may_report),
            TensorOperation(spec.Reset, tensors.reset, no_operands),
        ),
        domain=tuple(every_call(config)),
        decode=lambda row: decode(config, row),
    )
