"""What an engine's tests ask of the `EncoderCacheManager` that shares by content; `api` has ours, or a release's.

Standard library only.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

PLENTY = 10**6


class Request:
    """What those managers read of a request."""

    def __init__(self, request_id: str, hashes: list[str], sizes: list[int]) -> None:
        self.request_id, self.sizes = request_id, sizes
        self.mm_features = [SimpleNamespace(identifier=mm_hash) for mm_hash in hashes]

    def get_num_encoder_embeds(self, input_id: int) -> int:
        return self.sizes[input_id]

    get_num_encoder_tokens = get_num_encoder_embeds


def raises(call: Any) -> bool:
    try:
        call()
    except Exception:  # noqa: BLE001  # that there is one is the question
        return True
    return False


def cache(manager: Any, request: Request, *input_ids: int) -> None:
    """As a scheduler does it."""
    for input_id in input_ids:
        if not manager.check_and_update_cache(request, input_id):
            assert manager.can_allocate(request, input_id, PLENTY, 0)
            manager.allocate(request, input_id)


def state(manager: Any) -> Any:
    return (
        manager.num_free_slots,
        manager.num_freeable_slots,
        {name: set(holders) for name, holders in manager.cached.items()},
        dict(manager.freeable),
        list(manager.freed),
    )


def case_an_input_is_cached_and_freed(api: Any) -> None:
    manager, request = api.manager(cache_size=10), Request("r", ["image"], [4])
    assert (manager.cache_size, manager.num_free_slots, manager.num_freeable_slots) == (10, 10, 10)
    assert not manager.check_and_update_cache(request, 0)
    cache(manager, request, 0)
    assert manager.check_and_update_cache(request, 0)
    assert state(manager) == (6, 6, {"image": {"r"}}, {}, [])
    manager.free_encoder_input(request, 0)
    assert state(manager) == (6, 10, {"image": set()}, {"image": 4}, [])
    assert manager.get_freed_mm_hashes() == []


def case_requests_share_what_shows_the_same(api: Any) -> None:
    manager = api.manager(10)
    one, other = Request("one", ["image"], [4]), Request("other", ["image"], [4])
    cache(manager, one, 0)
    assert manager.check_and_update_cache(other, 0)
    assert manager.cached["image"] == {"one", "other"}
    manager.free(one)
    assert list(manager.freeable) == []
    manager.free(other)
    assert list(manager.freeable) == ["image"]
    assert manager.num_free_slots == 6


def case_what_nobody_holds_is_evicted_the_longest_idle_first(api: Any) -> None:
    manager = api.manager(10)
    for name in "abc":
        cache(manager, Request(name, [name], [3]), 0)
        manager.free(Request(name, [name], [3]))
    assert list(manager.freeable) == ["a", "b", "c"]
    assert manager.can_allocate(Request("d", ["d"], [5]), 0, PLENTY, 0)
    assert list(manager.freeable) == ["c"]
    assert manager.get_freed_mm_hashes() == ["a", "b"]
    assert manager.get_freed_mm_hashes() == []


def case_what_is_held_is_not_evicted(api: Any) -> None:
    manager = api.manager(10)
    cache(manager, Request("one", ["a"], [6]), 0)
    assert not manager.can_allocate(Request("other", ["b"], [5]), 0, PLENTY, 0)
    assert manager.cached == {"a": {"one"}}


def case_a_check_holds_what_was_idle(api: Any) -> None:
    manager, request = api.manager(10), Request("one", ["a"], [6])
    cache(manager, request, 0)
    manager.free(request)
    assert manager.check_and_update_cache(Request("other", ["a"], [6]), 0)
    assert state(manager) == (4, 4, {"a": {"other"}}, {}, [])


def case_the_compute_budget_is_asked_first(api: Any) -> None:
    manager, request = api.manager(10), Request("r", ["a"], [6])
    assert not manager.can_allocate(request, 0, 5, 0)
    assert manager.can_allocate(request, 0, 6, 0)


def case_what_is_granted_already_counts(api: Any) -> None:
    manager, request = api.manager(10), Request("r", ["a", "b"], [6, 5])
    assert manager.can_allocate(request, 0, PLENTY, 0)
    assert not manager.can_allocate(request, 1, PLENTY, 6)


def case_freeing_what_is_not_held(api: Any) -> None:
    manager, request = api.manager(10), Request("r", ["a", "b"], [4, 3])
    cache(manager, request, 0)
    before = state(manager)
    manager.free_encoder_input(request, 1)
    manager.free(Request("stranger", ["z"], [1]))
    assert state(manager) == before


def case_inputs_of_a_request(api: Any) -> None:
    manager, request = api.manager(10), Request("r", ["a", "b", "c"], [1, 1, 1])
    cache(manager, request, 0, 2)
    assert manager.get_cached_input_ids(request) == {0, 2}
    manager.free(request)
    assert manager.num_freeable_slots == 10


def case_inputs_that_others_hold_are_not_the_requests(api: Any) -> None:
    manager = api.manager(10)
    cache(manager, Request("one", ["a"], [1]), 0)
    assert manager.get_cached_input_ids(Request("other", ["a"], [1])) == set()


def case_an_item_that_comes_twice_is_charged_once(api: Any) -> None:
    manager, request = api.manager(10), Request("r", ["same", "same"], [4, 4])
    cache(manager, request, 0)
    raises(lambda: manager.allocate(request, 1))
    assert manager.num_free_slots == 6


def case_an_item_that_comes_twice_is_held_until_its_last_place(api: Any) -> None:
    manager, request = api.manager(10), Request("r", ["same", "same"], [4, 4])
    cache(manager, request, 0, 1)
    manager.free_encoder_input(request, 0)
    assert list(manager.freeable) == []
    manager.free_encoder_input(request, 1)
    assert list(manager.freeable) == ["same"]


def case_what_is_cached_again_is_not_reported(api: Any) -> None:
    manager = api.manager(4)
    first, second = Request("1", ["a"], [4]), Request("2", ["b"], [4])
    for request in (first, second, first):
        cache(manager, request, 0)
        manager.free(request)
    assert manager.get_freed_mm_hashes() == ["b"]


def case_what_is_evicted_twice_is_reported_once(api: Any) -> None:
    manager = api.manager(4)
    for name in ("a", "b", "a", "b"):
        cache(manager, Request(name, [name], [4]), 0)
        manager.free(Request(name, [name], [4]))
    assert manager.can_allocate(Request("c", ["c"], [4]), 0, PLENTY, 0)
    assert sorted(manager.get_freed_mm_hashes()) == ["a", "b"]


def case_an_entry_gives_back_what_it_took(api: Any) -> None:
    manager = api.manager(100)
    cache(manager, Request("one", ["a"], [10]), 0)
    other = Request("other", ["a"], [30])
    raises(lambda: manager.check_and_update_cache(other, 0))
    manager.free(Request("one", ["a"], [10]))
    raises(lambda: manager.free(other))
    assert manager.num_freeable_slots == 100


def case_a_failed_allocation_leaves_nothing_behind(api: Any) -> None:
    manager, request = api.manager(4), Request("r", ["a"], [5])
    assert raises(lambda: manager.allocate(request, 0))
    assert state(manager) == (4, 4, {}, {}, [])


def case_reset(api: Any) -> None:
    manager, request = api.manager(10), Request("r", ["a"], [4])
    cache(manager, request, 0)
    getattr(manager, "reset", api.absent)()
    assert state(manager) == (10, 10, {}, {}, [])


def case_who_holds_what_of_which_size(api: Any) -> None:
    manager = getattr(api.manager, "create_manager", api.absent)(cache_size=10, vllm_config=None)
    request = Request("r", ["same", "same", "other"], [4, 4, 3])
    cache(manager, request, 0, 1, 2)
    assert manager.num_embeds_by_hash == {"same": 4, "other": 3}
    assert manager.request_cached_ids == {"r": {0, 1, 2}}
    assert manager.request_hash_refs == {"r": {"same": 2, "other": 1}}
    assert manager.get_cached_num_encoder_embeds(request, 1) == 4
    assert manager.get_cached_num_encoder_embeds(Request("s", ["absent"], [1]), 0) is None
    assert manager.get_manager_metadata() is None
