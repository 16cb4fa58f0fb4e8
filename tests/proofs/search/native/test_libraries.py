"""Which library of a unit is used, and how it was compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from cacheproof.model.registry import AnyComponent, AnyVariant, component_named
from cacheproof.search import native
from cacheproof.search.campaign import Task, perform
from cacheproof.search.native import build

UNIT = "int nothing;"

pytestmark = pytest.mark.skipif(build.compiler_of_this_machine() is None, reason="there is no C++ compiler")


def test_a_thorough_library_serves_for_a_quick_one(tmp_path: Path) -> None:
    """Nothing is compiled twice without need, and the thorough form is made where it is asked for."""
    quick = build.ready(UNIT, "unit", tmp_path)
    thorough = build.ready(UNIT, "unit", tmp_path, build.THOROUGH)

    assert (quick.stem[-3:], thorough.stem[-3:]) == ("-O1", "-O3")
    assert build.ready(UNIT, "unit", tmp_path) == thorough
    assert sorted(tmp_path.glob("*.so")) == [quick, thorough]


def test_how_it_is_optimised_does_not_change_its_name(tmp_path: Path) -> None:
    """A checkpoint belongs to a library, and goes on with either form of it; not with that of another unit."""
    names = {build.ready(UNIT, "unit", tmp_path, option).stem[:-3] for option in (build.QUICK, build.THOROUGH)}

    assert len(names) == 1
    assert build.ready("int something;", "unit", tmp_path).stem[:-3] not in names


def test_many_expected_states_make_a_thorough_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few states are explored before a thorough compilation would be done."""
    chosen: list[bool] = []
    monkeypatch.setattr(native, "compiled", lambda *_, thorough: chosen.append(thorough))
    component = component_named("lru")

    for states in (0, native.THOROUGH_FROM - 1, native.THOROUGH_FROM):
        native.prepare(component, component.normative, states)

    assert chosen == [False, False, True]


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
