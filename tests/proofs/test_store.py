"""What past runs found is kept whole, found again, and never half written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import replace_file, replace_named_file
from cacheproof.model.store import HOME_VARIABLE, alone, home, load, load_all, save


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))


def test_a_run_is_kept_and_replaced() -> None:
    save("check", "lru.M2", {"states": 1})
    path = save("check", "lru.M2", {"states": 2})
    assert path is not None
    assert load("check", "lru.M2")["states"] == 2
    assert [entry.name for entry in path.parent.iterdir()] == ["lru.M2.json"]


def test_nobody_waits_for_a_folder_that_cannot_be_written() -> None:
    home().write_text("no folder")
    with alone("check", "a", "checking"), alone("check", "a", "checking"):
        assert save("check", "a", {}) is None


def test_what_fails_inside_is_not_taken_for_the_lock() -> None:
    with pytest.raises(PermissionError), alone("check", "a", "checking"):
        raise PermissionError


def test_all_runs_or_those_of_a_kind() -> None:
    for kind, name in (("fuzz", "b"), ("check", "b"), ("check", "a")):
        save(kind, name, {})
    assert [(run["kind"], run["name"]) for run in load_all()] == [("check", "a"), ("check", "b"), ("fuzz", "b")]
    assert [run["name"] for run in load_all("fuzz")] == ["b"]


def test_a_run_that_is_not_there() -> None:
    save("check", "a", {})
    with pytest.raises(InputError, match="there is no check run 'b': there are a"):
        load("check", "b")
    with pytest.raises(InputError, match="there are none yet"):
        load("fuzz", "b")


@pytest.mark.parametrize("name", ["", "../a", "a/b", ".a", "a:b"])
def test_a_name_that_is_no_file_name(name: str) -> None:
    with pytest.raises(InputError, match="cannot be named"):
        save("check", name, {})


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": "cacheproof-run", "version": "9"}'])
def test_a_file_that_is_no_run(content: str) -> None:
    (home() / "runs" / "check").mkdir(parents=True)
    (home() / "runs" / "check" / "a.json").write_text(content)
    with pytest.raises(InputError, match=r"a\.json: not .* remove it"):
        list(load_all())


def test_without_the_variable_it_is_in_the_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(HOME_VARIABLE)
    monkeypatch.chdir(tmp_path)
    path = save("check", "a", {})
    assert path is not None
    assert path.resolve() == tmp_path / ".cacheproof" / "runs" / "check" / "a.json"


def test_a_folder_that_cannot_be_written_costs_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "file"))
    assert save("check", "a", {}) is None
    assert save("check", "b", {}) is None
    announced = capsys.readouterr().err.splitlines()
    assert len(announced) == 1
    assert "cannot be written" in announced[0]
    assert "set CACHEPROOF_HOME" in announced[0]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_who_may_read_a_file_that_is_replaced(tmp_path: Path) -> None:
    """The temporary file is the writer's own; a report for CI is for others."""
    mine, new = tmp_path / "mine", tmp_path / "new"
    mine.write_text("old", encoding="utf-8")
    mine.chmod(0o640)
    before = os.umask(0o022)
    try:
        for path in (mine, new):
            replace_file(path, "new")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (mine, new)] == [0o640, 0o644]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """Results may be linked to from elsewhere."""
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_text("old")
    link.symlink_to(path)
    replace_file(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"


def test_a_link_to_itself_cannot_be_written(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(InputError, match="cannot be written: Too many levels of symbolic links"):
        replace_named_file(link, "new")
