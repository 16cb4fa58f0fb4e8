"""What an engine's tests ask of the caches of processed items, by their own names; `api` has ours, or a release's.

Standard library only, and the torch and numpy of `api`. A cache has room for 10 bytes where nothing else is said.
"""

from __future__ import annotations

from typing import Any


def call(api: Any, owner: Any, name: str, *arguments: Any, **named: Any) -> Any:
    """A method that some releases lack."""
    return getattr(owner, name, api.absent)(*arguments, **named)


def keys(cache: Any) -> list[str]:
    """Cached keys, the oldest first."""
    return [key for key in cache._cache.order if key in cache._cache]


def put(api: Any, cache: Any, *names: str, size: int = 1) -> None:
    for name in names:
        cache.get_and_update_item((api.item(size), [name]), name)


def error_of(run: Any) -> type[Exception] | None:
    try:
        run()
    except Exception as error:  # noqa: BLE001  # which one is the question
        return type(error)
    return None


# Sizes --------------------------------------------------------------------------------------------------------------


def case_what_tensors_weigh(api: Any) -> None:
    size = api.MultiModalCache.get_item_size
    one, four = api.torch.zeros(3, dtype=api.torch.float16), api.torch.zeros(4, dtype=api.torch.uint8)
    assert size(one) == 6
    assert size({"pixels": one, "more": [four, (four, one)]}) == 20
    assert size(api.item(7)) == 7
    assert size({"item": api.item(7), "tensor": four}, debug=True) == 11
    assert api.MultiModalCache.get_leaf_size(four) == 4


def case_what_caches_keep_weighs_what_the_item_does(api: Any) -> None:
    size = api.MultiModalCache.get_item_size
    assert size(api.MultiModalProcessorCacheItem(api.item(7), ["update"])) == 7
    metadata = api.MultiModalProcessorCacheItemMetadata(api.item(7), ["update"])
    assert (metadata.item_size, metadata.prompt_updates) == (7, ["update"])
    assert not hasattr(metadata, "item")
    assert size(metadata) == 7


def case_how_many_leaves_there_are(api: Any) -> None:
    count = api.MultiModalCache.get_item_complexity
    assert count(1) == 1
    assert count({"a": [1, 2, (3,)], "b": {"c": 4}}) == 4


def case_nothing_has_no_size(api: Any) -> None:
    found = error_of(lambda: api.MultiModalCache.get_item_size({"empty": []}))
    assert found is not None
    assert issubclass(found, TypeError)


def case_a_cache_is_as_large_as_was_said(api: Any) -> None:
    cache = api.MultiModalCache.get_lru_cache(10 / 2**30, object)
    for name in "abc":
        cache[name] = api.torch.zeros(4, dtype=api.torch.uint8)
    assert list(cache.order) == ["b", "c"]
    assert cache.currsize == 8


def case_a_view_weighs_what_its_copy_does(api: Any) -> None:
    size, array = api.MultiModalCache.get_item_size, api.numpy.zeros(100, dtype="uint8")
    assert size(array[:50]) == size(array[:50].copy())


def case_a_number_weighs_the_same_when_it_has_arrived(api: Any) -> None:
    size = api.MultiModalCache.get_item_size
    assert size(api.numpy.int64(5)) == size(5)
    assert size(api.numpy.float32(0.5)) == size(0.5)


# P0 -----------------------------------------------------------------------------------------------------------------


def case_data_is_kept_where_sending_is_not_saved(api: Any) -> None:
    cache, item = api.MultiModalProcessorOnlyCache(api.model_config(10)), api.item(4)
    assert cache.get_and_update_item((item, ["update"]), "a") == (item, ["update"])
    found, updates = cache.get_and_update_item(None, "a")
    assert found is item
    assert updates == ["update"]


def case_nothing_is_sent_that_the_other_side_has(api: Any) -> None:
    cache, item = api.SenderCache(api.model_config(10)), api.item(4)
    assert cache.get_and_update([(item, ["update"])], ["a"]) == [(item, ["update"])]
    assert cache.get_and_update([None, (item, ["update"])], ["a", "a"]) == [(None, ["update"])] * 2


def case_a_question_changes_no_order(api: Any) -> None:
    cache = api.SenderCache(api.model_config(3))
    put(api, cache, "a", "b", "c")
    assert cache.is_cached(["a", "z"]) == [True, False]
    assert cache.is_cached_item("a")
    put(api, cache, "d")
    assert keys(cache) == ["b", "c", "d"]


def case_a_use_makes_it_the_newest(api: Any) -> None:
    cache = api.SenderCache(api.model_config(3))
    put(api, cache, "a", "b", "c")
    cache.get_and_update_item(None, "a")
    put(api, cache, "d")
    assert keys(cache) == ["c", "a", "d"]


def case_a_touch_makes_it_the_newest(api: Any) -> None:
    cache = api.SenderCache(api.model_config(3))
    put(api, cache, "a", "b", "c")
    call(api, cache, "touch_sender_cache_item", "a")
    put(api, cache, "d")
    assert keys(cache) == ["c", "a", "d"]


def case_a_touch_of_what_is_absent_leaves_no_ghost(api: Any) -> None:
    cache = api.SenderCache(api.model_config(3))
    put(api, cache, "a")
    call(api, cache, "touch_sender_cache_item", "ghost")
    assert list(cache._cache.order) == ["a"]


def case_look_ups_are_counted(api: Any) -> None:
    cache = api.SenderCache(api.model_config(3))
    put(api, cache, "a", "b")
    cache.get_and_update_item(None, "a")
    assert tuple(call(api, cache, "make_stats")) == (1, 3)
    assert tuple(cache.make_stats(delta=True)) == (1, 3)
    assert tuple(cache.make_stats(delta=True)) == (0, 0)
    assert cache.make_stats().total == 3


def case_clearing(api: Any) -> None:
    cache = api.SenderCache(api.model_config(3))
    put(api, cache, "a", "b")
    cache.clear_cache()
    assert keys(cache) == []
    put(api, cache, "c")
    assert keys(cache) == ["c"]


def case_an_item_larger_than_the_cache_passes(api: Any) -> None:
    cache, item = api.SenderCache(api.model_config(3)), api.item(4)
    put(api, cache, "a")
    assert cache.get_and_update_item((item, ["update"]), "large") == (item, ["update"])
    assert keys(cache) == ["a"]


def case_what_was_missed_is_sent_again(api: Any) -> None:
    cache, item = api.SenderCache(api.model_config(3)), api.item(1)
    put(api, cache, "a")
    call(api, cache, "invalidate", "a")
    call(api, cache, "invalidate", "unknown")
    assert cache.get_and_update_item((item, []), "a") == (item, [])


def case_nothing_given_for_what_is_not_cached(api: Any) -> None:
    for cache in (api.SenderCache(api.model_config(3)), api.MultiModalProcessorOnlyCache(api.model_config(3))):
        assert issubclass(error_of(lambda cache=cache: cache.get_and_update_item(None, "a")) or int, AssertionError)
        assert keys(cache) == []


def case_a_request_that_evicts_its_own_hit_changes_nothing(api: Any) -> None:
    cache = api.SenderCache(api.model_config(3))
    put(api, cache, "a", "b")
    given: list[Any] = [(api.item(1), []), (api.item(1), []), (api.item(1), []), None]
    assert error_of(lambda: cache.get_and_update(given, ["x", "y", "z", "a"])) is not None
    assert keys(cache) == ["a", "b"]


def case_as_many_items_as_hashes(api: Any) -> None:
    cache = api.SenderCache(api.model_config(3))
    assert error_of(lambda: cache.get_and_update([(api.item(1), [])], ["a", "b"])) is not None
    assert keys(cache) == []


# P1 -----------------------------------------------------------------------------------------------------------------


def case_what_came_is_kept_and_found_again(api: Any) -> None:
    cache, item = api.ReceiverCache(api.model_config(10)), api.item(4)
    (feature,) = cache.get_and_update_features([api.feature(item, "a")])
    assert feature.data is item
    (again,) = cache.get_and_update_features([api.feature(None, "a")])
    assert again.data is item


def case_fresh_data_replaces_what_is_kept(api: Any) -> None:
    cache, old, new = api.ReceiverCache(api.model_config(10)), api.item(4), api.item(2)
    cache.get_and_update_item(old, "a")
    assert cache.get_and_update_item(new, "a") is new
    assert cache.get_and_update_item(None, "a") is new
    assert cache._cache.currsize == 2


def case_everything_is_touched_before_anything_is_evicted(api: Any) -> None:
    cache, item = api.ReceiverCache(api.model_config(3)), api.item(1)
    for name in "abc":
        cache.get_and_update_item(item, name)
    features = [api.feature(api.item(1), "d"), api.feature(None, "a")]
    assert cache.get_and_update_features(features)[1].data is item
    assert keys(cache) == ["c", "d", "a"]


def case_a_miss_names_everything_that_is_missed(api: Any) -> None:
    cache = api.ReceiverCache(api.model_config(3))
    features = [api.feature(None, "a"), api.feature(api.item(1), "b"), api.feature(None, "c")]
    missed = None
    try:
        cache.get_and_update_features(features)
    except RuntimeError as error:
        missed = getattr(error, "mm_hashes", None)
    assert missed == ["a", "c"]
    assert keys(cache) == ["b"]


def case_adapters_share_what_they_process(api: Any) -> None:
    cache, item = api.ReceiverCache(api.model_config(3)), api.item(1)
    cache.get_and_update_features([api.feature(item, "a", identifier="adapter-1-a")])
    (found,) = cache.get_and_update_features([api.feature(None, "a", identifier="adapter-2-a")])
    assert found.data is item


def case_both_sides_evict_alike(api: Any) -> None:
    sender, receiver = api.SenderCache(api.model_config(7)), api.ReceiverCache(api.model_config(7))
    for turn in range(60):
        name, size = "abcdef"[turn * turn % 6], 1 + turn % 3
        item: Any = None if sender.is_cached_item(name) else (api.item(size), [])
        sent, _ = sender.get_and_update_item(item, name)
        receiver.get_and_update_features([api.feature(sent, name)])
        assert keys(sender) == keys(receiver)
