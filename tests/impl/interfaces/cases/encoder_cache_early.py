"""What an engine's tests ask of the early `EncoderCacheManager`, by its own names; `api` has ours, or that of 0.7.3.

Standard library only.
"""

from __future__ import annotations

from typing import Any


class Request:
    """What that manager reads of a request."""

    def __init__(self, request_id: str, sizes: list[int]) -> None:
        self.request_id, self.sizes = request_id, sizes

    def get_num_encoder_tokens(self, input_id: int) -> int:
        return self.sizes[input_id]


def raises(call: Any) -> bool:
    try:
        call()
    except Exception:  # noqa: BLE001  # that there is one is the question
        return True
    return False


def case_an_input_is_cached_and_freed(api: Any) -> None:
    manager, request = api.manager(cache_size=100), Request("r", [40, 60])
    assert (manager.cache_size, manager.num_free_slots, manager.cached, manager.freed) == (100, 100, {}, [])
    assert not manager.has_cache(request, 0)
    assert manager.can_allocate(request, 0)
    manager.allocate(request, 0)
    assert manager.has_cache(request, 0)
    assert not manager.has_cache(request, 1)
    assert manager.cached == {"r": {0}}
    assert manager.num_free_slots == 60
    manager.free_encoder_input(request, 0)
    assert manager.cached == {}
    assert manager.freed == [("r", 0)]
    assert manager.get_freed_ids() == [("r", 0)]
    assert (manager.freed, manager.num_free_slots) == ([], 100)


def case_what_has_no_room_is_refused(api: Any) -> None:
    manager, request = api.manager(100), Request("r", [101])
    assert not manager.can_allocate(request, 0)
    assert manager.num_free_slots == 100


def case_a_question_changes_nothing(api: Any) -> None:
    manager, request = api.manager(100), Request("r", [60])
    assert [manager.can_allocate(request, 0) for _ in range(3)] == [True] * 3
    assert (manager.num_free_slots, manager.cached) == (100, {})


def case_inputs_of_a_request(api: Any) -> None:
    manager, request = api.manager(100), Request("r", [10, 20, 30])
    assert manager.get_cached_input_ids(request) == set()
    for input_id in (0, 2):
        manager.allocate(request, input_id)
    assert manager.get_cached_input_ids(request) == {0, 2}
    manager.free(request)
    assert manager.get_cached_input_ids(request) == set()
    assert sorted(manager.get_freed_ids()) == [("r", 0), ("r", 2)]
    assert manager.num_free_slots == 100


def case_requests_share_nothing(api: Any) -> None:
    manager = api.manager(100)
    one, other = Request("one", [40]), Request("other", [40])
    manager.allocate(one, 0)
    assert not manager.has_cache(other, 0)
    manager.allocate(other, 0)
    assert manager.num_free_slots == 20
    manager.free(one)
    assert manager.cached == {"other": {0}}


def case_freeing_a_request_without_entries(api: Any) -> None:
    manager = api.manager(100)
    manager.free(Request("stranger", [1]))
    manager.free_encoder_input(Request("stranger", [1]), 0)
    assert (manager.num_free_slots, manager.freed) == (100, [])


def case_an_input_that_is_not_cached_gives_nothing_back(api: Any) -> None:
    manager, request = api.manager(100), Request("r", [40, 40])
    manager.allocate(request, 0)
    manager.free_encoder_input(request, 1)
    assert (manager.num_free_slots, manager.freed) == (60, [])


def case_an_input_is_charged_once(api: Any) -> None:
    manager, request = api.manager(100), Request("r", [40])
    manager.allocate(request, 0)
    raises(lambda: manager.allocate(request, 0))
    assert manager.num_free_slots == 60


def case_what_is_granted_in_one_pass_has_room_together(api: Any) -> None:
    manager, request = api.manager(100), Request("r", [50, 40, 40])
    manager.allocate(request, 0)
    granted = [input_id for input_id in (1, 2) if manager.can_allocate(request, input_id)]
    for input_id in granted:
        manager.allocate(request, input_id)
    assert manager.num_free_slots >= 0


def case_without_room_nothing_is_allocated(api: Any) -> None:
    manager, request = api.manager(10), Request("r", [11])
    assert raises(lambda: manager.allocate(request, 0))
    assert (manager.num_free_slots, manager.cached) == (10, {})


def case_what_is_cached_again_is_not_reported(api: Any) -> None:
    manager, request = api.manager(100), Request("r", [40])
    manager.allocate(request, 0)
    manager.free_encoder_input(request, 0)
    manager.allocate(request, 0)
    assert manager.get_freed_ids() == []


def case_an_entry_gives_back_what_it_took(api: Any) -> None:
    manager = api.manager(100)
    manager.allocate(Request("r", [40]), 0)
    manager.free_encoder_input(Request("r", [50]), 0)
    assert manager.num_free_slots == 100


def case_a_negative_size(api: Any) -> None:
    manager, request = api.manager(100), Request("r", [-40])
    raises(lambda: manager.allocate(request, 0))
    assert manager.num_free_slots == 100
