"""Encoder entries whose item left the plan of its step (C-ENC-26): the next request that needs the item encodes it."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from cacheimpl.encoder_cache.manager import EncoderCacheManager
from cacheimpl.vllm.encoder import PlannedEncoderCacheManager


def request(name: str, *contents: str, size: int = 4) -> Any:
    """A request with these items."""
    items = [
        SimpleNamespace(identifier=one, mm_position=SimpleNamespace(length=size, get_num_embeds=lambda: size))
        for one in contents
    ]
    return SimpleNamespace(
        request_id=name, mm_features=items, get_num_encoder_embeds=lambda _: size, get_num_encoder_tokens=lambda _: size
    )


def planned(manager: EncoderCacheManager, asking: Any, budget: int = 100) -> list[int]:
    """The scheduler's calls for all items of a request: which ones the step is to encode."""
    encodes, pending = list[int](), 0
    for number in range(len(asking.mm_features)):
        if manager.check_and_update_cache(asking, number):
            continue
        if not manager.can_allocate(asking, number, budget, pending):
            break
        pending, budget = pending + 4, budget - 4
        encodes.append(number)
    for number in encodes:
        manager.allocate(asking, number)
    return encodes


@pytest.mark.parametrize("other", [False, True], ids=["the same request", "another one"])
def test_an_item_that_left_the_plan_is_encoded_later(other: bool) -> None:
    manager, low = PlannedEncoderCacheManager(8), request("low", "a")
    assert planned(manager, low) == [0]
    manager.free(low)  # preempted in the step that scheduled it
    assert manager.get_freed_mm_hashes() == []
    again = request("other", "a") if other else low
    assert planned(manager, again) == [0]
    manager.get_freed_mm_hashes()
    assert planned(manager, request("third", "a")) == []
    assert manager.cached == {"a": {again.request_id, "third"}}
    assert manager.num_free_slots == 4


def test_the_plain_manager_says_that_it_is_cached() -> None:
    manager, low = EncoderCacheManager(8), request("low", "a")
    assert planned(manager, low) == [0]
    manager.free(low)
    manager.get_freed_mm_hashes()
    assert planned(manager, low) == []


def test_an_item_of_an_earlier_step_stays_cached() -> None:
    manager, low = PlannedEncoderCacheManager(8), request("low", "a")
    assert planned(manager, low) == [0]
    manager.get_freed_mm_hashes()  # the plan is final: workers encode it
    manager.free(low)
    assert planned(manager, low) == []


def test_an_entry_that_was_evicted_is_entered_anew() -> None:
    manager, low = PlannedEncoderCacheManager(4), request("low", "a")
    planned(manager, low)
    manager.free(low)
    manager.get_freed_mm_hashes()
    assert planned(manager, request("other", "b")) == [0]
    assert manager.get_freed_mm_hashes() == ["a"]
    manager.free(request("other", "b"))
    assert planned(manager, low) == [0]
    assert manager.cached == {"a": {"low"}}


def test_the_compute_budget_counts_for_it() -> None:
    manager, low = PlannedEncoderCacheManager(4), request("low", "a")
    planned(manager, low)
    manager.free(low)
    manager.get_freed_mm_hashes()
    assert planned(manager, low, budget=3) == []
    assert planned(manager, low, budget=4) == [0]


def test_a_reset_forgets_it() -> None:
    manager, low = PlannedEncoderCacheManager(4), request("low", "a")
    planned(manager, low)
    manager.free(low)
    manager.reset()
    assert planned(manager, low) == [0]
    assert manager.num_free_slots == 0


@pytest.mark.parametrize("manager", [PlannedEncoderCacheManager, EncoderCacheManager])
@pytest.mark.parametrize("seed", range(4))
def test_no_step_reads_what_was_not_encoded(manager: type[EncoderCacheManager], seed: int) -> None:
    """Random steps with preemptions: workers have each item that a step counts as cached. The plain manager fails."""
    rng, ours, workers = random.Random(seed), manager(16), set[str]()
    live = dict[str, Any]()
    missed = 0
    for step in range(150):
        encodes = dict[str, list[int]]()
        for number in range(rng.randint(1, 3)):
            name = f"{step}.{number}"
            live[name] = request(name, *rng.sample("abcdefgh", rng.randint(1, 2)))
            encodes[name] = planned(ours, live[name])
            if rng.random() < 0.3:  # preempted before another request of the step could share its items
                ours.free(live.pop(name))
                encodes.pop(name)
        for name, numbers in encodes.items():
            workers |= {live[name].mm_features[number].identifier for number in numbers}
        workers -= set(ours.get_freed_mm_hashes())
        missed += sum(content not in workers for content, held in ours.cached.items() if held)
        for name in rng.sample(sorted(live), len(live) * 2 // 3):
            ours.free(live.pop(name))
    assert bool(missed) == (manager is EncoderCacheManager)
