"""Which engine `check` takes for a run where the user names none."""

from __future__ import annotations

import pytest
from tests.command_line import ran

from cacheproof.model.registry import component_named
from cacheproof.model.scope import DEFAULT, LARGE, SETS, scopes_of
from cacheproof.search.native import build
from cacheproof.search.tasks import Task, is_beyond_python, is_for_compiled_code, tasks_for, with_faster_engines
from cacheproof.search.worker import NATIVE, REFERENCE

MIRROR, LRU = component_named("mirror"), component_named("lru")


def chosen() -> tuple[list[Task], list[str]]:
    return with_faster_engines(tasks_for([MIRROR, LRU], variant="normative", sets=(DEFAULT, LARGE)))


@pytest.mark.skipif(build.compiler_of_this_machine() is None, reason="there is no C++ compiler")
def test_a_variant_with_many_states_is_compiled_and_a_small_one_is_not() -> None:
    tasks, reasons = chosen()
    plain = [scope.name for scope in scopes_of(MIRROR) if not scope.plan.normal_form]
    assert {task.engine for task in tasks if task.component == "mirror" and task.scope not in plain} == {NATIVE}
    assert {task.engine for task in tasks if task.scope in plain} == {REFERENCE}, "another library, for few states"
    assert {task.engine for task in tasks if task.component == "lru"} == {REFERENCE}
    assert not any(is_for_compiled_code(task) for task in tasks if task.component == "mirror")
    assert reasons == []


def test_what_is_translated_is_named_meanwhile() -> None:
    lines: list[str] = []
    with_faster_engines(tasks_for([MIRROR, LRU], variant="normative", sets=(DEFAULT, LARGE)), lines.append)
    assert lines == ["mirror normative: translating"]


def test_without_a_compiler_the_reference_engine_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cacheproof.search.native.compiler_of_this_machine", lambda: None)
    tasks, (reason,) = chosen()
    assert {task.engine for task in tasks} == {REFERENCE}
    assert any(map(is_for_compiled_code, tasks))
    assert "there is no C++ compiler" in reason


def test_without_a_compiler_large_scopes_are_explored_if_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cacheproof.search.native.compiler_of_this_machine", lambda: None)
    monkeypatch.setattr("cacheproof.search.tasks.COMPILED_FROM", 1)
    lru = ("check", "lru", "--variant", "normative", "--jobs", "1")
    plain = ran(capsys, *lru)
    assert (plain.status, "five-keys" in plain.out) == (0, False)
    assert "the large scopes are left out" in plain.err
    assert "The reference engine goes on" in plain.err
    for asked in (("--scope", "five-keys"), ("--set", "large")):
        found = ran(capsys, *lru, *asked)
        assert (found.status, "1 of 1 runs as expected" in found.out) == (0, True)


def test_what_takes_python_hours_is_left_to_compiled_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = [task.scope for task in tasks_for([MIRROR], sets=SETS) if is_beyond_python(task)]
    assert slow == ["wide", "crowd", "crowd-and-impatient"]
    assert not any(map(is_beyond_python, tasks_for([MIRROR], sets=SETS, engine=NATIVE)))
    assert any(map(is_beyond_python, tasks_for([component_named("ring")], sets=SETS, engine="tensor")))
    monkeypatch.setattr("cacheproof.search.tasks.MOST_IN_PYTHON", 4_000)
    lru = ("check", "lru", "--variant", "normative", "--engine", "reference")
    some = ran(capsys, *lru, "--set", "all")
    assert (some.status, "five-keys" in some.out) == (0, False)
    assert "1 runs of more than" in some.err
    none = ran(capsys, *lru, "--set", "large")
    assert (none.status, "--engine native, or --scope" in none.err) == (2, True)
    named = ran(capsys, *lru, "--scope", "five-keys")
    assert (named.status, "1 of 1 runs as expected" in named.out) == (0, True)


def test_the_command_line_says_which_engines_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ran(capsys, "check", "lru", "--engine", "fastest")
    assert (wrong.status, "there are reference, native, cuda, tensor and auto" in wrong.err) == (2, True)
    missing = ran(capsys, "check", "lru", "--set", "huge")
    assert (missing.status, "there are default, large, nightly and all" in missing.err) == (2, True)
    tensor = ran(capsys, "check", "lru", "--engine", "tensor", "--split", "2")
    assert (tensor.status, "--split is for the engines reference and native" in tensor.err) == (2, True)
