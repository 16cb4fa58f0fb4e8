"""A run of an engine becomes logs, and the engine does not notice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.proofs.record.engines import ENCODER, write_engine

from cacheproof.command.frame import dispatch
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.logs.record.engine import NAME, environment
from cacheproof.logs.record.events import recordings_in
from cacheproof.logs.record.logs import era_of
from cacheproof.logs.record.numbering import Lives
from cacheproof.logs.validate.run import Validation
from cacheproof.logs.validate.source import open_source
from cacheproof.logs.validate.verdict import Impossible, Sort
from cacheproof.targets.vllm.release import Release, installed, needed_environment

ROOT = Path(__file__).parents[3]
DRIVER = ROOT / "proofs" / "cacheproof" / "targets" / "vllm" / "child"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path / "home"))


def recorded(capfd: pytest.CaptureFixture[str], folder: Path, *command: str, every: int = 7) -> dict[str, Any]:
    """What `cacheproof record` says, of a command or of what is there."""
    engine = ["--every", str(every), "--", *command] if command else []
    dispatch(["record", str(folder), "--json", *engine])
    data: dict[str, Any] = json.loads(capfd.readouterr().out.splitlines()[-1])
    return data


def validation_of(log: str) -> Validation:
    validation = Validation(open_source(Path(log)))
    validation.run()
    return validation


def lines_of(log: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(log).read_text().splitlines()]


def test_an_engine_is_recorded_and_its_log_is_a_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = write_engine(tmp_path / "engine")
    data = recorded(capfd, tmp_path / "out", sys.executable, str(script))
    assert data["engine_status"] == 0
    (log,) = data["logs"]
    assert (log["component"], log["variant"], log["stopped"]) == ("encoder_cache", "E1", "")
    header, *lines, _ = lines_of(log["log"])
    assert header["config"]["sizes"] == [2, 2, 3]
    assert header["config"]["requests"] == [[0, 1], [2]]
    assert header["source"].startswith("vllm 0.11.0, encoder_cache.")
    names = [line["operation"]["op"] for line in lines]
    assert names == [
        *("check_and_update", "can_allocate", "allocate") * 2,
        *("can_allocate", "free_request", "can_allocate", "allocate", "report", "allocate"),
    ], "what a manager calls itself is no event"
    assert lines[6]["outcome"]["code"] == "refused"
    assert lines[10]["outcome"]["values"] == [0, 1]
    assert lines[11]["outcome"]["code"] == "failed"
    validation = validation_of(log["log"])
    assert validation.sort is Sort.POSSIBLE
    assert validation.consumed == log["lines"] == 12


def test_a_planted_bug_is_found_in_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The released one evicts what has waited longest."""
    planted = ENCODER.replace("name = next(iter(self.freeable))", "name = next(reversed(self.freeable))")
    script = (
        write_engine(tmp_path / "engine", planted, extra="").read_text().replace('["cat", "dog"]', '["dog", "cat"]')
    )
    (tmp_path / "engine" / "engine.py").write_text(script)
    data = recorded(capfd, tmp_path / "out", sys.executable, str(tmp_path / "engine" / "engine.py"))
    found = validation_of(data["logs"][0]["log"]).found
    assert isinstance(found, Impossible)
    assert "report" in found.text


def test_an_engine_that_is_not_asked_is_as_it_was(tmp_path: Path) -> None:
    """Without a folder the plugin does nothing, wherever it is found."""
    script = write_engine(tmp_path / "engine", extra="assert not hasattr(manager, 'cacheproof_journal')")
    variables = {**environment(tmp_path / "out", base={}), "CACHEPROOF_RECORD": ""}

    ended = subprocess.run([sys.executable, str(script)], env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert not list((tmp_path / "out").glob("*.events"))


def test_what_the_recorder_cannot_do_ends_the_recording_and_not_the_engine(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = write_engine(tmp_path / "engine", extra="del manager.num_free_slots; manager.free(two); print('served')")
    data = recorded(capfd, tmp_path / "out", sys.executable, str(script))
    assert data["engine_status"] == 0
    (log,) = data["logs"]
    assert log["lines"] == 12
    assert "the recorder failed: AttributeError" in log["stopped"]
    assert validation_of(log["log"]).sort is Sort.POSSIBLE


def test_an_engine_without_the_managers_is_served_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = write_engine(tmp_path / "engine")
    (tmp_path / "engine" / "vllm" / "v1" / "core" / "encoder_cache_manager.py").write_text("")
    script.write_text(script.read_text().partition("from vllm")[0])
    data = recorded(capfd, tmp_path / "out", sys.executable, str(script))
    assert (data["engine_status"], data["logs"], data["ok"]) == (0, [], False)


def test_a_recording_that_broke_off_is_taken_as_far_as_it_goes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    data = recorded(capfd, folder, sys.executable, str(write_engine(tmp_path / "engine")))
    (events,) = folder.glob("*.events")
    events.write_text(events.read_text()[:-20])
    again = recorded(capfd, folder)
    assert again["engine"] is None
    assert again["logs"][0]["lines"] == data["logs"][0]["lines"] - 1
    assert validation_of(again["logs"][0]["log"]).sort is Sort.POSSIBLE


def test_wrong_calls(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["record", str(tmp_path / "nowhere")]) is ExitStatus.WRONG_INPUT
    assert dispatch(["record", str(tmp_path / "out"), "--", "no-such-engine"]) is ExitStatus.WRONG_INPUT
    assert "no-such-engine: cannot be started" in capfd.readouterr().err
    (tmp_path / "out" / "lru.1.0.events").write_text('{"format": "other"}\n')
    with pytest.raises(InputError, match="not events of format"):
        recordings_in(tmp_path / "out")
    assert dispatch(["record", str(tmp_path / "out"), "--", "true"]) is ExitStatus.WRONG_INPUT
    assert "has recordings already" in capfd.readouterr().err


def test_a_restricted_engine_loads_the_plugin_too(tmp_path: Path) -> None:
    variables = environment(tmp_path, base={"VLLM_PLUGINS": "mine", "PYTHONPATH": "/somewhere"})
    assert variables["VLLM_PLUGINS"] == f"mine,{NAME}"
    assert variables["PYTHONPATH"].endswith(":/somewhere")


def test_the_era_is_that_of_the_release_or_the_last_one_before_it(tmp_path: Path) -> None:
    for version, tag in (("0.11.0", "K1"), ("0.12.1", "K1"), ("0.20.2", "K1b"), ("1.0", "K2"), ("", "normative")):
        path = tmp_path / "kv_blocks.1.0.events"
        told = {"format": "cacheproof-recorded-events", "version": "0.1", "component": "kv_blocks", "release": version}
        path.write_text(json.dumps(told) + "\n")
        (recording,) = recordings_in(tmp_path)
        assert era_of(recording).tag == tag
    path.write_text(path.read_text().replace('"release": ""', '"release": "0.6.0"'))
    with pytest.raises(InputError, match=r"no era of kv_blocks is as old as vllm 0\.6\.0"):
        era_of(recordings_in(tmp_path)[0])


@pytest.mark.parametrize("version", ["dev", ""])
def test_a_source_that_was_not_built_is_of_the_release_that_is_named(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It says `dev` for its version, or has none. Where no release is named, the log is held to the normative one."""
    script = write_engine(tmp_path / "engine")
    said = tmp_path / "engine" / "vllm" / "version.py"
    said.write_text(f'__version__ = "{version}"\n' if version else "")
    monkeypatch.delenv("CACHEPROOF_RECORD_RELEASE", raising=False)
    (log,) = recorded(capfd, tmp_path / "unnamed", sys.executable, str(script))["logs"]
    assert log["variant"] == "normative"
    monkeypatch.setenv("CACHEPROOF_RECORD_RELEASE", "0.20.2")
    (log,) = recorded(capfd, tmp_path / "named", sys.executable, str(script))["logs"]
    assert log["variant"] == "E1b"
    said.write_text('__version__ = "0.11.0"\n')
    (log,) = recorded(capfd, tmp_path / "built", sys.executable, str(script))["logs"]
    assert log["variant"] == "E1", "a release that says its version is that one"


def test_another_request_of_the_same_name() -> None:
    lives = Lives()
    assert lives.grown("a", 0, ["x"]) == lives.grown("a", 1, ["y"]) == lives.grown("a", 0, ["x", "y", "z"]) == 0
    assert lives.number("a") == 0
    assert lives.grown("a", 0, ["other"]) == 1
    assert (lives.number("b"), lives.parts) == (2, [["x", "y", "z"], ["other"], []])


def serving(version: str) -> list[str]:
    """The command that serves random requests with the scheduler of a release. Skips the test if it is not there."""
    there = installed(Release(version))
    if there is None:
        pytest.skip(f"vllm=={version} is not installed: cacheproof target add vllm=={version}")
    script = Path(__file__).parent / "serving.py"
    return [str(needed_environment().python), str(script), str(DRIVER), str(there.source)]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("version", "variants"),
    [("0.11.0", {"E1", "K1"}), ("0.20.2", {"E1b", "K1b"}), ("0.33.0", {"E2", "K2"})],
)
def test_the_real_scheduler_is_recorded_and_its_logs_are_runs(
    version: str, variants: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its own scheduler, with the managers that it makes, over random requests with shared prefixes and items."""
    monkeypatch.setenv("CACHEPROOF_RECORD_RELEASE", version)
    data = recorded(capfd, tmp_path / "out", *serving(version), "5", "4000", every=20)
    assert data["engine_status"] == 0
    assert not [log["stopped"] for log in data["logs"] if log["stopped"]]
    (scheduler,) = (log for log in data["logs"] if log["component"] == "scheduler")
    assert "in the way of a tree" in scheduler["left_out"], "prompts that begin alike have different items"
    managers = [log for log in data["logs"] if log is not scheduler]
    assert {log["variant"] for log in managers} == variants
    for log in managers:
        validation = validation_of(log["log"])
        assert validation.sort is Sort.POSSIBLE, validation.found
        assert validation.consumed > 5_000
        happened = {line["operation"]["op"] for line in lines_of(log["log"])[1:-1] if "operation" in line}
        assert happened >= {"free_request"} | (
            {"get_computed_blocks", "allocate_slots", "reset_prefix_cache"}
            if log["component"] == "kv_blocks"
            else {"check_and_update", "can_allocate", "allocate", "report"}
        )
        if log["component"] == "kv_blocks":
            held = Validation(open_source(Path(log["log"])), variant="normative")
            held.run()
            assert held.sort is Sort.IMPOSSIBLE, "blocks are registered when they are scheduled, in every release"


@pytest.mark.nightly
@pytest.mark.parametrize(("version", "era"), [("0.11.0", "S2"), ("0.20.2", "S2b"), ("0.33.0", "S3")])
def test_the_plans_of_the_real_scheduler_are_a_run_of_its_era_and_of_no_other(
    version: str, era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Prompts that begin alike have the same items here: a log can say which prefixes are shared."""
    monkeypatch.setenv("CACHEPROOF_RECORD_RELEASE", version)
    data = recorded(capfd, tmp_path / "out", *serving(version), "5", "600", "alike")
    assert data["engine_status"] == 0
    (log,) = (log for log in data["logs"] if log["component"] == "scheduler")
    assert (log["variant"], log["stopped"], log["left_out"]) == (era, "", "")
    assert log["lines"] > 1_000
    assert validation_of(log["log"]).sort is Sort.POSSIBLE
    for other in {"S2", "S2b", "S3", "normative"} - {era}:
        held = Validation(open_source(Path(log["log"])), variant=other)
        held.run()
        assert held.sort is Sort.IMPOSSIBLE, other
    assert told_anew(Path(log["log"]).with_suffix(".events"))


def told_anew(events: Path) -> int:
    """How many requests go on after a preemption. Their blocks are told anew, and those of new ones; no others are."""
    begun, preempted, count = set[str](), set[str](), 0
    for event in lines_of(str(events))[1:]:
        for name, _, whole in event.get("told", ()):
            assert bool(whole) is (name in preempted or name not in begun), event
            count += name in preempted
            begun.add(name)
            preempted.discard(name)
        preempted |= set(event.get("preempted", ()))
    return count
