"""Which library of a unit is used, and how it was compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from cacheproof.model.registry import AnyComponent, AnyVariant, component_named
from cacheproof.search import native
from cacheproof.search.campaign import perform
from cacheproof.search.native import build
from cacheproof.search.native.library import translated
from cacheproof.search.result import Ending
from cacheproof.search.tasks import Task

UNIT = "int nothing;"
COMPILER = build.compiler_of_this_machine() or ["false"]

pytestmark = pytest.mark.skipif(build.compiler_of_this_machine() is None, reason="there is no C++ compiler")


def test_a_thorough_library_serves_for_a_quick_one(tmp_path: Path) -> None:
    """Nothing is compiled twice without need, and the thorough form is made where it is asked for."""
    quick = build.ready(UNIT, "unit", tmp_path)
    thorough = build.ready(UNIT, "unit", tmp_path, build.THOROUGH)

    assert (quick.stem[-3:], thorough.stem[-3:]) == ("-O1", "-O3")
    assert build.ready(UNIT, "unit", tmp_path) == thorough
    assert sorted(tmp_path.glob("*.so")) == [quick, thorough]


def test_what_another_run_has_compiled_meanwhile_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def waited(lock: Path) -> Iterator[None]:
        lock.with_suffix(".so").write_text("theirs")
        yield

    monkeypatch.setattr(build, "locked_file", waited)
    assert build.ready(UNIT, "unit", tmp_path).read_text() == "theirs"


def test_how_it_is_optimised_does_not_change_its_name(tmp_path: Path) -> None:
    """A checkpoint belongs to a library, and goes on with either form of it; not with that of another unit."""
    names = {build.ready(UNIT, "unit", tmp_path, option).stem[:-3] for option in (build.QUICK, build.THOROUGH)}

    assert len(names) == 1
    assert build.ready("int something;", "unit", tmp_path).stem[:-3] not in names


def test_a_trained_library_serves_for_all(tmp_path: Path) -> None:
    """It is compiled twice, and its exercise is done once, with a library that is there."""
    exercised: list[bool] = []
    trained = build.ready(
        UNIT, "unit", tmp_path, build.TRAINED, train=lambda counting: exercised.append(counting.exists())
    )

    assert trained.stem.endswith(build.attainable(build.TRAINED, *COMPILER))
    assert exercised == [True] * trained.stem.endswith(build.TRAINED)
    assert {build.ready(UNIT, "unit", tmp_path, way) for way in build.WAYS[:-1]} == {trained}
    assert sorted(tmp_path.iterdir()) == sorted([trained, trained.with_suffix(".lock")])


def test_a_compiler_that_counts_nothing_compiles_thoroughly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "takes", lambda command, *options: options != build.COUNTED)

    assert build.ready(UNIT, "unit", tmp_path, build.TRAINED).stem.endswith(build.THOROUGH)


@pytest.mark.skipif(build.attainable(build.TRAINED, *COMPILER) != build.TRAINED, reason="the compiler is not gcc")
def test_a_trained_library_finds_the_same_and_leaves_no_counts(tmp_path: Path) -> None:
    """Counts that are written when the process ends would bring a folder back that was removed."""
    about = {**os.environ, "CACHEPROOF_CACHE": str(tmp_path)}
    quickly = (
        "import sys; from cacheproof.command import main; from cacheproof.search.native import build\n"
        "build.THOROUGH = '-O0'; main(sys.argv[1:])"
    )
    program = (sys.executable, "-c", quickly)
    compiling = (*program, "compile", "lru", "--variant", "normative", "--optimise", "trained", "--json")
    checking = (*program, "check", "lru", "--variant", "normative", "--engine", "native", "--jobs", "1")

    made = subprocess.run(compiling, env=about, check=True, capture_output=True)
    subprocess.run(checking, env=about, check=True, capture_output=True)

    library = Path(json.loads(made.stdout)["units"][0]["library"])
    assert library.stem.endswith(build.TRAINED)
    assert sorted(library.parent.iterdir()) == sorted([library, library.with_suffix(".lock")])


@pytest.mark.skipif(build.attainable(build.TRAINED, *COMPILER) != build.TRAINED, reason="the compiler is not gcc")
def test_the_exercise_counts_what_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And an interruption ends the compilation; its counts are not written later either."""
    monkeypatch.setattr(build, "THOROUGH", "-O0")
    component = component_named("lru")
    glue = translated(component, component.normative)
    counts: list[int] = []

    def exercise(counting: Path) -> None:
        native.train(component, component.normative, counting)
        counts.append(sum(file.stat().st_size for file in counting.parent.glob("*.gcda")))

    ready = partial(build.ready, glue.text, "lru", optimised=build.TRAINED, train=exercise)
    calls: list[list[str]] = []
    ended = build.ended

    def listed(command: list[str]) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        return ended(command)

    monkeypatch.setattr(build, "ended", listed)
    ready(tmp_path / "whole")
    monkeypatch.setattr(native, "explore", lambda *_, **__: SimpleNamespace(ending=Ending.INTERRUPTED))
    with pytest.raises(KeyboardInterrupt):
        ready(tmp_path / "interrupted")

    assert counts[0] > 1_000
    first, second = calls[:2]
    assert set(build.COUNTING) <= set(first)
    assert set(build.COUNTED) <= set(second)
    assert first[-1] == second[-1], "the compiler looks for the counts beside the library that it makes"
    assert [file.suffix for file in (tmp_path / "interrupted").iterdir()] == [".lock"]


def test_many_expected_states_make_a_better_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few states are explored before a thorough compilation would be done."""
    chosen: list[str] = []
    monkeypatch.setattr(native, "compiled", lambda component, variant, way, train: chosen.append(way))
    component = component_named("lru")

    for states in (0, native.THOROUGH_FROM - 1, native.THOROUGH_FROM, native.TRAINED_FROM - 1, native.TRAINED_FROM):
        native.prepare(component, component.normative, states)

    assert chosen == [build.QUICK, build.QUICK, build.THOROUGH, build.THOROUGH, build.TRAINED]


def test_a_run_says_how_many_states_it_expects(monkeypatch: pytest.MonkeyPatch) -> None:
    """The golden count of the scope reaches the compiler."""
    expected: list[int] = []
    prepare = native.prepare

    def kept(component: AnyComponent, variant: AnyVariant, states: int = 0) -> None:
        expected.append(states)
        prepare(component, variant, states)

    monkeypatch.setattr(native, "prepare", kept)

    run = perform(Task("lru", "normative", "five-keys", "native"))

    assert expected == [run.exploration.states]
