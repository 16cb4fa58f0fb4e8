"""Bursts of the KV blocks: several requests in one call of a tensor function, against the calls one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor

from cacheimpl.kv_blocks import admission, decoding, execution, prefix, releasing, slots
from cacheproof.prove.implementation.actions import Burst, Ended, column
from cacheproof.prove.implementation.correspondence import number
from cachespec.kernel import Operation
from cachespec.kv_blocks import operations as calls
from cachespec.kv_blocks.state import NO_TABLE


def bursts(requests: tuple[int, ...], positions: int, blocks: int) -> Iterator[Burst]:
    """Each burst of these requests, in this order; tokens and hits are any integers."""
    turns = len(requests)
    computed, tokens = ([number(f"{name}[{turn}]") for turn in range(turns)] for name in ("computed", "tokens"))
    for name, release, kind in (
        ("burst_withdraw", releasing.withdraw, calls.Withdraw),
        ("burst_free_request", releasing.free_request, calls.FreeRequest),
    ):
        yield Burst(name, _releasing(release, requests), (), always(tuple(map(kind, requests))))
    commit: Any = calls.Commit
    allocate: Any = calls.AllocateSlots
    commits = tuple(map(commit, requests, computed))
    yield Burst("burst_commit", _committing(requests, positions), tuple(computed), always(commits))
    for counts in product(range(positions + 1), repeat=turns):
        hits: list[Any] = [
            tuple(number(f"hit[{turn}, {place}]") for place in range(count)) for turn, count in enumerate(counts)
        ]
        padded = [[*some, *[blocks] * (positions + 1 - len(some))] for some in hits]
        asked = tuple(map(allocate, requests, computed, tokens, hits))
        flat = tuple(hit for row in padded for hit in row)
        name = "burst_admit" if any(counts) else "burst_allocate_slots"
        function = _admitting(requests, positions, counts) if any(counts) else _allocating(requests, positions)
        operands = (*computed, *tokens, *(flat if any(counts) else ()))
        yield Burst(name, function, operands, always(asked))
    yield Burst("decode", _decoding(requests), (), lambda pool: _steps(pool, requests), (turns, turns), always=False)


def always(made: tuple[Operation, ...]) -> Callable[[Any], tuple[Operation, ...]]:
    """The same calls in every state."""
    return lambda _: made


def rows(requests: tuple[int, ...]) -> Tensor:
    """[turns] int64."""
    return torch.tensor(requests, dtype=torch.int64)


def alone(codes: Tensor) -> Ended:
    """Answers without values."""
    return Ended(codes, codes.new_empty((codes.shape[0], 0)), torch.zeros_like(codes))


def _releasing(release: Any, requests: tuple[int, ...]) -> Any:
    def function(config: Any, pool: Any) -> tuple[Any, Ended]:
        after, codes = release(config, pool, rows(requests))
        return after, alone(codes)

    return function


def _committing(requests: tuple[int, ...], width: int) -> Any:
    def function(config: Any, pool: Any, *computed: Tensor) -> tuple[Any, Ended]:
        after, step = execution.commit(config, pool, rows(requests), column(computed), width=width)
        return after, alone(step.codes)

    return function


def _allocating(requests: tuple[int, ...], width: int) -> Any:
    def function(config: Any, pool: Any, *operands: Tensor) -> tuple[Any, Ended]:
        computed, tokens = column(operands[: len(requests)]), column(operands[len(requests) :])
        after, given = slots.allocate_slots(config, pool, rows(requests), computed, tokens, width=width)
        return after, Ended(given.codes, given.blocks, given.lengths)

    return function


def _admitting(requests: tuple[int, ...], width: int, counts: tuple[int, ...]) -> Any:
    turns = len(requests)

    def function(config: Any, pool: Any, *operands: Tensor) -> tuple[Any, Ended]:
        computed, tokens = column(operands[:turns]), column(operands[turns : 2 * turns])
        brought = prefix.Hits(column(operands[2 * turns :]).reshape(turns, width + 1), rows(counts))
        after, given = admission.admit(config, pool, rows(requests), computed, tokens, brought, width=width)
        return after, Ended(given.codes, given.blocks, given.lengths)

    return function


def _decoding(requests: tuple[int, ...]) -> Any:
    turns = len(requests)

    def function(config: Any, pool: Any) -> tuple[Any, Ended]:
        after, step = decoding.decode(config, pool, rows(requests))
        executed = torch.where(step.executed, 0, -1)
        lengths = torch.zeros(turns, dtype=torch.int64).scatter_add(0, step.turn, step.given.long())
        behind = torch.where(step.given, step.turn, turns)
        blocks = torch.full((turns + 1,), -1).scatter(0, behind, step.blocks)[:turns]
        values = torch.cat((torch.full((turns,), -1), blocks))[:, None]
        return after, Ended(torch.cat((executed, step.codes)), values, torch.cat((torch.zeros_like(lengths), lengths)))

    return function


def _steps(pool: Any, requests: tuple[int, ...]) -> tuple[Any, ...]:
    """The scheduled tokens of each request are executed; then each request gets a slot for its next token."""
    planned = [pool.holdings.get(request, NO_TABLE).scheduled for request in requests]
    allocations = (calls.AllocateSlots(request, end, 1, ()) for request, end in zip(requests, planned, strict=True))
    return (*map(calls.Commit, requests, planned), *allocations)
