"""Loads in a whole engine: what they ask for, and what the comparison says when an engine ends, hangs or differs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cacheproof.command.engine import command
from cacheproof.foundation.errors import ExitStatus, InconclusiveError, InputError
from cacheproof.releases.engine import campaign, installing
from cacheproof.releases.engine.campaign import MODES, RELEASED, compare
from cacheproof.releases.engine.child.load import BLOCK, IMAGES, LONGEST, load, options
from cacheproof.releases.engine.installing import Engine
from cacheproof.targets.folders import mark_complete

SCRIPT = """
import json, sys, time
settings = json.loads(sys.argv[1])
ours = "scheduler_cls" in settings["options"]
print(json.dumps({"ended": 1}))
if ours and "BEHAVIOUR" == "hangs":
    time.sleep(60)
if ours and "BEHAVIOUR" == "ends":
    print(json.dumps({"error": "RuntimeError: Encoder cache miss"}))
    sys.exit(1)
if ours and "BEHAVIOUR" == "crashes":
    sys.exit("no kernels")
tokens = [[1, 2], [3]] if not ours or "BEHAVIOUR" == "serves" else [[1, 2], [4]]
print(json.dumps({"scheduler": "s", "managers": ["k", "e"], "tokens": tokens, "counts": {"hits": 3, "seconds": 0.1}}))
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes an engine whose process behaves so; its interpreter is ours."""

    def make(behaviour: str) -> Engine:
        (tmp_path / "load.py").write_text(SCRIPT.replace("BEHAVIOUR", behaviour))
        monkeypatch.setattr(campaign, "CHILD", tmp_path)
        monkeypatch.setattr(installing.Engine, "python", Path(sys.executable))
        return Engine("0.33.0", tmp_path / "engine-0.33.0")

    return make


@pytest.mark.parametrize("images", [False, True])
def test_a_load_fits_the_engine(images: bool) -> None:
    """Each request fits the model, has an image for each sign of one, and loads are reproducible."""
    made = load(7, 300, images=images)
    assert made == load(7, 300, images=images)
    assert made != load(8, 300, images=images)
    assert all(one.words.count("<image>") == len(one.images) <= 2 for one in made)
    assert all(len(one.words) + 3 * len(one.images) + one.outputs <= LONGEST for one in made)
    assert any(one.images for one in made) == images
    assert {number for one in made for number in one.images} == (set(range(IMAGES)) if images else set())
    assert 10 < sum(bool(one.aborted_after) for one in made) < 60
    beginnings = [tuple(one.words[:BLOCK]) for one in made if len(one.words) >= BLOCK]
    assert len(beginnings) - len(set(beginnings)) > 20


def test_options_of_ours_come_last() -> None:
    common = {"model": "m", "blocks": 9, "async": True, "priority": True, "images": True, "drafts": 2}
    made = options({**common, "options": {"scheduler_cls": "cacheimpl.vllm.Scheduler"}})
    assert made["scheduler_cls"] == "cacheimpl.vllm.Scheduler"
    assert made["scheduling_policy"] == "priority"
    assert made["speculative_config"]["num_speculative_tokens"] == 2


@pytest.mark.parametrize(
    ("behaviour", "alike", "error"),
    [("serves", 2, ""), ("differs", 1, ""), ("ends", 0, "Encoder cache miss"), ("crashes", 0, "no kernels")],
)
def test_what_the_comparison_says(engine: Any, behaviour: str, alike: int, error: str) -> None:
    told = list[str]()
    found = compare(engine(behaviour), "text-async", "NORMATIVE", 2, 1, 30, told.append)
    assert found.served_alike == alike
    assert found.same == (behaviour == "serves")
    assert found.differing == ([1] if behaviour == "differs" else [])
    assert error in found.ours.error
    assert bool(found.ours.error) == bool(error)
    assert told[:2] == [
        f"text-async with {RELEASED}: the engine starts",
        f"text-async with {RELEASED}: 1 of 2 requests",
    ]


def test_an_engine_that_hangs(engine: Any) -> None:
    with pytest.raises(InconclusiveError, match="text with ours: no end within 2 seconds"):
        compare(engine("hangs"), "text", "NORMATIVE", 2, 1, 2, print)


def test_the_command(engine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The status is that of the comparison, and wrong names are refused."""
    monkeypatch.setattr(installing, "root", lambda: tmp_path)
    with pytest.raises(InputError, match=r"target add vllm==0\.33\.0 --engine"):
        command("vllm==0.33.0")
    with pytest.raises(InputError, match=r"these can: vllm==0\.33\.0"):
        command("vllm==0.1.0")
    (tmp_path / "engine-0.33.0").mkdir()
    mark_complete(tmp_path / "engine-0.33.0", {})
    for behaviour, status in (("serves", ExitStatus.AS_EXPECTED), ("differs", ExitStatus.FELL_SHORT)):
        engine(behaviour)
        report = command(
            "vllm==0.33.0", mode=["text", "images"], loads=1, rules="NORMATIVE", requests=2, seed=0, seconds=30
        )
        assert report.exit_status is status
        assert [one["mode"] for one in report.data["loads"]] == ["text", "images"]
        json.dumps(report.data["loads"])
    with pytest.raises(InputError, match="there is no mode 'sound'"):
        command("vllm==0.33.0", mode=["sound"])
    with pytest.raises(InputError, match="--rules must be one of"):
        command("vllm==0.33.0", rules="none")


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", MODES)
def test_a_whole_engine(mode: str) -> None:
    """The tokens are the same, and the load makes the scheduler share, preempt and evict."""
    there = installing.installed("0.33.0")
    if there is None:
        pytest.skip("there is no whole engine: cacheproof target add vllm==0.33.0 --engine")
    found = compare(there, mode, "NORMATIVE", 150, 5, 280, print)
    assert found.same, found.data()
    assert found.ours.managers[0] == "cacheimpl.kv_cache_manager.manager.LaterKVCacheManager"
    assert found.released.managers[0].startswith("vllm.")
    counts = found.ours.counts
    assert counts["hits"]
    assert counts["preemptions"]
    assert bool(counts["evicted"]) == MODES[mode].images
    assert bool(counts["drafted"]) == bool(MODES[mode].drafts)
