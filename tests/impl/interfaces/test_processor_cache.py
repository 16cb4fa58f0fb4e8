"""The caches of processed items, as tests of such caches are written; the same with releases; and beside the spec."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.impl.interfaces.cases import processor_cache as cases
from tests.impl.interfaces.lockstep import differs, findings
from tests.impl.interfaces.releases import Case, Difference, check_release, each

import cacheimpl.processor_cache as ours
from cacheimpl.object_store.caches import ShmObjectStoreSenderCache
from cacheimpl.processor_cache import EndlessEvictionError, GhostLRUCache, LRUCache
from cacheimpl.processor_cache.caches import MultiModalReceiverCache
from cacheimpl.processor_cache.errors import AllPinnedError, NotAlikeError
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named
from cacheproof.targets.tensor import processor_caches as targets
from cacheproof.targets.vllm.child.driver.calls import DriverError

torch.set_num_threads(1)

VERSIONS = ("0.11.0", "0.20.2", "0.33.0")
BEFORE_0_33 = ("0.11.0", "0.20.2")
SIZE = "a size that does not survive the way to the other side"

DIFFERENCES = {
    "everything_is_touched_before_anything_is_evicted": Difference(("0.11.0",), "C-MIR-9"),
    "a_request_that_evicts_its_own_hit_changes_nothing": Difference(VERSIONS, "C-MIR-9"),
    "a_touch_of_what_is_absent_leaves_no_ghost": Difference(("0.20.2",), "C-MIR-10"),
    "adapters_share_what_they_process": Difference(("0.11.0",), "C-MIR-15"),
    "an_item_larger_than_the_cache_passes": Difference(BEFORE_0_33, "C-MIR-16"),
    "fresh_data_replaces_what_is_kept": Difference(BEFORE_0_33, "C-MIR-17"),
    "a_miss_names_everything_that_is_missed": Difference(BEFORE_0_33, "C-MIR-1"),
    "a_view_weighs_what_its_copy_does": Difference(VERSIONS, SIZE),
    "a_number_weighs_the_same_when_it_has_arrived": Difference(VERSIONS, SIZE),
}


def absent(*_: Any, **__: Any) -> Any:
    raise AssertionError("ours has everything")


def model_config(size: int) -> Any:
    setting = SimpleNamespace(mm_processor_cache_gb=size / 2**30)
    return SimpleNamespace(get_multimodal_config=lambda: setting)


def item(size: int) -> Any:
    """An item as engines have it: what it holds is in `data`, element by element."""
    return SimpleNamespace(data={"pixels": SimpleNamespace(data=torch.zeros(size, dtype=torch.uint8))})


def feature(data: Any, mm_hash: str, identifier: str = "") -> Any:
    return SimpleNamespace(data=data, mm_hash=mm_hash, identifier=identifier or mm_hash)


API = SimpleNamespace(
    absent=absent,
    torch=torch,
    numpy=importlib.import_module("numpy") if importlib.util.find_spec("numpy") else None,
    model_config=model_config,
    item=item,
    feature=feature,
    SenderCache=ours.LruKeyReplicatedSenderCache,
    ReceiverCache=ours.LruKeyReplicatedReceiverCache,
    MultiModalCache=ours.MultiModalCache,
    MultiModalProcessorCacheItem=ours.MultiModalProcessorCacheItem,
    MultiModalProcessorCacheItemMetadata=ours.MultiModalProcessorCacheItemMetadata,
    MultiModalProcessorOnlyCache=ours.MultiModalProcessorOnlyCache,
)
NEEDS_NUMPY = {cases.case_a_view_weighs_what_its_copy_does, cases.case_a_number_weighs_the_same_when_it_has_arrived}


@pytest.mark.parametrize("case", each(cases))
def test_ours(case: Case) -> None:
    if case in NEEDS_NUMPY:
        pytest.importorskip("numpy")
    case(API)


@pytest.mark.nightly
@pytest.mark.parametrize("version", VERSIONS)
def test_released(version: str) -> None:
    check_release(version, cases, DIFFERENCES)


# Held to the specification ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("component", "variant", "opened", "steps"),
    [
        ("lru", "normative", targets.open_lru_cache, 500),
        ("configuration", "normative", targets.open_selectors, 150),
        ("configuration", "normative", targets.open_early_selectors, 150),
        ("configuration", "M3", targets.open_selectors, 150),
        ("configuration", "M1", targets.open_balanced_selectors, 150),
        ("lru", "M3", targets.open_released_lru_cache, 500),
        ("lru", "M2", targets.open_ghost_lru_cache, 500),
    ],
)
def test_lockstep_in_every_scope(component: str, variant: str, opened: Callable[[str], Any], steps: int) -> None:
    found = dict(findings(component, variant, opened, steps=steps))
    assert len(found) >= 2
    assert set(found.values()) == {None}


def test_keys_and_items_count_no_look_up() -> None:
    cache: LRUCache[str, int] = LRUCache(9, getsizeof=int)
    cache["a"], cache["b"] = 2, 3
    cache.touch("a")
    assert [*cache.keys()] == [*cache] == ["b", "a"]
    assert ([*cache.values()], [*cache.items()]) == ([3, 2], [("b", 3), ("a", 2)])
    assert cache.stat().total == 0


def test_a_ghost_ends_the_call_and_not_the_process() -> None:
    cache: GhostLRUCache[str, int] = GhostLRUCache(3, getsizeof=int)
    cache.touch("ghost")
    cache.put("a", 2)
    assert ("ghost" in cache, list(cache.order), len(cache)) == (False, ["ghost", "a"], 1)
    with pytest.raises(EndlessEvictionError, match="the oldest in the order is 'ghost', which has no entry"):
        cache.put("b", 2)
    with pytest.raises(EndlessEvictionError, match="the oldest in the order is 'ghost', which has no entry"):
        cache.clear()
    assert cache.popitem() == ("ghost", None)
    assert list(cache.order) == ["ghost", "a"]
    cache.put("ghost", 1)
    assert cache.popitem() == ("a", 2)
    cache.touch("new")
    cache.clear()
    assert (list(cache.order), cache.currsize) == (["new"], 0)
    with pytest.raises(AllPinnedError):
        GhostLRUCache(1).popitem()


@pytest.mark.parametrize(
    ("component", "variant", "opened", "steps"),
    [
        ("lru", "M3", targets.open_lru_cache, 3000),
        ("lru", "normative", targets.open_released_lru_cache, 3000),
        ("lru", "M2", targets.open_released_lru_cache, 1000),
        ("lru", "M3", targets.open_ghost_lru_cache, 1000),
        ("configuration", "M1", targets.open_selectors, 400),
        ("configuration", "normative", targets.open_balanced_selectors, 400),
    ],
)
def test_no_era_is_another_one(component: str, variant: str, opened: Callable[[str], Any], steps: int) -> None:
    assert differs(component, variant, opened, steps=steps)


MIRROR_SCOPES = {
    *("calm", "reorder", "drop", "reject", "reset", "restart"),
    *("modalities", "larger-request", "oversize", "identities"),
}


def in_default_set(scope: Any) -> bool:
    return scope.name in MIRROR_SCOPES


def shows_most(scope: Any) -> bool:
    return scope.name in {"identities", "reject", "modalities", "larger-request"}


def test_a_pair_does_what_the_last_released_pair_does() -> None:
    found = dict(findings("mirror", "M3", targets.open_mirror, steps=150, only=in_default_set))
    assert set(found) == MIRROR_SCOPES
    assert set(found.values()) == {None}


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_pair_in_long_runs() -> None:
    mirror = component_named("mirror")
    there = set(targets.open_mirror("mirror")._driver.operations)  # a driver of this era has no calls of others
    left_out = frozenset({kind.wire_name() for kind in mirror.operations} - there)

    def begins(scope: Any) -> bool:
        variant = mirror.variants["M3"]
        offered = variant.alphabet(scope.config, variant.start(scope.config))
        return "M3" in scope.variants and any(operation.wire_name() in there for operation in offered)

    found = dict(findings("mirror", "M3", targets.open_mirror, steps=3000, seed=5, only=begins, left_out=left_out))
    assert len(found) > len(MIRROR_SCOPES)
    assert set(found.values()) == {None}


@pytest.mark.parametrize("variant", ["M1", "M2"])
def test_a_pair_is_of_no_other_era(variant: str) -> None:
    assert differs("mirror", variant, targets.open_mirror, steps=300, only=in_default_set)


GET_AND_UPDATE = MultiModalReceiverCache.get_and_update_item


def keep_old(cache: MultiModalReceiverCache, mm_item: Any, mm_hash: str) -> Any:
    return cache._cache[mm_hash] if mm_hash in cache._cache else GET_AND_UPDATE(cache, mm_item, mm_hash)


def count_hits_only(cache: LRUCache[Any, Any], key: Any, default: Any = None) -> Any:
    try:
        return cache[key]
    except KeyError:
        return default


@pytest.mark.parametrize(
    ("owner", "method", "wrong"),
    [
        (LRUCache, "touch", lambda cache, key: None),
        (LRUCache, "pop", lambda cache, key, default=None: cache._entries.get(key, default)),
        (LRUCache, "clear", lambda cache: cache._entries.clear()),
        (LRUCache, "_remove", lambda cache, key: cache._entries.pop(key)),
        (LRUCache, "get", count_hits_only),
        (LRUCache, "pin", lambda cache, key: cache.pinned_items.add(key)),
        (LRUCache, "stat", lambda cache, delta=False: (cache._hits, cache._total)),
    ],
)
def test_planted_bugs_in_the_cache_are_found(monkeypatch: Any, owner: Any, method: str, wrong: Any) -> None:
    monkeypatch.setattr(owner, method, wrong)
    try:
        found = differs("lru", "normative", targets.open_lru_cache, steps=400)
    except (KeyError, RuntimeError):
        found = True
    assert found


@pytest.mark.parametrize(
    ("owner", "method", "wrong"),
    [
        (ours.MultiModalReceiverCache, "get_and_update_item", keep_old),
        (ours.MultiModalReceiverCache, "touch_receiver_cache_item", lambda cache, mm_hash, mm_item=None: None),
        (ours.MultiModalProcessorSenderCache, "touch_sender_cache_item", lambda cache, mm_hash: None),
        (ours.MultiModalProcessorSenderCache, "invalidate", lambda cache, mm_hash: None),
        (ours.MultiModalProcessorSenderCache, "found", lambda cache, kept: ("sent again", kept.prompt_updates)),
    ],
)
def test_planted_bugs_in_the_sides_are_found(monkeypatch: Any, owner: Any, method: str, wrong: Any) -> None:
    monkeypatch.setattr(owner, method, wrong)
    try:
        found = differs("mirror", "M3", targets.open_mirror, steps=3000, only=shows_most, seed=2)
    except DriverError:
        found = True
    assert found


def test_targets_of_another_component() -> None:
    for opened in (targets.open_lru_cache, targets.open_mirror, targets.open_selectors):
        with pytest.raises(InputError, match="not of ring"):
            opened("ring")


# What is ours alone -------------------------------------------------------------------------------------------------


def names(cache: Any) -> list[str]:
    return list(cache._cache)


def test_a_request_is_served_whole_or_not_at_all() -> None:
    cache = ours.MultiModalProcessorSenderCache(model_config(3))
    cache.get_and_update([(item(1), []), (item(1), [])], ["a", "b"])
    before = names(cache), cache.make_stats()
    with pytest.raises(ours.ItemNotCachedError) as raised:
        cache.get_and_update([(item(1), []), (item(2), []), None, None], ["x", "y", "a", "b"])
    assert raised.value.mm_hashes == ["a", "b"]
    assert (names(cache), cache.make_stats()) == before
    sent = cache.get_and_update([(item(1), []), None, None], ["x", "a", "b"])
    assert [one is None for one, _ in sent] == [False, True, True]
    assert names(cache) == ["x", "a", "b"]


@pytest.mark.parametrize("given", [0, 2])
def test_as_many_items_as_hashes(given: int) -> None:
    cache = ours.MultiModalReceiverCache(model_config(3))
    with pytest.raises(NotAlikeError):
        cache.get_and_update([item(1)] * given, ["a"])


def test_a_miss_changes_nothing() -> None:
    cache = ours.MultiModalReceiverCache(model_config(3))
    cache.get_and_update_item(item(1), "a")
    with pytest.raises(ours.MultiModalCacheMissError, match="b"):
        cache.get_and_update_item(None, "b")
    assert names(cache) == ["a"]
    assert cache._cache.stat().total == 0


def test_what_does_not_fit_replaces_nothing_and_leaves_nothing_stale() -> None:
    cache = ours.MultiModalReceiverCache(model_config(3))
    cache.get_and_update_item(item(1), "a")
    large = item(4)
    assert cache.get_and_update_item(large, "a") is large
    assert names(cache) == []


def test_it_is_said_once_that_items_do_not_fit(caplog: pytest.LogCaptureFixture) -> None:
    cache = ours.MultiModalProcessorOnlyCache(model_config(3))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            cache.get_and_update_item((item(4), []), "large")
    assert caplog.text.count("larger than") == 1


def test_pins_leave_room_or_nothing_changes() -> None:
    cache: LRUCache[str, int] = LRUCache(3, getsizeof=int)
    cache["a"], cache["b"] = 2, 1
    cache.pin("a")
    with pytest.raises(AllPinnedError):
        cache["c"] = 2
    assert list(cache.order) == ["a", "b"]
    assert cache.popitem() == ("b", 1)
    with pytest.raises(AllPinnedError):
        cache.popitem()
    assert cache.popitem(remove_pinned=True) == ("a", 2)
    cache.remove_oldest()
    assert (len(cache), cache.currsize, cache.usage) == (0, 0, 0)
    with pytest.raises(ValueError, match="cannot be pinned"):
        cache.pin("a")


@pytest.mark.parametrize("capacity", [-1, float("nan")])
def test_a_capacity_that_is_none(capacity: float) -> None:
    with pytest.raises(ValueError, match="capacity"):
        LRUCache(capacity)


def test_text_weighs_the_same_once_it_was_encoded() -> None:
    text = "".join(["\N{SNOWMAN}", "a" * 10])
    before = ours.MultiModalCache.get_leaf_size(text)
    text.encode()
    assert ours.MultiModalCache.get_leaf_size(text) == before
    assert ours.MultiModalCache.get_leaf_size("plain") == sys.getsizeof("plain")
    assert ours.MultiModalCache.get_leaf_size(None) == sys.getsizeof(None)


# Who gets which -----------------------------------------------------------------------------------------------------


def deployment(kind: str, gigabytes: float = 2**-20) -> Any:
    setting = SimpleNamespace(
        mm_processor_cache_gb=gigabytes, mm_processor_cache_type=kind, mm_shm_cache_max_object_size_mb=1
    )
    parallel = SimpleNamespace(
        _api_process_count=1, data_parallel_size=1, data_parallel_external_lb=False, world_size=1
    )
    model = SimpleNamespace(supports_multimodal_inputs=True, get_multimodal_config=lambda: setting)
    return SimpleNamespace(model_config=model, parallel_config=parallel)


def test_a_type_that_is_not_known() -> None:
    with pytest.raises(ValueError, match="'lru' or 'shm', not 'disk'"):
        ours.processor_cache_from_config(deployment("disk"))


def test_workers_that_share_need_a_lock() -> None:
    with pytest.raises(ValueError, match="shared_worker_lock"):
        ours.worker_receiver_cache_from_config(deployment("shm"), None)


def test_without_memory_there_is_no_cache() -> None:
    none = deployment("lru", gigabytes=0)
    assert ours.processor_cache_from_config(none) is None
    assert ours.engine_receiver_cache_from_config(none) is None
    assert ours.worker_receiver_cache_from_config(none, object()) is None
    assert ours.processor_only_cache_from_config(none) is None
    assert isinstance(ours.processor_only_cache_from_config(deployment("lru")), ours.MultiModalProcessorOnlyCache)


def test_a_store_in_shared_memory_is_made_where_it_is_asked_for() -> None:
    made = ours.processor_cache_from_config(deployment("shm"))
    assert isinstance(made, ShmObjectStoreSenderCache)
    try:
        assert ours.engine_receiver_cache_from_config(deployment("shm")) is None
        assert made.is_cached(["a"]) == [False]
    finally:
        made.close()
