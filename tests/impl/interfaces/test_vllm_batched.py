"""`BatchedScheduler`: what it refuses by name, and how it serves loads in the loop of 0.33.0."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.test_engine_loads import answered

from cacheimpl.vllm.backlog import Backlog
from cacheimpl.vllm.batched_settings import (
    MOST_ITEMS,
    REFUSED,
    Budgets,
    check_batched,
    check_served,
    settings_of,
    stops_of,
)
from cacheimpl.vllm.unsupported import BATCHED, UnsupportedSettingError, check_version
from cacheproof.targets.vllm.release import Release, installed

VERSION = "0.33.0"


class FullAttentionSpec(SimpleNamespace):
    """As the release names it."""


class SlidingWindowSpec(SimpleNamespace):
    """The same."""


def configuration(**changed: Any) -> Any:
    """An engine that is served."""
    scheduler = {
        "async_scheduling": False,
        "policy": "fcfs",
        "max_num_seqs": 8,
        "long_prefill_token_threshold": 0,
        "enable_chunked_prefill": True,
    }
    more = {name: changed.pop(name) for name in list(changed) if name in (*scheduler, "watermark")}
    parts: dict[str, Any] = {
        "scheduler_config": SimpleNamespace(**{**scheduler, **more}),
        "model_config": SimpleNamespace(is_multimodal_model=False, runner_type="generate", max_model_len=64),
        "cache_config": SimpleNamespace(enable_prefix_caching=True),
        "parallel_config": SimpleNamespace(),
    }
    return SimpleNamespace(**{**parts, **changed})


def groups(*specs: Any, **more: Any) -> Any:
    """A configuration of KV caches."""
    return SimpleNamespace(
        num_blocks=21, kv_cache_groups=[SimpleNamespace(kv_cache_spec=each) for each in specs], **more
    )


FULL = FullAttentionSpec(block_size=4)

NGRAM = SimpleNamespace(method="ngram", num_speculative_tokens=3)

WRONG: dict[str, dict[str, Any]] = {
    "--async-scheduling with --speculative-config": {"async_scheduling": True, "speculative_config": NGRAM},
    "--speculative-config with another method than ngram": {"speculative_config": SimpleNamespace(method="eagle")},
    "num_speculative_tokens_per_batch_size of --speculative-config": {
        "speculative_config": SimpleNamespace(method="ngram", num_speculative_tokens_per_batch_size={1: 2})
    },
    "--kv-transfer-config": {"kv_transfer_config": object()},
    "--kv-events-config": {"kv_events_config": SimpleNamespace(enable_kv_cache_events=True)},
    "a --scheduling-policy beside fcfs and priority": {"policy": "shortest"},
    "a pooling model": {"model_config": SimpleNamespace(is_multimodal_model=False, runner_type="pooling")},
    "--pipeline-parallel-size": {"parallel_config": SimpleNamespace(pipeline_parallel_size=2)},
    "--data-parallel-size": {"parallel_config": SimpleNamespace(data_parallel_size=2)},
}


def test_each_wrong_setting_is_refused_by_name() -> None:
    check_batched(configuration(), groups(FULL))
    assert len(WRONG) == len(REFUSED)
    for name, changed in WRONG.items():
        with pytest.raises(UnsupportedSettingError, match=f"^{name}"):
            check_batched(configuration(**changed), groups(FULL))


@pytest.mark.parametrize(
    "caches",
    [
        groups(FULL, FULL),
        groups(SlidingWindowSpec(block_size=4, sliding_window=8)),
        groups(FULL, needs_kv_cache_zeroing=True),
    ],
)
def test_other_caches_are_refused(caches: Any) -> None:
    with pytest.raises(UnsupportedSettingError, match=r"not supported by cacheimpl\.vllm\.BatchedScheduler"):
        check_batched(configuration(), caches)


def test_only_releases_that_were_run_are_served() -> None:
    check_version("0.33.0", BATCHED)
    with pytest.raises(UnsupportedSettingError, match=r"vLLM 0\.20\.2 was never run with this class; 0\.33 were"):
        check_version("0.20.2", BATCHED)


def test_settings_are_those_of_the_engine() -> None:
    settings = settings_of(configuration(), groups(FULL), Budgets(48))
    assert (settings.block_size, settings.num_gpu_blocks, settings.max_num_batched_tokens) == (4, 20, 48)
    assert settings.max_requests > settings.max_num_seqs == 8
    plain = (settings.by_priority, settings.enable_prefix_caching, settings.watermark, settings.max_loras)
    assert plain == (False, True, 0, 0)


def test_settings_that_are_not_the_default() -> None:
    """The watermark is a share of all blocks, the null block among them, as the release counts it."""
    config = configuration(
        policy="priority",
        watermark=0.1,
        cache_config=SimpleNamespace(enable_prefix_caching=False),
        lora_config=SimpleNamespace(max_loras=3),
    )
    settings = settings_of(config, groups(FULL), Budgets(48))
    asked = (settings.by_priority, settings.enable_prefix_caching, settings.watermark, settings.max_loras)
    assert asked == (True, False, 2, 3)


@pytest.mark.parametrize("served", [{"async_scheduling": True}, {"speculative_config": NGRAM}])
def test_steps_ahead_and_drafts_are_served_one_at_a_time(served: dict[str, Any]) -> None:
    config = configuration(**served)
    check_batched(config, groups(FULL))
    settings = settings_of(config, groups(FULL), Budgets(48))
    ahead = "async_scheduling" in served
    assert (settings.plans_in_flight, settings.num_spec_tokens) == ((2, 0) if ahead else (1, 3))


@pytest.mark.parametrize(
    ("limits", "items"),
    [({}, MOST_ITEMS), ({"image": 3}, 3), ({"image": SimpleNamespace(count=2), "video": SimpleNamespace(count=1)}, 3)],
)
def test_items_of_a_request(limits: dict[str, Any], items: int) -> None:
    """As many as the engine's options allow. A text model has none, whatever they say."""
    model = SimpleNamespace(
        runner_type="generate", max_model_len=64, multimodal_config=SimpleNamespace(limit_per_prompt=limits)
    )
    settings = settings_of(configuration(model_config=model), groups(FULL), Budgets(48, 6, 9))
    assert (settings.max_items, settings.encoder_compute_budget, settings.encoder_cache_size) == (items, 6, 9)
    assert settings_of(configuration(model_config=model), groups(FULL), Budgets(48)).max_items == 0


def test_a_look_up_that_is_not_wanted_is_served_without_a_prefix_cache() -> None:
    assert check_served(request(skip_reading_prefix_cache=True), caching=False) is None


def test_who_gets_a_row() -> None:
    """By arrival no request gives a row back. By priority, the last one that has not begun does."""
    first, urgent, late = (
        SimpleNamespace(priority=priority, arrival_time=float(number), request_id=str(number))
        for number, priority in enumerate((1, 0, 1))
    )
    by_arrival, by_priority = Backlog(by_priority=False), Backlog(by_priority=True)
    for backlog in (by_arrival, by_priority):
        backlog.add(urgent)
    assert by_arrival.displaced([first, late]) is None
    assert by_priority.displaced([first, late]) is late
    assert by_priority.displaced([urgent]) is None
    by_priority.add(first)
    assert [by_priority.pop()[1] for _ in range(2)] == [urgent, first]


def request(**changed: Any) -> Any:
    """A request that is served."""
    parameters = SimpleNamespace(stop_token_ids=[5, 6], eos_token_id=2, repetition_detection=None)
    return SimpleNamespace(**{"request_id": "0", "sampling_params": parameters, **changed})


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"structured_output_request": object()}, "a grammar"),
        ({"prompt_embeds": object()}, "prompt embeddings"),
        ({"resumable": True}, "a session"),
        (
            {"mm_features": [SimpleNamespace(mm_position=SimpleNamespace(is_embed=[True, False]))]},
            "an item with tokens that have no embedding",
        ),
        ({"skip_reading_prefix_cache": True}, "prompt_logprobs"),
        ({"sampling_params": None}, "no sampling parameters"),
    ],
)
def test_requests_that_are_not_served_are_named(changed: dict[str, Any], named: str) -> None:
    assert check_served(request()) is None
    assert named in str(check_served(request(**changed)))


def test_stops() -> None:
    assert stops_of(request()) == {2, 5, 6}


def test_loads_in_the_loop_of_the_release() -> None:
    """No step reads what no step wrote, requests are resumed, and nothing is left; a planted bug is seen."""
    if installed(Release(VERSION)) is None:
        pytest.skip(f"vllm=={VERSION} is not installed: cacheproof target add vllm=={VERSION}")
    answer = answered(VERSION, "batched_loads.py", "0", "3")
    loads, planted, ended = answer["loads"], answer["planted"], answer["requests"]
    assert (loads["errors"], loads["left"]) == ([], 0)
    assert loads["hits"]
    assert loads["resumed"]
    assert planted["errors"]
    for name, found in answer["options"].items():
        assert (found["errors"], found["left"]) == ([], 0), name
        assert found["resumed"], name
        assert bool(found["hits"]) != ("without" in name), name
    released, urgent, kept_waiting = answer["urgent"]
    assert kept_waiting["first"] > urgent["first"] == released["first"] > 3
    assert urgent["ended"] == ["FINISHED_LENGTH_CAPPED"]
    status = {
        "stopped": "FINISHED_STOPPED",
        "capped": "FINISHED_LENGTH_CAPPED",
        "refused": "FINISHED_ERROR",
        "aborted": "FINISHED_ABORTED",
        "longest": "FINISHED_LENGTH_CAPPED",
    }
    assert ended["status"] == status
    assert ended["reason"] == -2
    assert ended["heard"] == {"stopped": 4, "capped": 2, "aborted": 1, "longest": 59, "refused": 0}
    assert ended["kept"] == ended["heard"]
    assert ended["told"] == ["capped", "longest", "refused", "stopped"]
    assert ended["finished"] == sorted(status)
    assert (ended["waiting"], ended["left"]) == ([0, 5], [0, 0, False])


def in_each_mode(first: int, last: int) -> Any:
    """What came of loads with these seeds."""
    if installed(Release(VERSION)) is None:
        pytest.skip(f"vllm=={VERSION} is not installed: cacheproof target add vllm=={VERSION}")
    return answered(VERSION, "batched_modes.py", str(first), str(last))


def judge(answer: Any, count: int) -> None:
    """Loads are served to their end in each mode; without prefixes the plans are the release's; bugs are noticed."""
    assert len(answer["alone"]) == 12
    for mode, found in answer["alone"].items():
        assert (found["errors"], found["unheard"], found["left"]) == ([], 0, 0), mode
        assert found["hits"], mode
        assert found["resumed"], mode
        assert bool(found["accepted"]) == ("drafts" in mode), mode
        assert bool(found["encoded"]) == ("images" in mode), mode
    assert len(answer["beside"]) == 5
    for mode, found in answer["beside"].items():
        assert (found["same"], found["parted"]) == (count, []), mode
    for (released, ours), tokens in zip(answer["stopped"], ([7, 5, -2], [7, -2]), strict=True):
        assert ours == released
        assert (ours["heard"], ours["left"]) == (tokens, 0)
    assert len(answer["planted"]) == 6
    assert all(answer["planted"].values()), answer["planted"]


@pytest.mark.timeout(600)
def test_each_mode_in_the_loop_of_the_release() -> None:
    """Steps ahead, drafts and items, by arrival and by priority."""
    judge(in_each_mode(0, 1), 1)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_each_mode_with_more_loads() -> None:
    judge(in_each_mode(1, 5), 4)
