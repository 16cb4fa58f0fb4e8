"""HiSparse: random runs with workers that have memory, and calls one by one."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.hisparse_engine import PAGE, Engine, Load, Request, config_of, spec
from tests.impl.hisparse_loads import LOADS

from cacheimpl.hisparse import HiSparseCoordinator, NoHiSparseError, get_hisparse_coordinator
from cacheimpl.hisparse.messages import SparseKVPageTransfer, SparseKVRowMirror
from cacheimpl.kv_cache_manager import KV_2026_11, LaterKVCacheManager
from cacheimpl.kv_cache_manager.errors import (
    FreeQueueError,
    InvalidCountError,
    InvalidSettingError,
    KVCacheManagerError,
    UnsupportedError,
)

SEEDS, STEPS = 4, 60


def manager_of(device: int = 24, host: int | None = 20, *, longest: int = 64, **more: Any) -> LaterKVCacheManager:
    return LaterKVCacheManager(config_of(device, host), longest, scheduler_block_size=PAGE, **more)


def step(manager: LaterKVCacheManager, request: Request, tokens: int, **more: Any) -> Any:
    """Slots for a step, and what is told to workers of it."""
    blocks = manager.allocate_slots(request, tokens, **more)
    if blocks is not None:
        request.num_computed_tokens += tokens + more.get("num_new_computed_tokens", 0)
        end = min(request.num_computed_tokens, len(request.all_token_ids))
        get_hisparse_coordinator(manager).advance_scheduled([(request.request_id, end)])
    return blocks


def written(coordinator: HiSparseCoordinator) -> int:
    """All workers make all transfers; how many there are."""
    counts = {its.transfer_id: 1 for its in coordinator.build_offload_command().page_transfers}
    coordinator.update_spills(counts, counts)
    return len(counts)


def request_of(tokens: int, name: str = "a", first: int = 0) -> Request:
    return Request(name, list(range(first, first + tokens)), 1, prompt=tokens)


# Random runs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOADS)
def test_every_run_is_served_and_leaves_nothing(name: str) -> None:
    counts = Counter[str]()
    for seed in range(SEEDS):
        engine = Engine(LOADS[name], seed)
        assert engine.run(STEPS) == []
        counts.update(engine.counts)
    wanted = {"served", "aborted", "preempted", "hits", "host_reads", "refused"}
    wanted |= {"back"} if LOADS[name].going_back else set()
    wanted |= {"loads", "failed"} if LOADS[name].loads else set()
    assert not wanted - {what for what, count in counts.items() if count}


def test_copies_on_the_device_are_adopted() -> None:
    assert sum(run.counts["adopted"] for run in runs(Load(device=40))) > 0


def runs(load: Load) -> list[Engine]:
    engines = [Engine(load, seed) for seed in range(SEEDS)]
    assert [engine.run(STEPS) for engine in engines] == [[]] * SEEDS
    return engines


# Calls --------------------------------------------------------------------------------------------------------------


def test_a_full_page_is_written_to_the_host_and_found_then() -> None:
    manager = manager_of()
    coordinator, request = get_hisparse_coordinator(manager), request_of(9)
    assert step(manager, request, 9) is not None
    command = coordinator.build_offload_command()
    host, _, resident, hot = manager.get_block_ids("a")
    assert command.page_transfers == [
        SparseKVPageTransfer(0, host[0], (resident[0],), after_forward=True),
        SparseKVPageTransfer(1, host[1], (resident[1],), after_forward=True),
    ]
    assert hot == []
    request.all_token_ids.append(7)
    assert step(manager, request, 1) is not None  # the manager hears that nine tokens are computed
    assert manager.get_computed_blocks(request_of(9, "b"))[1] == 0
    coordinator.update_spills({0: 2, 1: 2}, {0: 2, 1: 1})
    assert manager.get_computed_blocks(request_of(9, "b"))[1] == PAGE
    coordinator.update_spills({}, {1: 1})
    assert manager.get_computed_blocks(request_of(9, "b"))[1] == 2 * PAGE


def test_counts_of_unknown_transfers_have_no_effect() -> None:
    manager = manager_of()
    coordinator = get_hisparse_coordinator(manager)
    coordinator.update_spills({5: 1}, {5: 1})
    assert not coordinator.has_pending_work()


def test_pages_stay_until_the_request_has_a_hot_region() -> None:
    manager = manager_of(longest=48, max_in_flight_tokens=16)
    coordinator, request = get_hisparse_coordinator(manager), request_of(24)
    assert step(manager, request, 16) is not None
    assert written(coordinator) == 4
    assert coordinator.hot_managers[0].hot_required == {"a"}  # as many pages as its admission counted
    assert coordinator.request_states["a"].unpinned_pages == set()
    assert step(manager, request, 4) is not None
    assert coordinator.hot_managers[0].has_hot("a")
    assert coordinator.request_states["a"].unpinned_pages == {0, 1, 2}  # the last two of five stay


def test_workers_hear_of_a_page_that_is_lost() -> None:
    manager = manager_of(longest=48, max_in_flight_tokens=16)
    coordinator, request = get_hisparse_coordinator(manager), request_of(24)
    for tokens in (16, 4):
        assert step(manager, request, tokens) is not None
        written(coordinator)
    assert coordinator.take_residency_updates(["a", "unknown"])["a"].pages == [0, 1, 2, 3, 4]
    assert coordinator.all_context_pages_resident([("a", 19, 1)])
    pool = manager.block_pool
    pool.get_new_blocks(pool.get_num_free_blocks())
    assert not coordinator.all_context_pages_resident([("a", 19, 1)])
    update = coordinator.take_residency_updates(["a"])["a"]
    assert (update.pages, update.block_ids) == ([0, 1, 2], ([0, 0, 0],))
    assert coordinator.take_residency_updates(["a"]) == {}


def test_rows_are_mirrored_page_by_page() -> None:
    manager = manager_of()
    coordinator = get_hisparse_coordinator(manager)
    assert step(manager, request_of(8), 8) is not None
    host, _, resident, _ = manager.get_block_ids("a")
    assert coordinator.build_row_mirrors([("a", 3, 3), ("unknown", 0, 4)]) == (
        SparseKVRowMirror((resident[0] * PAGE + 3,), host[0] * PAGE + 3, 1),
        SparseKVRowMirror((resident[1] * PAGE,), host[1] * PAGE, 2),
    )


def test_the_last_page_of_a_load_is_copied_to_the_device() -> None:
    manager = manager_of()
    coordinator, request = get_hisparse_coordinator(manager), request_of(9)
    loads = {"num_external_computed_tokens": 9, "delay_cache_blocks": True}
    assert manager.allocate_slots(request, 0, new_computed_blocks=manager.empty_kv_cache_blocks, **loads) is not None  # type: ignore[arg-type]  # a mapping of two types
    host, _, resident, hot = manager.get_block_ids("a")
    assert (resident[:2], len(hot)) == ([0, 0], 2)
    coordinator.finish_host_import("a", failed=False)
    restore = SparseKVPageTransfer(0, host[2], (resident[2],), after_forward=False, restore=True)
    assert coordinator.build_offload_command().page_transfers == [restore]
    assert coordinator.request_states["a"].valid_pages == {0, 1}


def test_pages_that_a_failed_load_has_left_out_get_blocks() -> None:
    """The manager of vLLM 0.33.0 gives them none. Its scheduler releases such a request, so it does not go there."""
    manager = manager_of()
    coordinator, request = get_hisparse_coordinator(manager), request_of(17)
    loads = {"num_external_computed_tokens": 16, "delay_cache_blocks": True}
    assert manager.allocate_slots(request, 0, new_computed_blocks=manager.empty_kv_cache_blocks, **loads) is not None  # type: ignore[arg-type]  # a mapping of two types
    coordinator.finish_host_import("a", failed=True)
    request.num_computed_tokens = 4
    manager.cache_blocks(request, 4)
    assert step(manager, request, 12) is not None
    assert 0 not in [block.block_id for block in coordinator.resident_managers[0].get_residency_row("a", 1)]


def test_clearing_needs_both_pools_and_clears_both() -> None:
    """vLLM 0.33.0 clears one pool, and says that it failed, if blocks of the other one are held."""
    manager = manager_of()
    coordinator, request = get_hisparse_coordinator(manager), request_of(9)
    assert step(manager, request, 9) is not None
    written(coordinator)
    request.finished = True
    manager.free(request)
    assert coordinator.copies
    held = coordinator.host_pool.get_new_blocks(1)
    assert not manager.reset_prefix_cache()
    assert coordinator.copies
    coordinator.host_pool.free_blocks(held)
    assert manager.reset_prefix_cache()
    assert not coordinator.copies
    assert manager.get_computed_blocks(request_of(9, "b"))[1] == 0


def test_without_room_on_the_host_nothing_is_given() -> None:
    manager = manager_of(host=4)
    free = manager.block_pool.get_num_free_blocks()
    assert manager.allocate_slots(request_of(16), 16) is None
    assert manager.block_pool.get_num_free_blocks() == free
    assert manager.allocate_slots(request_of(12), 12) is not None


def test_blocks_of_both_pools_are_given_back_together() -> None:
    manager = manager_of(enable_caching=False)
    request = request_of(8)
    assert step(manager, request, 8) is not None
    written(get_hisparse_coordinator(manager))
    blocks = manager.pop_blocks_for_free(request)
    manager.block_pool.free_blocks(reversed(blocks))
    assert manager.block_pool.num_held_blocks == get_hisparse_coordinator(manager).host_pool.num_held_blocks == 0


def test_the_tokens_that_drafts_compute_again_are_not_written() -> None:
    manager = manager_of(enable_caching=False, num_prefill_lookahead=3)
    assert step(manager, request_of(8), 8) is not None
    assert written(get_hisparse_coordinator(manager)) == 1
    with pytest.raises(UnsupportedError, match="num_prefill_lookahead must be 0"):
        manager_of(num_prefill_lookahead=3)


# Misuse -------------------------------------------------------------------------------------------------------------


def test_a_manager_without_such_groups_has_no_coordinator() -> None:
    config = SimpleNamespace(num_blocks=8, kv_cache_groups=[SimpleNamespace(kv_cache_spec=spec("FullAttentionSpec"))])
    with pytest.raises(NoHiSparseError, match="LaterKVCacheManager has no group"):
        get_hisparse_coordinator(LaterKVCacheManager(config, 64))


def broken(change: str) -> Any:
    config = config_of(24, None if change == "no host blocks" else 20)
    groups = config.kv_cache_groups
    if change == "no source":
        del groups[0]
    elif change == "two sources":
        groups.insert(0, groups[0])
    elif change == "no pages":
        del groups[2:]
    elif change == "source behind":
        groups.append(groups.pop(0))
    elif change == "other size":
        groups[2] = SimpleNamespace(kv_cache_spec=spec("HiSparseResidentSpec"))
        groups[2].kv_cache_spec.block_size = 2 * PAGE
    elif change == "no region":
        groups[3] = SimpleNamespace(kv_cache_spec=spec("HiSparseHotSpec", blocks_per_request=0))
    return config


@pytest.mark.parametrize(
    ("change", "error", "problem"),
    [
        ("no source", InvalidSettingError, "one group with the role hisparse_source"),
        ("two sources", InvalidSettingError, "kv_cache_groups has 2 and 1"),
        ("no pages", InvalidSettingError, "kv_cache_groups has 1 and 0"),
        ("source behind", InvalidSettingError, "before its pages on the device"),
        ("other size", InvalidSettingError, "with equal block sizes"),
        ("no region", InvalidCountError, "blocks_per_request must be 1 or more, not 0"),
        ("no host blocks", InvalidCountError, "hisparse_host_num_blocks must be the number of blocks"),
    ],
)
def test_groups_that_do_not_belong_together(change: str, error: type[KVCacheManagerError], problem: str) -> None:
    with pytest.raises(error, match=problem):
        LaterKVCacheManager(broken(change), 64)


def test_contexts_in_parallel_are_refused() -> None:
    config = config_of(24, 20)
    for group in config.kv_cache_groups:
        group.kv_cache_spec.dcp_sharded = False
    with pytest.raises(UnsupportedError, match="contexts in parallel are not supported with HiSparse"):
        LaterKVCacheManager(config, 64, dcp_world_size=2)


def test_hits_within_a_block_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="hash_block_size must be 4 with HiSparse"):
        manager_of(hash_block_size=2)


def test_a_block_without_references_cannot_be_unpinned() -> None:
    pool = manager_of().block_pool
    with pytest.raises(FreeQueueError, match="is in no table"):
        pool.unpin_blocks([pool.blocks[3]], lambda _: None)


def test_a_block_is_read_until_it_is_taken() -> None:
    pool, taken = manager_of().block_pool, list[int]()
    (block,) = pool.get_new_blocks(1)
    pool.touch([block])
    for _ in range(2):
        pool.unpin_blocks([block], lambda its: taken.append(its.block_id))
    assert (block.ref_cnt, taken) == (0, [])
    assert pool.free_block_queue.free_list_tail is block
    pool.get_new_blocks(pool.get_num_free_blocks())
    assert taken == [block.block_id]


def test_a_step_that_is_computed_again_waits_for_the_transfer_under_way() -> None:
    manager = manager_of(longest=48)
    coordinator, request = get_hisparse_coordinator(manager), request_of(12)
    assert step(manager, request, 8) is not None
    (first, second) = coordinator.build_offload_command().page_transfers
    request.num_computed_tokens = 4
    assert step(manager, request, 8) is not None
    assert [its.host_block_id for its in coordinator.build_offload_command().page_transfers] == [
        manager.get_block_ids("a")[0][2]
    ]
    counts = {first.transfer_id: 1, second.transfer_id: 1}
    coordinator.update_spills(counts, counts)
    assert coordinator.request_states["a"].valid_pages == {0}
    coordinator.advance_scheduled([("a", 12)])
    assert [its.host_block_id for its in coordinator.build_offload_command().page_transfers] == [second.host_block_id]


def test_executed_pages_of_a_preempted_request_are_found_when_the_host_has_them() -> None:
    manager = manager_of()
    coordinator, request = get_hisparse_coordinator(manager), request_of(13)
    assert step(manager, request, 9) is not None
    request.num_in_flight_tokens = 4
    assert step(manager, request, 4) is not None  # this step is not executed
    manager.free(request)
    assert written(coordinator) == 3
    assert manager.get_computed_blocks(request_of(13, "b"))[1] == 2 * PAGE
    assert coordinator.host_pool.num_held_blocks == 0


def test_a_copy_of_a_page_that_is_computed_again_is_forgotten() -> None:
    """Also if its host block cannot be found any more, because another request computes an earlier page again."""
    manager = manager_of(48, 40, longest=48)
    coordinator, first, second = get_hisparse_coordinator(manager), request_of(13), request_of(13, "b")
    second.all_token_ids[PAGE:] = range(50, 59)
    for request in (first, second):
        hits, tokens, _ = manager.get_computed_blocks(request)
        assert step(manager, request, 13 - tokens, num_new_computed_tokens=tokens, new_computed_blocks=hits) is not None
        written(coordinator)
        request.all_token_ids.append(13)
        assert step(manager, request, 1) is not None
    second.num_computed_tokens = 3
    assert step(manager, second, 4) is not None
    assert coordinator.host_blocks("a")[2].block_hash is None
    page = coordinator.resident_blocks("a", 2)
    assert page is not None
    assert tuple(page) in coordinator.copies.values()
    first.num_computed_tokens = 8
    assert step(manager, first, 4) is not None
    assert tuple(page) not in coordinator.copies.values()


def test_rules_of_an_era_find_a_page_in_the_step_that_writes_it() -> None:
    """Registered when scheduled, as released; yet not before the host has the page."""
    manager = manager_of(rules=KV_2026_11)
    assert step(manager, request_of(9), 9) is not None
    assert manager.get_computed_blocks(request_of(9, "b"))[1] == 0
    assert written(get_hisparse_coordinator(manager)) == 2
    assert manager.get_computed_blocks(request_of(9, "b"))[1] == 2 * PAGE
