"""Our KV cache manager in the schedulers of the releases, beside their own: random loads, in up to eight modes."""

from __future__ import annotations

import json
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
MODES = {"0.11.0": 3, "0.20.2": 8, "0.33.0": 8}
"""Sync, async, drafts and both, with and without priorities.

0.11.0 has no drafts ahead. By priority it schedules a request and preempts it in the same step, and then a step reads
what is not there, with its own manager too; our manager ends that with `StaleCountError`.
"""
LOADS = 10
CALLS = ("admit, delayed", "go on, delayed", "cache", "free")
"""Calls that have to occur; from 0.20 on also those that go back, and evict."""


def answered(version: str, script: str, *arguments: str) -> Any:
    """What a script says that the Python of a release's environment runs."""
    there = add(Release(version), print)
    command = [str(needed_environment().python), "-I", str(HERE / script), str(START.parent)]
    command += [str(there.source), str(IMPL), *arguments]
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
    """An era plans as its release does. Normatively no call raises, and nothing is found that no step writes."""
    report = answered(version, "engine_loads.py", "0", str(LOADS), ERAS[version], "NORMATIVE")
    if version == "0.11.0":
        report = {mode: found for mode, found in report.items() if "priority" not in mode}
    assert len(report) == MODES[version]
    for mode, found in report.items():
        assert [entry["errors"] for entry in found.values()] == [{}] * 3, mode
        assert all(entry["hits"] and entry["resumed"] for entry in found.values()), mode
        era, normative = found[ERAS[version]], found["NORMATIVE"]
        assert era["same"] == LOADS, mode
        assert era["unwritten"], mode  # it registers when it schedules, and this is what the worker would see
        assert normative["unwritten"] == 0, mode
        assert normative["early"] == 0 or (version not in EXACT and "async" in mode), mode
