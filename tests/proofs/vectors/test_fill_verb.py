"""`cacheproof fill` as a user calls it: Ctrl-C, and folders in which something else lies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cacheproof.command import fill
from cacheproof.command.frame import dispatch
from cacheproof.foundation.errors import ExitStatus
from cacheproof.vectors.files import RELEASED, inside, read, write
from cacheproof.vectors.vector import VectorSet

SETS = [read(path) for path in inside(RELEASED) if path.name.startswith("configuration.")]


@pytest.fixture(autouse=True)
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes after the first set."""

    def first(*_: Any) -> Iterator[VectorSet]:
        yield SETS[0]
        raise KeyboardInterrupt

    monkeypatch.setattr(fill, "filled", first)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[ExitStatus, dict[str, Any]]:
    status = dispatch(["fill", "configuration", *arguments, "--json"])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, answer


def test_interrupted_it_says_what_is_written_and_removes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (other,) = write(tmp_path, [SETS[1]])
    status, answer = told(capsys, "--output", str(tmp_path))
    assert (status, answer["interrupted"], answer["removed"]) == (ExitStatus.INCONCLUSIVE, True, [])
    assert sorted([*(one["file"] for one in answer["files"]), other.name]) == [path.name for path in inside(tmp_path)]


def test_interrupted_a_check_is_not_green(capsys: pytest.CaptureFixture[str]) -> None:
    status, answer = told(capsys, "--check")
    assert (status, answer["ok"], answer["sets"]) == (ExitStatus.INCONCLUSIVE, False, 1)
    assert (answer["stale"], answer["left_over"]) == ([], [])


def test_what_else_lies_in_the_folder_is_no_wrong_input(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    monkeypatch.setattr(fill, "filled", lambda *_: iter(SETS[:1]))
    status, answer = told(capsys, "--check", "--output", str(tmp_path))
    assert (status, len(answer["stale"])) == (ExitStatus.FELL_SHORT, 1)
    status, answer = told(capsys, "--output", str(tmp_path))
    assert (status, len(answer["files"])) == (ExitStatus.AS_EXPECTED, 1)
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"
