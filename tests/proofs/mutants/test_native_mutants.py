"""Mutants on the native engine: the verdicts of the reference engine, and a word where it has none."""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import get_native_id
from typing import Any

import pytest

from cacheproof.command.frame import main
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import PATH_VARIABLE, component_named
from cacheproof.model.store import HOME_VARIABLE
from cacheproof.mutants import campaign, judge, watch
from cacheproof.mutants import native as compiled
from cacheproof.mutants.apart import EndedError, apart
from cacheproof.mutants.equivalence import looks_the_same
from cacheproof.mutants.generate import Mutant, mutants_of
from cacheproof.mutants.judge import Fate, Limits, MutantResult, judged, scopes_for
from cacheproof.mutants.native import Library, judged_natively
from cacheproof.mutants.plant import planted
from cacheproof.search.native import build, several
from cacheproof.search.native.assigned import may_lack_a_value
from cacheproof.search.native.several import forms_at
from cacheproof.search.native.unit import HEADERS

pytestmark = pytest.mark.skipif(build.compiler_of_this_machine() is None, reason="there is no C++ compiler")

TOY = Path(__file__).parent / "toy"
LIMITS = Limits(seconds=20.0)
ROOM = 1 << 32
Verdict = tuple[Fate, str, str]
TELLING = ("left - 1 => left + 1", "HIT => MISS", "DONE => REFUSED", "drained(lamp) => lamp")
"""Changes of which one diverges, two survive, and one is equivalent."""


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimisation of the libraries takes longer than what is explored here."""
    monkeypatch.setattr(compiled, "several", partial(several.several, optimised="-O0"))


@pytest.fixture
def lamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The toy as a component, and an empty store."""
    folder = tmp_path / "toy"
    shutil.copytree(TOY, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv(PATH_VARIABLE, str(folder))
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setattr(watch, "TICK", 0.05)
    return component_named("lamp")


def verdict(result: MutantResult) -> Verdict:
    return result.fate, result.by, result.scope


def verdicts(component: Any, mutants: list[Mutant], folder: Path) -> dict[str, Verdict]:
    """By compiled code; where it leaves a mutant to the reference engine, the reason as well."""
    library = Library(component, mutants, folder)
    found = {mutant.name: judged_natively(mutant, LIMITS, library) for mutant in mutants}
    return {name: verdict(one) if not one.why else (one.fate, one.why, one.scope) for name, one in found.items()}


def other(component: Any, where: str, text: str) -> Mutant:
    """A mutant of a function with any text."""
    mutant = next(one for one in mutants_of(component) if f"/{where}/" in one.name)
    return replace(mutant, name=f"{component.name}/{where}/other-000000", change=text, text=text)


def test_each_mutant_of_the_toy_has_the_same_verdict(lamp: Any, tmp_path: Path) -> None:
    every = list(mutants_of(lamp))
    expected = {mutant.name: verdict(judged(mutant, LIMITS)) for mutant in every}
    assert {fate for fate, _, _ in expected.values()} >= set(Fate) - {Fate.RAISED, Fate.OPEN}
    assert verdicts(lamp, every, tmp_path) == expected


@pytest.mark.parametrize(("name", "count"), [("lru", 30), ("encoder_budget", 20)])
def test_mutants_of_components_have_the_same_verdict(name: str, count: int, tmp_path: Path) -> None:
    component = component_named(name)
    mutants = random.Random(7).sample(list(mutants_of(component)), count)
    library = Library(component, mutants, tmp_path)
    found = [judged_natively(mutant, LIMITS, library) for mutant in mutants]
    assert [verdict(one) for one in found] == [verdict(judged(mutant, LIMITS)) for mutant in mutants]
    assert sum(one.engine == compiled.ENGINE for one in found) > 0.9 * count


# What compiled code cannot say ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def press(config, lamp, op):\n    return lamp.nothing, DONE", "nothing"),
        ("def press(config, lamp, op):\n    if config.most > 9:\n        left = 1\n    return left, DONE", "left may"),
        ("def press(config, lamp, op):\n    return lamp._replace(note=(7, 8)[lamp.presses + 2]), DONE", "position"),
        ("def press(config, lamp, op):\n    return lamp._replace(note=lamp.note + 2 ** 62 * 2), DONE", "64 bits"),
    ],
)
def test_the_reference_engine_takes_over_by_name(lamp: Any, tmp_path: Path, text: str, why: str) -> None:
    mutant = other(lamp, "press", text)
    result = judged_natively(mutant, LIMITS, Library(lamp, [mutant], tmp_path))
    assert verdict(result) == verdict(judged(mutant, LIMITS))
    assert result.engine == "reference"
    assert why in result.why


def test_a_crash_is_left_to_the_reference_engine(lamp: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = next(mutants_of(lamp))
    library = Library(lamp, [mutant], tmp_path)
    monkeypatch.setattr(compiled, "_outcome", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    result = judged_natively(mutant, LIMITS, library)
    assert verdict(result) == verdict(judged(mutant, LIMITS))
    assert result.why == f"its process was ended by signal {int(signal.SIGKILL)}"


def test_time_that_is_over_is_left_to_the_reference_engine(lamp: Any, tmp_path: Path) -> None:
    """A sequence of states without an end, inside one call of the explorer."""
    mutant = next(one for one in mutants_of(lamp) if one.change == "left - 1 => left + 1")
    library = Library(lamp, [mutant], tmp_path)
    result = judged_natively(mutant, Limits(seconds=0.001), library)
    assert result.engine == "reference"
    assert result.why == "its time was over"


def test_a_limit_of_states_needs_no_second_engine(lamp: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "STATES_AT_LEAST", 500)
    endless = other(lamp, "press", "def press(config, lamp, op):\n    return lamp._replace(note=lamp.note + 1), DONE")
    result = judged_natively(endless, LIMITS, Library(lamp, [endless], tmp_path))
    assert (result.fate, result.engine) == (Fate.OPEN, compiled.ENGINE)
    assert "states" in result.by


def test_states_that_differ_for_ever_are_not_said_to_be_alike(lamp: Any, tmp_path: Path) -> None:
    """A limit of pairs decides nothing; and what differs beyond the depth of a scope does not count there."""
    noted = other(lamp, "drained", "def drained(lamp):\n    return lamp._replace(note=lamp.note + 1)")
    later = other(lamp, "ask", "def ask(config, lamp, op):\n    return lamp, HIT if lamp.presses > 1 else MISS")
    library, scope = Library(lamp, [noted, later], tmp_path), scopes_for(lamp)[0]

    def alike(form: int, most: int, depth: int | None = None) -> bool | None:
        return library.of(scope.plan).alike(form, scope.config, replace(scope.plan, depth=depth), most)

    assert (alike(1, 2), alike(1, 50)) == (None, True)
    assert [alike(2, 50, depth) for depth in (1, 2, None)] == [True, False, False]
    with planted(later) as forms:
        found = [
            looks_the_same(lamp, replace(scope, plan=replace(scope.plan, depth=depth)), forms) for depth in (1, 2, None)
        ]
    assert found == [True, False, False]


def test_a_form_that_the_cpp_compiler_refuses_is_left_out(
    lamp: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = list(mutants_of(lamp))[:5]
    asked: list[str] = []
    ready = build.ready

    def refuses_the_second(text: str, *rest: Any) -> Path:
        asked.append(text)
        at = [number for number, line in enumerate(text.split("\n"), 1) if line.endswith("(form 2)")]
        if at:
            raise build.RefusedError("no", (at[0] + 1,))
        return ready(text, *rest)

    monkeypatch.setattr(several, "ready", refuses_the_second)
    library = Library(lamp, every, tmp_path)
    assert [library.refuses(one) for one in every] == ["", "the C++ compiler refuses it", "", "", ""]
    assert len(asked) == 2
    monkeypatch.setattr(several, "ready", lambda *_: _raises(build.RefusedError("the unit itself", (1,))))
    with pytest.raises(InputError, match="the unit itself"):
        Library(lamp, every, tmp_path)


def _raises(error: Exception) -> Path:
    raise error


def test_the_form_of_a_line() -> None:
    text = "struct S {};\n// a.py:1 f (form 3)\nf {\n}\n// a.py:1 f\nf {\n// a.py:1 f (form 12)"
    assert forms_at(text, (3,)) == {3}
    assert forms_at(text, (1, 6)) == set()
    assert forms_at(text, (2, 7)) == {3, 12}


@pytest.mark.parametrize(
    ("body", "lacking"),
    [
        ("if p:\n  a = 1\nreturn a", {"a"}),
        ("if p:\n  a = 1\nelse:\n  return 0\nreturn a", set()),
        ("for a in p:\n  pass\nreturn a", {"a"}),
        ("for a in p:\n  b = a\nreturn p", set()),
        ("while p:\n  b = 1\nreturn b", {"b"}),
        ("a += 1\nreturn p", {"a"}),
        ("a = [a for a in p]\nreturn a", set()),
        ("def inner():\n  return b\nb = inner()\nreturn b", set()),
        ("p = 1\nreturn p", set()),
    ],
)
def test_variables_without_a_value(body: str, lacking: set[str]) -> None:
    lines = "\n".join(f"  {line}" for line in body.split("\n"))
    function = ast.parse(f"def f(p):\n{lines}").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert may_lack_a_value(function) == lacking


# A process of its own -----------------------------------------------------------------------------------------------


def _for_ever() -> None:
    while True:
        pass


def test_work_in_a_child_process() -> None:
    assert apart(lambda: "x" * 200_000, 5.0, ROOM, judge.never) == "x" * 200_000
    with pytest.raises(EndedError, match="time was over"):
        apart(_for_ever, 0.2, ROOM, judge.never)
    with pytest.raises(EndedError, match="ended by signal 9"):
        apart(lambda: os.kill(os.getpid(), signal.SIGKILL), 5.0, ROOM, judge.never)


def test_an_interruption_ends_the_child() -> None:
    before = children()
    with pytest.raises(KeyboardInterrupt):
        apart(_for_ever, 60.0, ROOM, lambda: True)
    assert children() == before


def children() -> set[str]:
    """The processes that this thread has forked and that are there, ended ones included."""
    return set(Path(f"/proc/self/task/{get_native_id()}/children").read_text().split())


# Planted faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "right", "wrong"),
    [
        ("forms.hpp", "if (++turns > most_turns)", "if (++turns > most_turns && false)"),
        ("forms.hpp", "differs[form] = !eq(give(form), made);", "differs[form] = false;"),
        ("pairs.hpp", "form_now = which;", "form_now = 0;"),
        ("pairs.hpp", "!eq(one.moved.f1, other.moved.f1)", "false"),
        ("pairs.hpp", "if (ours.n != theirs.n) return false;", "if (true) return false;"),
        ("pairs.hpp", "|| eq(view_of(", "&& eq(view_of("),
        ("pairs.hpp", "return cp::differs[form];", "return 0;"),
        ("pairs.hpp", "void cp_choose(Int form) { cp::form_now = form; }", "void cp_choose(Int form) {}"),
    ],
)
def test_a_fault_in_a_header_is_noticed(
    lamp: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: str, right: str, wrong: str
) -> None:
    every = [mutant for mutant in mutants_of(lamp) if mutant.change in TELLING]
    expected = {mutant.name: verdict(judged(mutant, LIMITS)) for mutant in every}
    for name in HEADERS:
        shutil.copy(build.HERE / name, tmp_path / name)
    text = (tmp_path / header).read_text(encoding="utf-8")
    assert text.count(right) == 1
    (tmp_path / header).write_text(text.replace(right, wrong), encoding="utf-8")
    monkeypatch.setattr(build, "HERE", tmp_path)
    monkeypatch.setattr(compiled, "COMPARING_SECONDS", 5.0)  # one of the faults makes it endless
    monkeypatch.setattr(compiled, "judged", lambda mutant, *_, **__: MutantResult(mutant.name, "", Fate.OPEN, "left"))
    library = Library(lamp, every, tmp_path)
    limits = Limits(seconds=1.0)
    assert {mutant.name: verdict(judged_natively(mutant, limits, library)) for mutant in every} != expected


# The verb ------------------------------------------------------------------------------------------------------------


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    with pytest.raises(SystemExit) as ended:
        main(["mutants", "lamp", "--json", "--anew", *arguments])
    out = capsys.readouterr().out
    return int(ended.value.code or 0), json.loads(out) if out.strip() else {}


def engines(data: dict[str, Any]) -> set[str]:
    return {one["engine"] for one in data["results"]}


def plain(data: dict[str, Any]) -> dict[str, Any]:
    """What both engines say alike."""
    left_out = ("seconds", "engine", "why")
    results = [{key: value for key, value in one.items() if key not in left_out} for one in data["results"]]
    return {**data, "results": results}


def test_the_verb_says_the_same_with_each_engine(lamp: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, slow = run(["--engine", "reference", "--jobs", "1"], capsys)
    status, fast = run(["--engine", "native", "--jobs", "1"], capsys)
    _, shared = run(["--engine", "native", "--jobs", "2"], capsys)
    assert (status, engines(slow), engines(fast)) == (1, {"reference"}, {"native"})
    assert plain(slow) == plain(fast) == plain(shared)


def test_mutants_are_compiled_if_they_are_many(
    lamp: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, few = run(["--jobs", "1", "--sample", "2"], capsys)
    monkeypatch.setattr(campaign, "COMPILED_FROM", 0)
    monkeypatch.setattr(campaign, "IN_ONE_LIBRARY", 2)
    _, many = run(["--jobs", "1", "--sample", "5"], capsys)
    monkeypatch.setattr(campaign, "compiler_of_this_machine", lambda: None)
    _, without = run(["--jobs", "1", "--sample", "5"], capsys)
    assert [engines(data) for data in (few, many, without)] == [{"reference"}, {"native"}, {"reference"}]
    assert plain(many) == plain(without)


@pytest.mark.parametrize("engine", ["native", "tensor"])
def test_an_engine_that_there_is_not(
    lamp: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setattr(campaign, "compiler_of_this_machine", lambda: None)
    status, _ = run(["--engine", engine, "--jobs", "1"], capsys)
    assert status == 2


def test_the_folder_of_the_libraries_is_removed(
    lamp: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    made: list[list[str]] = []
    one_by_one: Callable[..., Any] = campaign._one_by_one

    def listed(*arguments: Any) -> Any:
        made.append([each.suffix for each in folder.rglob("*.so")])
        return one_by_one(*arguments)

    monkeypatch.setattr(campaign, "_one_by_one", listed)
    run(["--engine", "native", "--jobs", "1", "--sample", "1"], capsys)
    assert made == [[".so"]]
    assert list(folder.iterdir()) == []
