"""Our managers in the schedulers of the releases, beside their own: random loads with images, and unsplit prompts."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces import engine_modes, image_load, random_loads
from tests.impl.interfaces.test_engine_loads import IMPL, answered

ERAS = {"0.20.2": "KV_2025_10", "0.33.0": "KV_2026_11+EncoderCacheManager"}
"""Our managers as a release behaves. `EncoderCacheManager` has no rules of the manager of 0.20.2, whose own stays."""
NORMATIVE = "NORMATIVE+PlannedEncoderCacheManager"
WITH_IMAGES = [name for name in engine_modes.GROUPS if name.startswith("images")]
FIRST, LOADS = {"0.20.2": 0, "0.33.0": 10}, 10
"""Among these loads with urgent requests the release reads an output whose item left the plan that was to encode it."""
KNOWN = ("an encoder output that is not there: C-ENC-26", "keys and values that are not there: C-KV-6")
"""What a release may end with by priority: the catalogue has it."""
OCCUR = ("hits", "resumed", "encoded", "shared", "evicted", "refused", "parts")


def loads_of(version: str, group: str, *managers: str, impl: Path = IMPL) -> dict[str, Any]:
    """How the loads of these modes ended."""
    given = str(FIRST[version]), str(FIRST[version] + LOADS), *managers
    report: dict[str, Any] = answered(version, "engine_loads.py", *given, "--groups", group, impl=impl)
    return report


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("group", WITH_IMAGES)
def test_loads_with_images(version: str, group: str) -> None:
    """An era plans as its release does, and reads the same wrong outputs. Normatively no step reads a wrong one."""
    report = loads_of(version, group, ERAS[version], NORMATIVE)
    assert list(report) == list(engine_modes.GROUPS[group])
    errors = set[str]()
    for mode, found in report.items():
        released, era, normative = found["released"], found[ERAS[version]], found[NORMATIVE]
        assert era["same"] == era["loads"] == LOADS, mode
        assert era["errors"] == released["errors"], mode
        assert not released["errors"] or engine_modes.MODES[mode].by_priority
        assert all(error.removeprefix("WrongReadError: ").startswith(KNOWN) for error in released["errors"]), mode
        assert normative["errors"] == {}, mode
        assert normative["unwritten"] == normative["C-ENC-8"] == normative["C-ENC-20"] == 0, mode
        assert all(entry[name] for entry in found.values() for name in OCCUR), mode
        assert released["C-ENC-8"] == era["C-ENC-8"] == era["C-ENC-8"] * (version == "0.20.2"), mode
        assert bool(released["C-ENC-15"]) == (version == "0.20.2" and group == "images, whole")
        errors.update(released["errors"])
    urgent = group == "images, urgent"
    assert version == "0.33.0" or urgent or any(entry["released"]["C-ENC-8"] for entry in report.values())
    assert not urgent or any("C-ENC-26" in error for error in errors)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", ERAS)
def test_loads_with_whole_prompts(version: str) -> None:
    """Without chunked prefill an era plans as its release does, and no step reads an output that is not there."""
    report = loads_of(version, "whole prompts", ERAS[version], NORMATIVE)
    assert list(report) == list(engine_modes.GROUPS["whole prompts"])
    for mode, found in report.items():
        assert found[ERAS[version]]["same"] == LOADS, mode
        assert all(entry["errors"] == {} and entry["hits"] and entry["resumed"] for entry in found.values()), mode
        assert found[NORMATIVE]["unwritten"] == 0, mode


PLANTED = {
    "the newest idle entry is evicted": (
        "images",
        "encoder_cache/accounting.py",
        "leaving = oldest_until(cache.idle,",
        "leaving = oldest_until(cache.idle.max() - cache.idle,",
    ),
    "a plan lacks an eviction": (
        "images",
        "encoder_cache/manager.py",
        "answer.values[: int(answer.length)].tolist()]\n\n    @property\n    def cache_size",
        "answer.values[: int(answer.length)].tolist()[1:]]\n\n    @property\n    def cache_size",
    ),
    "an entry that has no output is a hit": (
        "images, urgent",
        "vllm/encoder.py",
        "if content not in self._withdrawn:",
        "if True:",
    ),
    "blocks are free in another order": (
        "whole prompts",
        "kv_cache_manager/pool.py",
        "_append_released(reversed(blocks))",
        "_append_released(iter(blocks))",
    ),
}
"""Bugs: the modes that show each, and what is changed."""


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("bug", PLANTED)
def test_a_bug_is_noticed(bug: str, tmp_path: Path) -> None:
    """By plans that part, or by an output that is not there."""
    group, place, right, wrong = PLANTED[bug]
    shutil.copytree(IMPL / "cacheimpl", tmp_path / "cacheimpl")
    changed = tmp_path / "cacheimpl" / place
    assert changed.read_text().count(right) == 1
    changed.write_text(changed.read_text().replace(right, wrong))
    if place.startswith("vllm"):
        found = loads_of("0.33.0", group, NORMATIVE, impl=tmp_path)
        assert any("C-ENC-26" in error for entry in found.values() for error in entry[NORMATIVE]["errors"])
    else:
        found = loads_of("0.33.0", group, ERAS["0.33.0"], impl=tmp_path)
        assert any(entry[ERAS["0.33.0"]]["same"] < LOADS for entry in found.values())


# The worker, without a release --------------------------------------------------------------------------------------


def worker(*items: tuple[int, int, int]) -> image_load.Worker:
    """A worker with one request of eight tokens, which has these items."""
    classes = SimpleNamespace(
        dropped=lambda said: [int(content) for content in said.free_encoder_mm_hashes],
        starts=lambda said: {part.req_id: 0 for part in said.scheduled_new_reqs},
        told=lambda said: [SimpleNamespace(request=0, blocks=[1, 2, 3], whole=True) for _ in said.scheduled_new_reqs],
    )
    made = image_load.Worker(classes, random.Random(1))
    made.tokens[0] = [0] * 8
    made.items[0] = [image_load.Placed(*item) for item in items]
    return made


def plan(tokens: int, encodes: tuple[int, ...] = (), drops: tuple[int, ...] = (), *, new: bool = False) -> Any:
    """The plan of a step for the request."""
    return SimpleNamespace(
        scheduled_new_reqs=[SimpleNamespace(req_id="0")] if new else [],
        num_scheduled_tokens={"0": tokens},
        scheduled_spec_decode_tokens={},
        scheduled_encoder_inputs={"0": list(encodes)} if encodes else {},
        free_encoder_mm_hashes=[str(content) for content in drops],
    )


def test_a_worker_reads_what_it_has_encoded() -> None:
    of = worker((5, 2, 4))
    of.execute(plan(2, new=True))
    of.execute(plan(2, (0,)))
    of.execute(plan(2, drops=(7,)))
    assert of.outputs == {5}
    assert (of.encoded, of.parts) == (1, 2)


@pytest.mark.parametrize("drops", [(), (5,)], ids=["never encoded", "dropped between two chunks"])
def test_a_worker_reports_an_output_that_is_not_there(drops: tuple[int, ...]) -> None:
    of = worker((5, 2, 4))
    of.execute(plan(2, new=True))
    if drops:
        of.execute(plan(2, (0,)))
    with pytest.raises(random_loads.WrongReadError, match="encoder output that is not there: of no known cause"):
        of.execute(plan(2, drops=drops))


def test_a_worker_drops_before_it_encodes() -> None:
    of = worker((5, 2, 4), (6, 6, 2))
    of.execute(plan(4, (0,), new=True))
    of.execute(plan(4, (0, 1), drops=(5,)))
    assert of.outputs == {5, 6}


def test_an_item_without_its_output_is_named() -> None:
    of = worker((5, 2, 4))
    of.phantoms[5] = image_load.WITHDRAWN
    with pytest.raises(random_loads.WrongReadError, match="C-ENC-26, later"):
        of.execute(plan(4, new=True))


def test_keys_and_values_depend_on_what_an_item_shows() -> None:
    """A block that another image has filled is no block of this request."""
    of = worker((5, 0, 4))
    of.execute(plan(4, (0,), new=True))
    of.items[0] = [image_load.Placed(6, 0, 4)]
    with pytest.raises(random_loads.WrongReadError, match="keys and values that are not there: of no known cause"):
        of.execute(plan(4))


def test_a_slot_that_left_its_plan_is_named() -> None:
    of = worker()
    of.execute(plan(4, new=True))
    of.slots.pop((1, 3))
    of.withdrawn.add((1, 3))
    with pytest.raises(random_loads.WrongReadError, match="C-KV-6, withdrawn"):
        of.execute(plan(4))


def test_shapes_are_those_of_engines() -> None:
    """An engine refuses budgets below its largest item, and steps below what it may not split."""
    for shape in (*engine_modes.SHAPES, engine_modes.OVERCOMMITTED):
        largest = max(shape.lengths)
        assert shape.compute >= largest <= shape.capacity < sum(shape.lengths)
        assert shape.within(engine_modes.ITEMS, 64).budget >= largest
        assert shape.within(engine_modes.PROMPTS, 64).budget >= 64
        assert not shape.threshold or shape.within(engine_modes.ITEMS, 64).threshold >= largest
    assert any(max(shape.lengths) > (shape.threshold or shape.budget) for shape in engine_modes.SHAPES)
    assert len(engine_modes.MODES) == 12 + 4 * 8 + 4
