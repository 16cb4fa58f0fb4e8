"""A compiled exploration that was ended goes on from its checkpoint to the same result, with any number of threads."""

from __future__ import annotations

import json
import os
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
from cacheproof.search.native import NativeCrew, explore
from cacheproof.search.native.build import compiler_of_this_machine
from cacheproof.search.result import Ending, Exploration, Snapshot
from cacheproof.search.worker import Subject

pytestmark = pytest.mark.skipif(compiler_of_this_machine() is None, reason="there is no C++ compiler")

RUNS = [
    ("lru", "M2", "turns", False),
    ("mirror", "normative", "served", True),
]
"""Properties that are violated, and liveness: steps that are owed."""


def subject(component: str, variant: str, scope: str, *, liveness: bool = False) -> Subject:
    found = scope_named(component_named(component), scope)
    plan = replace(found.plan_for(variant), liveness=liveness)
    return Subject(component, variant, found.config, plan)


TURNS = subject("lru", "M2", "turns")


def checkpoint_of(what: Subject, folder: Path, *, resume: bool) -> Checkpoint:
    component = component_named(what.component)
    return Checkpoint(folder, identity_of(component, component.variants[what.variant], what.config, what.plan), resume)


def explored(what: Subject, **how: Any) -> Exploration:
    component = component_named(what.component)
    found = explore(component, component.variants[what.variant], what.config, what.plan, **how)
    return replace(found, seconds=0.0, peak_bytes=0)


def interrupted(what: Subject, folder: Path, states: int, monkeypatch: pytest.MonkeyPatch, **how: Any) -> None:
    """Leave a checkpoint behind, of a run that was ended with about so many states."""
    monkeypatch.setattr(clock, "BETWEEN_SNAPSHOTS", -1.0)
    monkeypatch.setattr(NativeCrew, "slice_states", 64)

    def watch(snapshot: Snapshot) -> None:
        if snapshot.states >= states:
            raise KeyboardInterrupt

    found = explored(what, watch=watch, checkpoint=checkpoint_of(what, folder, resume=False), **how)
    assert found.ending is Ending.INTERRUPTED


@pytest.mark.parametrize(("component", "variant", "scope", "liveness"), RUNS)
@pytest.mark.parametrize("threads", [(1, 2), (2, 1)])
def test_it_goes_on_to_the_same_result(
    component: str,
    variant: str,
    scope: str,
    liveness: bool,
    threads: tuple[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    what = subject(component, variant, scope, liveness=liveness)
    whole = explored(what)
    interrupted(what, tmp_path / "kept", whole.states // 2, monkeypatch, threads=threads[0])
    kept = json.loads((tmp_path / "kept" / MANIFEST).read_text())
    assert 0 < kept["states"] < whole.states
    again = checkpoint_of(what, tmp_path / "kept", resume=True)
    assert explored(what, checkpoint=again, threads=threads[1]) == whole
    assert not (tmp_path / "kept").exists(), "what is finished needs no checkpoint"


def test_it_is_kept_a_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first part had seen is in the second checkpoint too."""
    what, folder = subject("mirror", "normative", "served", liveness=True), tmp_path / "kept"
    whole = explored(what)
    interrupted(what, folder, whole.states // 3, monkeypatch)

    def watch(snapshot: Snapshot) -> None:
        if snapshot.states >= 2 * whole.states // 3:
            raise KeyboardInterrupt

    second = explored(what, watch=watch, checkpoint=checkpoint_of(what, folder, resume=True))
    assert second.ending is Ending.INTERRUPTED
    assert explored(what, checkpoint=checkpoint_of(what, folder, resume=True)) == whole


def test_an_expected_violation_was_seen_before_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the part before the interruption only, and is shown all the same."""
    whole = explored(TURNS)
    assert whole.violations
    interrupted(TURNS, tmp_path, whole.states - 1, monkeypatch)
    assert json.loads((tmp_path / MANIFEST).read_text())["broken"]
    assert explored(TURNS, checkpoint=checkpoint_of(TURNS, tmp_path, resume=True)).violations == whole.violations


def test_without_resume_it_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(TURNS, tmp_path, 900, monkeypatch)
    other = TURNS._replace(plan=Plan(depth=1))
    assert explored(other, checkpoint=checkpoint_of(other, tmp_path, resume=False)) == explored(other)


def test_what_does_not_belong_to_the_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(TURNS, tmp_path, 900, monkeypatch)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    assert manifest["identity"]["library"].startswith("lru-M2-")
    level = tmp_path / "level-00002.0"
    level.write_bytes(level.read_bytes()[:-1] + b"?")
    with pytest.raises(InputError, match=r"level-00002\.0: a level of the checkpoint was changed"):
        explored(TURNS, checkpoint=checkpoint_of(TURNS, tmp_path, resume=True))
    manifest["identity"]["library"] = "lru-M2-0123456789abcdef"
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="a checkpoint of another run: its library is 'lru-M2-0123456789abcdef'"):
        explored(TURNS, checkpoint=checkpoint_of(TURNS, tmp_path, resume=True))


def test_a_file_of_another_kind_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if its digest were right."""
    interrupted(TURNS, tmp_path, 900, monkeypatch)
    monkeypatch.setattr(Checkpoint, "_check", lambda self, files: None)
    level = tmp_path / "level-00002.0"
    whole = level.read_bytes()
    for text, said in ((b"s 1 0 0 []\n", "of another kind"), (whole[:-1], "too short")):
        level.write_bytes(text)
        with pytest.raises(InputError, match=rf"level-00002\.0: not a level of this run \(the file is {said}\)"):
            explored(TURNS, checkpoint=checkpoint_of(TURNS, tmp_path, resume=True))


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file")
    with pytest.raises(InputError, match="a checkpoint cannot be written"):
        explored(TURNS, checkpoint=checkpoint_of(TURNS, tmp_path / "kept", resume=False))


# kill -9 --------------------------------------------------------------------------------------------------------------

SCOPE = "two-senders"


def command_line(folder: Path, *more: str) -> list[str]:
    run = ["check", "mirror", "--variant", "normative", "--scope", SCOPE, "--engine", "native"]
    return [sys.executable, "-m", "cacheproof", *run, "--checkpoint", str(folder / "kept"), "--json", *more]


@pytest.mark.nightly
def test_it_goes_on_after_kill_9(tmp_path: Path) -> None:
    """Killed as soon as some levels are kept, and taken up again with two threads."""
    environment = {**os.environ, "CACHEPROOF_HOME": str(tmp_path)}
    manifest = tmp_path / "kept" / f"mirror.normative.{SCOPE}.native" / MANIFEST
    killed = subprocess.Popen(command_line(tmp_path), env=environment, stdout=subprocess.DEVNULL)
    while not manifest.is_file() or json.loads(manifest.read_text())["depth"] < 8:
        assert killed.poll() is None, "it was over before it was killed"
        time.sleep(0.001)
    killed.kill()
    killed.wait()
    before = json.loads(manifest.read_text())
    last = subprocess.run(
        command_line(tmp_path, "--resume", "--split", "2"),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert last.returncode == 0, last.stderr
    (run,) = json.loads(last.stdout)["runs"]
    golden = scope_named(component_named("mirror"), SCOPE).expectation("normative")
    assert (run["states"], run["transitions"], run["digest"]) == (golden.states, golden.transitions, golden.digest)
    assert before["states"] < run["states"]
    assert not manifest.exists()
