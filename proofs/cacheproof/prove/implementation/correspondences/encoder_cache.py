"""`encoder_cache`: any capacity, any sizes, any contents and claims of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from cacheimpl.encoder_cache.state import empty
from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.cells import Cell
from cacheproof.prove.implementation.correspondence import Correspondence, number, scalar
from cacheproof.prove.implementation.encodings import dense_ranks, within
from cacheproof.prove.implementation.finite import FiniteMap, FiniteQueue, cell_of, value_of
from cacheproof.prove.implementation.tensors import CellTensor
from cacheproof.prove.implementation.tensors import of as known
from cachespec.encoder_cache import operations as calls
from cachespec.encoder_cache.configuration import Config
from cachespec.encoder_cache.state import Cache
from cachespec.kernel import Operation

Place = tuple[int, int]


def table(name: str, requests: int, positions: int) -> Any:
    """A number for each input."""
    return tuple(
        tuple(number(f"{name}[{request}, {place}]") for place in range(positions)) for request in range(requests)
    )


def unknown(requests: int, positions: int, contents: int) -> Config:
    """Any numbers; whether admissions may be abandoned is open too."""
    return Config(
        capacity=number("capacity"),  # type: ignore[arg-type]  # an unknown integer
        sizes=(1,) * contents,
        requests=table("content", requests, positions),
        claims=table("claim", requests, positions),
        failures=number("failures"),  # type: ignore[arg-type]  # likewise
        resets=1,
    )


def flat(rows: Any) -> list[Cell]:
    """The cells of a table, row by row."""
    return [cell_of(value) for row in rows for value in row]


def parameters(config: Any) -> Iterable[CellTensor]:
    """Capacity, contents, claims, and whether admissions may be abandoned."""
    shape = len(config.requests), len(config.requests[0])
    yield scalar(config.capacity)
    yield CellTensor(shape, torch.int64, tuple(flat(config.requests)))
    yield CellTensor(shape, torch.int64, tuple(flat(config.claims)))
    yield CellTensor((), torch.bool, (cells.equal(cell_of(config.failures), 1),))


def by_input(tensor: CellTensor) -> dict[Place, Cell]:
    """The cells of a table, by request and position."""
    requests, positions = tensor.shape
    return {divmod(place, positions): tensor.cells[place] for place in range(requests * positions)}


def decode(config: Any, cache: Any) -> Cache:
    """Ranks are queues; the members of a queue add up to the occupied or claimed room."""
    sizes = dict(enumerate(cache.sizes.cells))
    held, promised, attempted = map(by_input, (cache.held, cache.promised, cache.attempted))
    claims = dict(zip(held, flat(config.claims), strict=True))
    counts = dict(enumerate(cache.references.cells))
    return Cache(
        free=value_of(cache.free.cells[0]),
        freeable=value_of(cache.freeable.cells[0]),
        sizes=FiniteMap(dict(enumerate(cache.resident.cells)), values(sizes)),
        references=FiniteMap({one: cells.truth(count) for one, count in counts.items()}, values(counts)),
        held=FiniteMap(held, dict.fromkeys(held, 1)),
        idle=FiniteQueue(dict(enumerate(cache.idle.cells)), sizes),
        freed=FiniteQueue(dict(enumerate(cache.freed.cells)), sizes),
        promised=FiniteQueue(promised, claims),
        attempted=FiniteQueue(attempted, dict.fromkeys(attempted, 1)),
    )


def values(numbers: Mapping[Any, Cell]) -> dict[Any, Any]:
    """Cells as the specification sees them."""
    return {key: value_of(cell) for key, cell in numbers.items()}


def invariant(config: Any, cache: Any) -> Iterator[Cell]:
    """ENC-1 to ENC-5 and ENC-7, and how the tensors say it."""
    contents = flat(config.requests)
    queues = (cache.idle, cache.freed, cache.promised, cache.attempted)
    for queue in queues:
        yield from dense_ranks(queue.cells)
    for content, (size, resident, count, idle, freed) in enumerate(
        zip(*(part.cells for part in (cache.sizes, cache.resident, cache.references, *queues[:2])), strict=True)
    ):
        holders = (
            cells.every((held, cells.equal(one, content))) for one, held in zip(contents, cache.held.cells, strict=True)
        )
        yield cells.equal(count, cells.count(holders))
        yield cells.equal(resident, cells.some((cells.at_most(0, idle), cells.less(0, count))))
        yield cells.some((cells.less(idle, 0), cells.equal(count, 0)))
        yield cells.some((cells.less(freed, 0), cells.inverse(resident)))
        yield cells.at_most(0, size)
        yield cells.some((resident, cells.at_most(0, freed), cells.equal(size, 0)))
    for held, attempted in zip(cache.held.cells, cache.attempted.cells, strict=True):
        yield cells.some((held, cells.less(attempted, 0)))
    (free,), (freeable,) = cache.free.cells, cache.freeable.cells
    occupied = cells.total(map(cells.choose, cache.resident.cells, cache.sizes.cells, [0] * len(cache.sizes.cells)))
    idle_sizes = cells.total(
        cells.choose(cells.at_most(0, rank), size, 0)
        for rank, size in zip(cache.idle.cells, cache.sizes.cells, strict=True)
    )
    yield cells.at_most(0, free)
    yield cells.equal(cells.add(free, occupied), cell_of(config.capacity))
    yield cells.equal(freeable, cells.add(free, idle_sizes))


def operations(requests: int, positions: int) -> Iterator[Operation]:
    """Each with every request and input, with any budget and any pending amount."""
    for request in range(requests):
        for place in range(positions):
            yield calls.CheckAndUpdate(request, place)
            yield calls.CanAllocate(request, place, number("budget"), number("pending"))  # type: ignore[arg-type]  # unknown
            yield calls.Allocate(request, place)
            yield calls.FreeInput(request, place)
        yield calls.FreeRequest(request)
        yield calls.CachedInputs(request)
        yield calls.Abandon(request, calls.BLOCKS)
    yield calls.Report()
    yield calls.Reset()


def valid(config: Any, cache: Any, operation: Any) -> Iterator[Cell]:
    """A capacity, contents that there are, claims and pending amounts that are not negative."""
    yield cells.less(0, cell_of(config.capacity))
    yield from within(flat(config.requests), 0, len(config.sizes) - 1)
    yield from (cells.at_most(0, claim) for claim in flat(config.claims))
    yield from within([cell_of(config.failures)], 0, 1)
    if type(operation) is calls.CanAllocate:
        yield cells.at_most(0, cell_of(operation.pending))


def initial(requests: int, positions: int, contents: int) -> Callable[[Any], Iterable[CellTensor]]:
    """Every slot is free: the capacity stands in two fields."""

    def made(config: Any) -> Iterable[CellTensor]:
        (capacity,) = scalar(config.capacity).cells
        tensors = empty(torch.zeros((), dtype=torch.int64), requests, positions, contents)
        for name, tensor in zip(tensors._fields, map(known, tensors), strict=True):
            yield replace(tensor, cells=(capacity,)) if name in ("free", "freeable") else tensor

    return made


def of(
    requests: int, positions: int, contents: int, calls_of: Collection[type[Operation]], *, nightly: bool = False
) -> Correspondence:
    """The correspondence for these numbers of requests, inputs of each, and contents, and for these operations."""
    rows = ((0,) * positions,) * requests
    return Correspondence(
        component="encoder_cache",
        shape=f"{requests} requests of {positions} inputs, {contents} contents",
        config=Config(capacity=1, sizes=(1,) * contents, requests=rows, claims=rows, resets=1),
        unknown=lambda: unknown(requests, positions, contents),
        parameters=parameters,
        decode=decode,
        invariant=invariant,
        operations=lambda: (one for one in operations(requests, positions) if type(one) in calls_of),
        valid=valid,
        initial=initial(requests, positions, contents),
        nightly=nightly,
    )


SHORT = (calls.CheckAndUpdate, calls.Allocate, calls.FreeInput, calls.FreeRequest, calls.Abandon)
LONG = (calls.CanAllocate, calls.CachedInputs, calls.Report, calls.Reset)
"""Calls of which the specification has many paths."""

CORRESPONDENCES = (
    of(2, 2, 2, SHORT),
    of(1, 2, 2, LONG),
    of(2, 2, 2, LONG, nightly=True),
    of(2, 2, 3, SHORT, nightly=True),
)
