"""Our KV cache manager in the schedulers of the releases, beside their own: random loads of text."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import cacheimpl
from cacheproof.targets.vllm.release import START, Release, add, needed_environment

HERE = Path(__file__).parent
IMPL = Path(cacheimpl.__file__).parents[1]
ERAS = {"0.11.0": "KV_2025_10", "0.20.2": "KV_2025_10", "0.33.0": "KV_2026_11"}
EXACT = ("0.33.0",)
"""Releases whose requests say exactly how many of their tokens are in flight."""
MODES = {"0.11.0": 3, "0.20.2": 12, "0.33.0": 12}
"""Sync, async, drafts and both, with and without priorities; loads from outside; and a sliding window.

0.11.0 has no drafts ahead. By priority it schedules a request and preempts it in the same step, and then a step reads
what is not there, with its own manager too.
"""
LOADS = 10
CALLS = ("admit, delayed", "go on, delayed", "cache", "free")
"""Calls that have to occur; from 0.20 on also those that go back, and evict."""


def answered(version: str, script: str, *arguments: str, impl: Path = IMPL) -> Any:
    """What a script says that the Python of a release's environment runs, with `cacheimpl` from this folder."""
    there = add(Release(version), print)
    command = [str(needed_environment().python), "-I", str(HERE / script), str(START.parent)]
    command += [str(there.source), str(impl), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=580)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", ERAS)
def test_calls_that_no_driver_makes(version: str) -> None:
    """Delayed registration, loads from outside, counts that go back: an era answers as its release."""
    report = answered(version, "manager_loads.py", ERAS[version], "0", "40")
    assert report["differences"] == {}
    assert all(report["made"][name] > 50 for name in (*CALLS, *(("back", "evict") if version != "0.11.0" else ())))
    assert answered(version, "manager_loads.py", "NORMATIVE", "0", "5")["differences"]


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", ERAS)
def test_loads(version: str) -> None:
    """An era plans as its release does. Normatively no call raises, and nothing is found that no step writes.

    With loads that fail, the releases leave the blocks registered: a request that is preempted before it has computed
    them again finds them, and reads what was never written. So does an era, and the normative manager does not.
    """
    report = answered(version, "engine_loads.py", "0", str(LOADS), ERAS[version], "NORMATIVE", "--groups", "text")
    assert len(report) == MODES[version]
    for mode, found in report.items():
        released, era, normative = found["released"], found[ERAS[version]], found["NORMATIVE"]
        loads, window = "loads" in mode, "window" in mode  # behind a window blocks go back, and nothing is preempted
        assert all(entry["hits"] and bool(entry["failed"]) == loads for entry in found.values())
        assert window or all(entry["resumed"] for entry in found.values())
        assert era["same"] == LOADS, mode
        assert era["errors"] == released["errors"], mode
        assert loads or not released["errors"], mode
        assert all(error.startswith("WrongReadError") for error in released["errors"]), mode
        assert era["unwritten"], mode  # it registers when it schedules, and this is what the worker would see
        assert normative["errors"] == {}, mode
        assert normative["unwritten"] == 0, mode
        assert normative["early"] == 0 or (version not in EXACT and "async" in mode), mode
    assert version == "0.11.0" or report["sync, loads"]["released"]["errors"]


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_loads_with_hits_within_blocks() -> None:
    """Full attention and states: the era plans as 0.33.0 does, copies included, and no step reads what is not there."""
    report = answered("0.33.0", "partial_loads.py", "0", str(LOADS), "KV_2026_11", "NORMATIVE")
    assert len(report) == 8
    for mode, found in report.items():
        released, era, normative = found["released"], found["KV_2026_11"], found["NORMATIVE"]
        assert era["same"] == LOADS, mode
        assert era["errors"] == released["errors"], mode
        assert all(error.startswith("WrongReadError") for error in released["errors"]), mode
        assert normative["errors"] == {}, mode
        assert all(entry["within"] > 5 and entry["copies"] > 100 for entry in found.values()), mode
        assert "preempting" not in mode or all(entry["resumed"] for entry in found.values()), mode


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_such_a_load_notices_a_bug(tmp_path: Path) -> None:
    """A state is registered although the next step, which is planned already, overwrites it."""
    shutil.copytree(IMPL / "cacheimpl", tmp_path / "cacheimpl")
    changed = tmp_path / "cacheimpl" / "kv_cache_manager" / "partial.py"
    right = "self.steps.ends_at(request.request_id, tokens) and not overwritten"
    assert right in changed.read_text()
    changed.write_text(changed.read_text().replace(right, "True"))
    found = answered("0.33.0", "partial_loads.py", "0", "2", "NORMATIVE", impl=tmp_path)["async"]["NORMATIVE"]
    assert any("a state that is not there" in error for error in found["errors"])
