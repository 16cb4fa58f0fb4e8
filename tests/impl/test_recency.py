"""The order of a queue as ranks, against a plain list, for every queue of a few keys."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

import pytest
import torch
from torch import Tensor

from cacheimpl import recency

torch.set_num_threads(1)

KEYS = 4


def queues() -> Iterator[tuple[int, ...]]:
    """Every order of every subset of the keys."""
    return (order for length in range(KEYS + 1) for order in permutations(range(KEYS), length))


def ranks_of(order: tuple[int, ...], dtype: torch.dtype = torch.int32) -> Tensor:
    return torch.tensor([order.index(key) if key in order else -1 for key in range(KEYS)], dtype=dtype)


def mask(*keys: int) -> Tensor:
    return torch.tensor([key in keys for key in range(KEYS)])


def oldest_by_a_loop(order: tuple[int, ...], candidates: set[int], gains: tuple[int, ...], need: int) -> set[int]:
    left = [key for key in order if key in candidates]
    chosen: set[int] = set()
    while need > 0 and left:
        key = left.pop(0)
        chosen.add(key)
        need -= gains[key]
    return chosen


@pytest.mark.parametrize("order", [*queues()], ids=str)
def test_leaving_and_joining_keep_the_order_of_the_others(order: tuple[int, ...]) -> None:
    ranks = ranks_of(order)
    assert int(recency.length(ranks)) == len(order)
    for leaving in product((False, True), repeat=KEYS):
        rest = tuple(key for key in order if not leaving[key])
        assert torch.equal(recency.without(ranks, torch.tensor(leaving)), ranks_of(rest))
    for key in range(KEYS):
        moved = (*(other for other in order if other != key), key)
        assert torch.equal(recency.with_newest(ranks, mask(key)), ranks_of(moved))


@pytest.mark.parametrize("order", [(), (0,), (2, 0), (3, 1, 0, 2), (1, 3, 2)], ids=str)
def test_the_closed_form_of_eviction_is_the_loop(order: tuple[int, ...]) -> None:
    ranks = ranks_of(order)
    for gains in ((1, 1, 1, 1), (0, 2, 3, 0), (200, 100, 50, 1)):
        for chosen in product((False, True), repeat=KEYS):
            candidates = {key for key in range(KEYS) if chosen[key]}
            for need in (-1, 0, 1, 2, 3, 5, 150, 1000):
                found = recency.oldest_until(ranks, torch.tensor(chosen), torch.tensor(gains), torch.tensor(need))
                assert set(found.nonzero().flatten().tolist()) == oldest_by_a_loop(order, candidates, gains, need)


def test_several_join_in_their_turn() -> None:
    ranks = ranks_of((3,))
    joined = recency.with_newest_in_turn(ranks, mask(0, 2), torch.tensor([1, 7, 0, 7]))
    assert torch.equal(joined, ranks_of((3, 2, 0)))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_ranks_keep_their_type(dtype: torch.dtype) -> None:
    ranks = ranks_of((1, 0), dtype)
    assert recency.without(ranks, mask(1)).dtype == dtype
    assert recency.with_newest(ranks, mask(2)).dtype == dtype
    assert recency.with_newest_in_turn(ranks, mask(2), torch.zeros(KEYS, dtype=torch.int64)).dtype == dtype


def test_many_keys_at_once() -> None:
    keys = 4096
    ranks = torch.arange(keys).flip(0)
    gone = recency.oldest_until(ranks, torch.ones(keys, dtype=torch.bool), torch.full((keys,), 3), torch.tensor(100))
    assert gone.nonzero().flatten().tolist() == list(range(keys - 34, keys))
    assert int(recency.length(recency.without(ranks, gone))) == keys - 34
