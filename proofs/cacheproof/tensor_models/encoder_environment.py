"""Which calls a scope of the encoder cache makes: the guards of the specification's environment, on tensors.

Every guard takes (tables, cache, *operands) of one engine and returns [] bool. `halting` needs none: it is for variants
whose counts leave their range, and here that is an error of the layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from cacheimpl.encoder_cache import Cache
from cacheimpl.encoder_cache import Config as Tables
from cacheimpl.recency import length, queued
from cacheimpl.table import cell, row
from cachespec.encoder_cache import configuration
from cachespec.encoder_cache import operations as calls
from cachespec.encoder_cache.configuration import Config
from cachespec.kernel import Operation

Guard = Callable[..., Tensor]


def guards(config: Config) -> Mapping[type[Operation], Guard]:
    """The guard of each operation that is not always enabled."""
    shared: Mapping[type[Operation], Guard] = {calls.CanAllocate: may_ask(config), calls.Abandon: has_begun}
    if config.disciplined == 0:
        return shared
    return {
        **shared,
        calls.CheckAndUpdate: in_turn(config),
        calls.Allocate: is_granted,
        calls.FreeInput: may_release,
        calls.Abandon: may_abandon,
        calls.Report: nothing_is_granted,
    }


def may_ask(config: Config) -> Guard:
    """What is pending is what was granted in this pass; a caller without discipline may also have forgotten it."""

    def guard(tables: Tables, cache: Cache, *operands: Tensor) -> Tensor:
        request, position, _, pending = operands
        outstanding = torch.where(queued(cache.promised), tables.claims, 0).sum()
        allowed = pending == outstanding
        if config.disciplined == 0:
            allowed = allowed | (pending == 0)
        else:
            resident = row(cache.resident, cell(tables.contents, request, position))
            allowed = allowed & in_turn(config)(tables, cache, request, position) & ~resident
        if config.unreported > 0:
            allowed = allowed & (length(cache.freed) < config.unreported)
        return allowed

    return guard


def in_turn(config: Config) -> Guard:
    """Whether an input may be asked for: each of a request's contents once, or, with `repeats`, several times."""
    return is_the_requests_turn if config.repeats else is_in_turn


def is_the_requests_turn(tables: Tables, cache: Cache, request: Tensor, position: Tensor) -> Tensor:
    """One request is admitted at a time."""
    first = (cache.promised == 0).any(1)
    return ~first.any() | row(first, request)


def is_in_turn(tables: Tables, cache: Cache, request: Tensor, position: Tensor) -> Tensor:
    """Besides, each of its contents is asked for once."""
    same = tables.contents == cell(tables.contents, request, position)
    return is_the_requests_turn(tables, cache, request, position) & ~(queued(cache.promised) & same).any()


def is_granted(tables: Tables, cache: Cache, request: Tensor, position: Tensor) -> Tensor:
    """Only what was granted is allocated."""
    return queued(cell(cache.promised, request, position))


def may_release(tables: Tables, cache: Cache, request: Tensor, position: Tensor) -> Tensor:
    """Only what is held is released, between two admissions."""
    return cell(cache.held, request, position) & nothing_is_granted(tables, cache)


def nothing_is_granted(tables: Tables, cache: Cache) -> Tensor:
    """Whatever was granted is allocated."""
    return ~queued(cache.promised).any()


def has_begun(tables: Tables, cache: Cache, request: Tensor) -> Tensor:
    """An attempt to admit the request has begun in this pass."""
    return (queued(row(cache.attempted, request)) | queued(row(cache.promised, request))).any()


def may_abandon(tables: Tables, cache: Cache, request: Tensor) -> Tensor:
    """An attempt has begun, of a request that waits and holds nothing else yet."""
    running = (row(cache.held, request) & ~queued(row(cache.attempted, request))).any()
    return has_begun(tables, cache, request) & ~running


def every_call(config: Config) -> Iterator[Operation]:
    """Every operation that the alphabet of some state may have."""
    pendings = possible_pendings(config)
    for request in range(len(config.requests)):
        for position in configuration.positions(config, request):
            yield calls.CheckAndUpdate(request, position)
            for budget in sorted(set(config.budgets or (configuration.size_of(config, request, position),))):
                yield from (calls.CanAllocate(request, position, budget, pending) for pending in pendings)
            yield calls.Allocate(request, position)
            yield calls.FreeInput(request, position)
        yield calls.FreeRequest(request)
        yield calls.CachedInputs(request)
        if config.failures:
            yield calls.Abandon(request, calls.ENCODER)
            yield calls.Abandon(request, calls.BLOCKS)
    yield calls.Report()
    if config.resets:
        yield calls.Reset()


def possible_pendings(config: Config) -> list[int]:
    """The grants of one pass fit the capacity together."""
    sums = {0}
    for request in range(len(config.requests)):
        for claim in claims_of(config, request):
            sums |= {total + claim for total in sums if total + claim <= config.capacity}
    return sorted(sums)


def claims_of(config: Config, request: int) -> tuple[int, ...]:
    """What the request claims for each of its inputs."""
    positions = configuration.positions(config, request)
    return tuple(configuration.size_of(config, request, position) for position in positions)
