"""An exploration that is ended by whatever, at whatever moment, goes on from its checkpoint to the same counts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.search import clock
from cacheproof.search.checkpoint import MANIFEST, Checkpoint, identity_of
from cacheproof.search.processes import Processes
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending, Exploration, Snapshot
from cacheproof.search.worker import Subject

RUNS = [("lru", "M2", "turns"), ("mirror", "M3", "larger-request"), ("encoder_cache", "E1", "any-call")]


def subject(component: str, variant: str, scope: str) -> Subject:
    found = scope_named(component_named(component), scope)
    return Subject(component, variant, found.config, found.plan_for(variant))


TURNS = subject("lru", "M2", "turns")


def checkpoint_of(what: Subject, folder: Path, *, resume: bool) -> Checkpoint:
    component = component_named(what.component)
    variant = component.variants[what.variant]
    return Checkpoint(folder, identity_of(component, variant, what.config, what.plan), resume)


def explored(what: Subject, **how: Any) -> Exploration:
    component = component_named(what.component)
    found = explore(component, component.variants[what.variant], what.config, what.plan, **how)
    return replace(found, seconds=0.0, peak_bytes=0)


def interrupted(what: Subject, folder: Path, states: int, monkeypatch: pytest.MonkeyPatch, crew: Any = None) -> None:
    """Leave a checkpoint behind, of a run that was ended with about so many states."""
    monkeypatch.setattr(clock, "BETWEEN_SNAPSHOTS", -1.0)

    def watch(snapshot: Snapshot) -> None:
        if snapshot.states >= states:
            raise KeyboardInterrupt

    found = explored(what, watch=watch, crew=crew, checkpoint=checkpoint_of(what, folder, resume=False))
    assert found.ending is Ending.INTERRUPTED


@pytest.mark.parametrize("run", RUNS, ids="-".join)
@pytest.mark.parametrize("share", [0.1, 0.7])
def test_it_goes_on_to_the_same_result(
    run: tuple[str, str, str], share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = subject(*run)
    whole = explored(what)
    interrupted(what, tmp_path / "kept", int(share * whole.states), monkeypatch)
    kept = json.loads((tmp_path / "kept" / MANIFEST).read_text())
    assert 0 < kept["states"] < whole.states
    assert explored(what, checkpoint=checkpoint_of(what, tmp_path / "kept", resume=True)) == whole
    assert not (tmp_path / "kept").exists(), "what is finished needs no checkpoint"


def test_another_number_of_processes_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(TURNS, tmp_path, 900, monkeypatch, crew=Processes(TURNS, 2))
    assert len({name.rpartition(".")[2] for name in json.loads((tmp_path / MANIFEST).read_text())["files"][0]}) == 2
    assert explored(TURNS, checkpoint=checkpoint_of(TURNS, tmp_path, resume=True)) == explored(TURNS)


def test_without_resume_it_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(TURNS, tmp_path, 900, monkeypatch)
    other = TURNS._replace(plan=Plan(depth=1))
    assert explored(other, checkpoint=checkpoint_of(other, tmp_path, resume=False)) == explored(other)


def test_nothing_to_resume_is_a_beginning(tmp_path: Path) -> None:
    assert explored(TURNS, checkpoint=checkpoint_of(TURNS, tmp_path, resume=True)) == explored(TURNS)


# What is refused ------------------------------------------------------------------------------------------------------


def test_a_checkpoint_of_another_specification_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(TURNS, tmp_path, 900, monkeypatch)
    stale = checkpoint_of(TURNS, tmp_path, resume=True)
    stale.identity = {**stale.identity, "specification": "0123456789abcdef"}
    with pytest.raises(InputError, match=r"a checkpoint of another run: its specification is '\w+', now it is '0123"):
        explored(TURNS, checkpoint=stale)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(TURNS, tmp_path, 900, monkeypatch)
    other = TURNS._replace(config=TURNS.config._replace(capacity=1))
    with pytest.raises(InputError, match="its configuration is"):
        explored(other, checkpoint=checkpoint_of(other, tmp_path, resume=True))


def test_a_level_that_was_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(TURNS, tmp_path, 900, monkeypatch)
    level = tmp_path / "level-00002.0"
    level.write_text("".join(level.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(InputError, match=r"level-00002\.0: a level of the checkpoint was changed"):
        explored(TURNS, checkpoint=checkpoint_of(TURNS, tmp_path, resume=True))
    level.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        explored(TURNS, checkpoint=checkpoint_of(TURNS, tmp_path, resume=True))


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "not a checkpoint"), ("[]", "not of format"), ('{"format": "cacheproof-checkpoint"}', "not of format")],
)
def test_what_is_no_checkpoint_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(InputError, match=said):
        explored(TURNS, checkpoint=checkpoint_of(TURNS, tmp_path, resume=True))


@pytest.mark.parametrize("change", [{"coverage": {"touch": {"done": None}}}, {"states": "many"}, {"checksum": ""}])
def test_a_manifest_that_was_changed_is_refused(
    change: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(TURNS, tmp_path, 900, monkeypatch)
    path = tmp_path / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match="the checkpoint was changed"):
        explored(TURNS, checkpoint=checkpoint_of(TURNS, tmp_path, resume=True))


# kill -9, and Ctrl-C --------------------------------------------------------------------------------------------------


def started(folder: Path, depth: int, *more: str) -> subprocess.Popen[str]:
    """A run over two processes, in a session of its own, that has come so far."""
    process = subprocess.Popen(
        command_line(folder, "--split", "2", *more),
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    while not manifest_of(folder).is_file() or json.loads(manifest_of(folder).read_text())["depth"] < depth:
        assert process.poll() is None, "it was over before it was ended"
        time.sleep(0.01)
    return process


def command_line(folder: Path, *more: str) -> list[str]:
    run = ["check", "mirror", "--variant", "normative", "--scope", "all-faults", "--checkpoint", str(folder / "kept")]
    return [sys.executable, "-m", "cacheproof", *run, "--json", *more]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "CACHEPROOF_HOME": str(folder)}


def manifest_of(folder: Path) -> Path:
    return folder / "kept" / "mirror.normative.all-faults.reference" / MANIFEST


def test_it_goes_on_after_kill_9_and_after_an_interruption(tmp_path: Path) -> None:
    """Killed first; taken up again and interrupted, which every process of the session hears; taken up again."""
    killed = started(tmp_path, 8)
    killed.kill()
    killed.communicate()
    before = json.loads(manifest_of(tmp_path).read_text())
    interrupted = started(tmp_path, before["depth"] + 2, "--resume")
    os.killpg(interrupted.pid, signal.SIGINT)
    said = json.loads(interrupted.communicate()[0])
    assert (interrupted.returncode, said["interrupted"]) == (3, True)
    last = subprocess.run(
        command_line(tmp_path, "--resume"), env=environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert last.returncode == 0, last.stderr
    (run,) = json.loads(last.stdout)["runs"]
    golden = scope_named(component_named("mirror"), "all-faults").expectation("normative")
    assert (run["states"], run["transitions"], run["digest"]) == (golden.states, golden.transitions, golden.digest)
    assert before["states"] < run["states"]
    assert not manifest_of(tmp_path).exists()
