"""`EncoderCacheManager` in both of its shapes, as tests of such a manager are written; and the same with releases."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.impl.interfaces.cases import encoder_cache as shared
from tests.impl.interfaces.cases import encoder_cache_early as early
from tests.impl.interfaces.releases import Case, Difference, check_release, each

from cacheimpl.encoder_cache.early import EarlyEncoderCacheManager
from cacheimpl.encoder_cache.errors import (
    AlreadyCachedError,
    EncoderCacheError,
    InvalidCountError,
    NoRoomError,
    UnknownInputError,
)
from cacheimpl.encoder_cache.manager import EncoderCacheManager

torch.set_num_threads(1)

VERSIONS = ("0.11.0", "0.20.2", "0.33.0")

BEFORE_0_33 = ("0.11.0", "0.20.2")
EARLY = ("0.7.3",)

EARLY_DIFFERENCES = {
    "an_input_that_is_not_cached_gives_nothing_back": Difference(EARLY, "C-ENC-1"),
    "an_input_is_charged_once": Difference(EARLY, "C-ENC-2"),
    "what_is_granted_in_one_pass_has_room_together": Difference(EARLY, "C-ENC-3"),
    "without_room_nothing_is_allocated": Difference(EARLY, "C-ENC-3"),
    "what_is_cached_again_is_not_reported": Difference(EARLY, "C-ENC-8"),
    "an_entry_gives_back_what_it_took": Difference(EARLY, "C-ENC-18"),
    "a_negative_size": Difference(EARLY, "no release looks"),
}
SHARED_DIFFERENCES = {
    "an_item_that_comes_twice_is_charged_once": Difference(VERSIONS, "C-ENC-6"),
    "an_item_that_comes_twice_is_held_until_its_last_place": Difference(BEFORE_0_33, "C-ENC-7"),
    "what_is_cached_again_is_not_reported": Difference(BEFORE_0_33, "C-ENC-8"),
    "an_entry_gives_back_what_it_took": Difference(BEFORE_0_33, "C-ENC-18"),
    "a_failed_allocation_leaves_nothing_behind": Difference(VERSIONS, "C-ENC-19"),
    "what_is_evicted_twice_is_reported_once": Difference(VERSIONS, "C-ENC-20"),
    "inputs_that_others_hold_are_not_the_requests": Difference(BEFORE_0_33, "ENC-5"),
}


def absent(*_: Any, **__: Any) -> Any:
    raise AssertionError("ours has everything")


@pytest.mark.parametrize("case", each(early))
def test_early(case: Case) -> None:
    case(SimpleNamespace(manager=EarlyEncoderCacheManager))


@pytest.mark.parametrize("case", each(shared))
def test_shared(case: Case) -> None:
    case(SimpleNamespace(manager=EncoderCacheManager, absent=absent))


@pytest.mark.nightly
def test_early_released() -> None:
    check_release("0.7.3", early, EARLY_DIFFERENCES)


@pytest.mark.nightly
@pytest.mark.parametrize("version", VERSIONS)
def test_shared_released(version: str) -> None:
    check_release(version, shared, SHARED_DIFFERENCES)


# What is ours alone in the early shape ------------------------------------------------------------------------------


def state(manager: EarlyEncoderCacheManager) -> Any:
    return manager.num_free_slots, {name: set(ids) for name, ids in manager.cached.items()}, list(manager.freed)


@pytest.mark.parametrize(
    ("error", "misuse"),
    [
        (AlreadyCachedError, lambda m: m.allocate(early.Request("one", [4]), 0)),
        (NoRoomError, lambda m: m.allocate(early.Request("new", [7]), 0)),
        (AssertionError, lambda m: m.allocate(early.Request("new", [7]), 0)),
        (InvalidCountError, lambda m: m.allocate(early.Request("new", [-1]), 0)),
        (InvalidCountError, lambda m: m.can_allocate(early.Request("new", [1.5]), 0)),  # type: ignore[list-item]  # misuse
        (InvalidCountError, lambda m: m.can_allocate(early.Request("new", [1]), 0, 8, -1)),
        (UnknownInputError, lambda m: m.has_cache(early.Request("one", [4]), -1)),
        (UnknownInputError, lambda m: m.free_encoder_input(early.Request("one", [4]), -1)),
    ],
)
def test_misuse_raises_and_changes_nothing(error: type[Exception], misuse: Any) -> None:
    manager = EarlyEncoderCacheManager(10)
    manager.allocate(early.Request("one", [4]), 0)
    before = state(manager)
    with pytest.raises(error) as raised:
        misuse(manager)
    assert isinstance(raised.value, EncoderCacheError)
    assert state(manager) == before == (6, {"one": {0}}, [])


def test_who_counts_what_was_granted() -> None:
    manager, request = EarlyEncoderCacheManager(10), early.Request("r", [6, 6])
    assert manager.can_allocate(request, 0)
    assert not manager.can_allocate(request, 1)
    assert manager.can_allocate(request, 1, 100, 0)
    assert not manager.can_allocate(request, 1, 100, 6)
    assert not manager.can_allocate(request, 1, 5)
    manager.get_freed_ids()
    assert manager.can_allocate(request, 1)
    manager.free(request)
    assert manager.can_allocate(request, 0)
    manager.reset()
    assert state(manager) == (10, {}, [])


@pytest.mark.parametrize("seed", range(5))
def test_every_slot_is_accounted_for(seed: int) -> None:
    """Any calls at all: what is free and what entries took add up, and whatever was freed is reported once."""
    choose, manager = random.Random(seed), EarlyEncoderCacheManager(12)
    requests = [early.Request(str(name), [choose.randrange(6) for _ in range(3)]) for name in range(4)]
    taken: dict[tuple[str, int], int] = {}
    gone: list[tuple[str, int]] = []
    for _ in range(400):
        request, input_id = choose.choice(requests), choose.randrange(3)
        name, size = (request.request_id, input_id), request.sizes[input_id]
        call = choose.choice(["ask", "allocate", "allocate", "free", "finish", "report"])
        if call == "ask" and manager.can_allocate(request, input_id):
            assert size <= manager.num_free_slots
        elif call == "allocate" and not early.raises(lambda r=request, i=input_id: manager.allocate(r, i)):
            taken[name] = size
        elif call == "free":
            manager.free_encoder_input(request, input_id)
            gone += [name] if taken.pop(name, None) is not None else []
        elif call == "finish":
            manager.free(request)
            for place in range(3):
                gone += [(name[0], place)] if taken.pop((name[0], place), None) is not None else []
        elif call == "report":
            assert manager.get_freed_ids() == [one for one in dict.fromkeys(gone) if one not in taken]
            gone = []
        assert manager.num_free_slots == 12 - sum(taken.values()) >= 0
        assert manager.cached == {
            request.request_id: {i for name, i in taken if name == request.request_id}
            for request in requests
            if any(name == request.request_id for name, _ in taken)
        }
