"""The manager by its public face, as tests of such a manager are written: requests are whatever has the attributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from cacheimpl import EncoderCacheManager
from cacheimpl.encoder_cache.errors import (
    AlreadyCachedError,
    EncoderCacheError,
    InvalidCountError,
    NoRoomError,
    RequestMismatchError,
    SizeMismatchError,
    UnknownInputError,
)

torch.set_num_threads(1)

PLENTY = 10**9

Make = Callable[[int], EncoderCacheManager]


@dataclass
class Feature:
    identifier: str


class Request:
    """A request as later releases have it."""

    def __init__(self, request_id: str, hashes: list[str], sizes: list[int]) -> None:
        self.request_id, self.sizes = request_id, sizes
        self.mm_features = [Feature(identifier) for identifier in hashes]

    def get_num_encoder_embeds(self, input_id: int) -> int:
        return self.sizes[input_id]


class EarlyRequest:
    """A request as the first releases with sharing have it."""

    def __init__(self, request_id: str, hashes: list[str], sizes: list[int]) -> None:
        self.request_id, self.mm_hashes, self.sizes = request_id, hashes, sizes

    def get_num_encoder_tokens(self, input_id: int) -> int:
        return self.sizes[input_id]


DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES)
def manager_of(request: pytest.FixtureRequest) -> Make:
    return lambda cache_size: EncoderCacheManager(cache_size, device=request.param)


def cache_inputs(manager: EncoderCacheManager, request: Any, *input_ids: int) -> None:
    """What a scheduler does for inputs that are not resident."""
    pending = 0
    for input_id in input_ids:
        assert manager.can_allocate(request, input_id, PLENTY, pending)
        pending += request.sizes[input_id]
    for input_id in input_ids:
        manager.allocate(request, input_id)


def everything(manager: EncoderCacheManager) -> tuple[Any, ...]:
    return (
        manager.num_free_slots,
        manager.num_freeable_slots,
        manager.cached,
        list(manager.freeable.items()),
        manager.freed,
    )


@pytest.mark.parametrize("kind", [Request, EarlyRequest])
def test_an_input_is_allocated_found_and_released(manager_of: Make, kind: type[Any]) -> None:
    manager, request = manager_of(10), kind("one", ["picture"], [4])
    assert not manager.check_and_update_cache(request, 0)
    cache_inputs(manager, request, 0)
    assert manager.check_and_update_cache(request, 0)
    assert (manager.cache_size, manager.num_free_slots, manager.num_freeable_slots) == (10, 6, 6)
    assert manager.cached == {"picture": {"one"}}
    manager.free_encoder_input(request, 0)
    assert manager.cached == {"picture": set()}
    assert dict(manager.freeable) == {"picture": 4}
    assert (manager.num_free_slots, manager.num_freeable_slots) == (6, 10)


def test_two_requests_share_an_entry(manager_of: Make) -> None:
    manager = manager_of(10)
    first, second = Request("first", ["picture"], [4]), Request("second", ["picture"], [4])
    cache_inputs(manager, first, 0)
    assert manager.check_and_update_cache(second, 0)
    assert manager.num_free_slots == 6
    manager.free(first)
    assert manager.cached == {"picture": {"second"}}
    assert not manager.freeable
    manager.free(second)
    assert list(manager.freeable) == ["picture"]


def test_a_check_takes_an_idle_entry_back(manager_of: Make) -> None:
    manager, request = manager_of(10), Request("one", ["picture"], [4])
    cache_inputs(manager, request, 0)
    manager.free_encoder_input(request, 0)
    later = Request("later", ["picture"], [4])
    assert manager.check_and_update_cache(later, 0)
    assert not manager.freeable
    assert manager.num_freeable_slots == 6


def test_the_longest_idle_is_evicted_and_reported_once(manager_of: Make) -> None:
    manager = manager_of(6)
    old = Request("old", ["a", "b", "c"], [2, 2, 2])
    cache_inputs(manager, old, 0, 1, 2)
    manager.free_encoder_input(old, 1)
    manager.free_encoder_input(old, 0)
    assert list(manager.freeable) == ["b", "a"]
    new = Request("new", ["d"], [1])
    assert manager.can_allocate(new, 0, PLENTY, 0)
    assert manager.freed == ["b"]
    manager.allocate(new, 0)
    assert set(manager.cached) == {"a", "c", "d"}
    assert manager.num_free_slots == 1
    assert manager.get_freed_mm_hashes() == ["b"]
    assert manager.get_freed_mm_hashes() == []


def test_a_no_evicts_nothing(manager_of: Make) -> None:
    manager = manager_of(6)
    held, idle = Request("held", ["a"], [4]), Request("idle", ["b"], [2])
    cache_inputs(manager, held, 0)
    cache_inputs(manager, idle, 0)
    manager.free(idle)
    before = everything(manager)
    assert not manager.can_allocate(Request("new", ["c"], [3]), 0, PLENTY, 0)
    assert everything(manager) == before


def test_can_allocate_takes_two_three_and_four_arguments(manager_of: Make) -> None:
    manager, request = manager_of(5), Request("one", ["a", "b"], [3, 2])
    assert manager.can_allocate(request, 0)
    assert not manager.can_allocate(request, 0, 2)
    assert manager.can_allocate(request, 0, 3)
    assert manager.can_allocate(request, 1, PLENTY, 3)
    assert not manager.can_allocate(request, 1, PLENTY, 4)
    assert not manager.can_allocate(request, 1, num_tokens_to_schedule=4)
    assert not manager.can_allocate(request, 1, PLENTY, num_embeds_to_schedule=4)


def test_inputs_of_one_pass_are_counted_together(manager_of: Make) -> None:
    manager, request = manager_of(5), Request("one", ["a", "b", "c"], [2, 2, 2])
    assert manager.can_allocate(request, 0, PLENTY, 0)
    assert manager.can_allocate(request, 1, PLENTY, 2)
    assert not manager.can_allocate(request, 2, PLENTY, 4)


def test_a_repeated_item_is_held_until_its_last_occurrence(manager_of: Make) -> None:
    manager, request = manager_of(10), Request("one", ["same", "other", "same"], [4, 3, 4])
    cache_inputs(manager, request, 0, 1)
    assert manager.check_and_update_cache(request, 2)
    assert manager.num_free_slots == 3
    manager.free_encoder_input(request, 0)
    assert manager.cached["same"] == {"one"}
    assert manager.get_cached_input_ids(request) == {1, 2}
    manager.free_encoder_input(request, 2)
    assert list(manager.freeable) == ["same"]


def test_what_is_evicted_and_created_again_is_not_reported(manager_of: Make) -> None:
    manager = manager_of(4)
    first, second = Request("first", ["a"], [4]), Request("second", ["b"], [4])
    cache_inputs(manager, first, 0)
    manager.free(first)
    cache_inputs(manager, second, 0)
    manager.free(second)
    cache_inputs(manager, first, 0)
    assert manager.get_freed_mm_hashes() == ["b"]


def test_a_request_is_released_from_its_first_input_to_its_last(manager_of: Make) -> None:
    manager, request = manager_of(10), Request("one", ["c", "a", "c", "b"], [1, 1, 1, 1])
    cache_inputs(manager, request, 3, 1, 0)
    assert manager.check_and_update_cache(request, 2)
    manager.free(request)
    assert list(manager.freeable) == ["a", "c", "b"]
    assert manager.get_cached_input_ids(request) == set()


def test_releasing_what_is_not_held_changes_nothing(manager_of: Make) -> None:
    manager = manager_of(10)
    one, other = Request("one", ["a", "b"], [4, 3]), Request("other", ["a"], [4])
    cache_inputs(manager, one, 0)
    before = everything(manager)
    manager.free_encoder_input(one, 1)
    manager.free_encoder_input(other, 0)
    manager.free(other)
    manager.free(Request("stranger", ["z"], [1]))
    assert everything(manager) == before
    manager.free_encoder_input(one, 0)
    once = everything(manager)
    manager.free_encoder_input(one, 0)
    manager.free(one)
    assert everything(manager) == once


def test_reset_forgets_everything(manager_of: Make) -> None:
    manager, request = manager_of(4), Request("one", ["a", "b"], [2, 4])
    cache_inputs(manager, request, 0)
    manager.free(request)
    cache_inputs(manager, request, 1)
    manager.reset()
    assert everything(manager) == (4, 4, {}, [], [])
    assert manager.get_cached_input_ids(request) == set()
    cache_inputs(manager, request, 0)
    assert manager.cached == {"a": {"one"}}


def test_an_abandoned_admission_gives_back_what_its_checks_pinned(manager_of: Make) -> None:
    manager = manager_of(6)
    first = Request("first", ["a"], [3])
    cache_inputs(manager, first, 0)
    manager.free(first)
    waiting = Request("waiting", ["a", "b"], [3, 4])
    assert manager.check_and_update_cache(waiting, 0)
    assert not manager.can_allocate(waiting, 1, PLENTY, 0)
    manager.abandon(waiting)
    assert manager.cached == {"a": set()}
    assert manager.num_freeable_slots == 6


def test_items_of_no_size_are_cached(manager_of: Make) -> None:
    manager, request = manager_of(0), Request("one", ["nothing"], [0])
    cache_inputs(manager, request, 0)
    assert manager.cached == {"nothing": {"one"}}
    manager.free(request)
    assert dict(manager.freeable) == {"nothing": 0}


def test_the_tables_grow(manager_of: Make) -> None:
    count = 40
    manager = manager_of(3 * count)
    requests = [Request(f"request {number}", [f"item {number}"] * 7, [3] * 7) for number in range(count)]
    for request in requests:
        cache_inputs(manager, request, 6)
    assert manager.num_free_slots == 0
    assert manager.cached == {f"item {number}": {f"request {number}"} for number in range(count)}
    for request in reversed(requests):
        manager.free(request)
    assert list(manager.freeable) == [f"item {number}" for number in reversed(range(count))]


@pytest.mark.parametrize("finishes", [True, False])
def test_rows_are_used_again(manager_of: Make, finishes: bool) -> None:
    manager = manager_of(6)
    for number in range(60):
        request = Request(f"request {number}", [f"item {number}"], [3])
        cache_inputs(manager, request, 0)
        if finishes:
            manager.free(request)
        else:
            manager.free_encoder_input(request, 0)
        assert manager.get_freed_mm_hashes() == ([f"item {number - 2}"] if number >= 2 else [])
    tables = manager._tables
    assert tables.requests.count == tables.contents.count == 8


# Misuse: a clear exception, and the state as it was -----------------------------------------------------------------


@pytest.fixture
def used(manager_of: Make) -> EncoderCacheManager:
    """Six slots: `a` is held by `one`, `b` is idle, one slot is free."""
    manager = manager_of(6)
    one, two = Request("one", ["a"], [3]), Request("two", ["b"], [2])
    cache_inputs(manager, one, 0)
    cache_inputs(manager, two, 0)
    manager.free(two)
    return manager


@pytest.mark.parametrize(
    ("error", "misuse"),
    [
        (AlreadyCachedError, lambda manager: manager.allocate(Request("one", ["a"], [3]), 0)),
        (AlreadyCachedError, lambda manager: manager.allocate(Request("new", ["b"], [2]), 0)),
        (NoRoomError, lambda manager: manager.allocate(Request("new", ["c"], [2]), 0)),
        (AssertionError, lambda manager: manager.allocate(Request("new", ["c"], [2]), 0)),
        (SizeMismatchError, lambda manager: manager.check_and_update_cache(Request("new", ["a"], [4]), 0)),
        (SizeMismatchError, lambda manager: manager.free_encoder_input(Request("one", ["a"], [4]), 0)),
        (RequestMismatchError, lambda manager: manager.check_and_update_cache(Request("one", ["b"], [2]), 0)),
        (UnknownInputError, lambda manager: manager.check_and_update_cache(Request("one", ["a"], [3]), 1)),
        (UnknownInputError, lambda manager: manager.free_encoder_input(Request("one", ["a"], [3]), -1)),
        (IndexError, lambda manager: manager.can_allocate(Request("new", [], []), 0)),
        (InvalidCountError, lambda manager: manager.can_allocate(Request("new", ["c"], [-1]), 0)),
        (InvalidCountError, lambda manager: manager.can_allocate(Request("new", ["c"], [2**62]), 0)),
        (InvalidCountError, lambda manager: manager.can_allocate(Request("new", ["c"], [1]), 0, PLENTY, -1)),
        (InvalidCountError, lambda manager: manager.can_allocate(Request("new", ["c"], [1]), 0, 1.5)),
    ],
)
def test_misuse_raises_and_changes_nothing(
    used: EncoderCacheManager, error: type[Exception], misuse: Callable[[EncoderCacheManager], object]
) -> None:
    before = everything(used)
    with pytest.raises(error) as raised:
        misuse(used)
    assert isinstance(raised.value, EncoderCacheError)
    assert everything(used) == before == (1, 3, {"a": {"one"}, "b": set()}, [("b", 2)], [])


@pytest.mark.parametrize("cache_size", [-1, 2**62, 1.5, None])
def test_a_capacity_that_is_none(cache_size: Any) -> None:
    with pytest.raises(InvalidCountError, match="cache_size"):
        EncoderCacheManager(cache_size)


def test_huge_counts_do_not_overflow(manager_of: Make) -> None:
    largest = 2**62 - 1
    manager, request = manager_of(largest), Request("one", ["a"], [largest])
    assert manager.can_allocate(request, 0)
    assert not manager.can_allocate(request, 0, PLENTY, largest)
    assert not manager.can_allocate(request, 0, 2**70, largest)
    assert not manager.can_allocate(request, 0, -(2**70))
    manager.allocate(request, 0)
    assert manager.num_free_slots == 0
