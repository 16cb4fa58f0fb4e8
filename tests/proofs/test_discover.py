"""The scan for plug-in modules: what it finds, that it imports no more than is asked for, and how it refuses."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cacheproof.foundation.discover import discover, module_names, modules_in

PACKAGE = "plug_ins_of_a_test"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / PACKAGE
    (folder / "below").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    for name, text in {"second": "LIMIT = 2", "first": "LIMIT = 1", "wrong": "LIMIT = 'three'", "none": ""}.items():
        (folder / "below" / f"{name}.py").write_text(text)
    (folder / "below" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_plug_ins_are_imported_when_their_value_is_asked_for(package: Path) -> None:
    limits = discover(f"{PACKAGE}.below", "LIMIT", int)
    assert list(limits) == ["first", "none", "second", "wrong"]
    assert f"{PACKAGE}.below" not in sys.modules
    assert limits["first"] == 1
    assert f"{PACKAGE}.below.first" in sys.modules
    assert f"{PACKAGE}.below.second" not in sys.modules


def test_a_module_without_the_value_or_with_another_type_is_an_error_that_names_it(package: Path) -> None:
    limits = discover(f"{PACKAGE}.below", "LIMIT", int)
    for name in ("none", "wrong"):
        with pytest.raises(TypeError, match=rf"^{PACKAGE}\.below\.{name} must have LIMIT of type int$"):
            limits[name]
    with pytest.raises(KeyError):
        limits["third"]


def test_optional_values_may_be_absent_and_names_may_be_limited(package: Path) -> None:
    assert list(discover(f"{PACKAGE}.below", "LIMIT", int, optional=True)) == ["first", "second", "wrong"]
    assert dict(discover(f"{PACKAGE}.below", "LIMIT", int, among=lambda: {"second", "else"})) == {"second": 2}
    assert "none" not in discover(f"{PACKAGE}.below", "LIMIT", int, optional=True)


def test_modules_are_named_without_and_with_an_import(package: Path) -> None:
    assert module_names(PACKAGE) == ["below"]
    assert [module.__name__ for module in modules_in(f"{PACKAGE}.below").values()] == [
        f"{PACKAGE}.below.{name}" for name in ("first", "none", "second", "wrong")
    ]


def test_a_module_that_comes_later_is_found(package: Path) -> None:
    limits = discover(f"{PACKAGE}.below", "LIMIT", int)
    assert "third" not in limits
    (package / "below" / "third.py").write_text("LIMIT = 3")
    assert limits["third"] == 3


def test_a_folder_that_has_not_changed_is_listed_once(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits, listed = discover(f"{PACKAGE}.below", "LIMIT", int), []

    def counted(folders: list[str]) -> Iterator[pkgutil.ModuleInfo]:
        listed.append(folders)
        return found(folders)

    found = pkgutil.iter_modules
    monkeypatch.setattr(pkgutil, "iter_modules", counted)
    for _ in range(100):
        assert "second" in limits
    assert len(listed) == 1
