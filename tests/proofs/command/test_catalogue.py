"""`catalogue`: which places are derived, what is said where there is none, and what is kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cacheproof import command
from cacheproof.catalogue import kept
from cacheproof.model.store import HOME_VARIABLE

Call = Callable[..., Any]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs the verb on entries of the cache by recency, with copies of the traces that are kept."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    shutil.copytree(kept.FOLDER, tmp_path / "traces")
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "traces")

    def run(*words: str, status: int = 0) -> Any:
        with pytest.raises(SystemExit) as ended:
            command.main(["catalogue", *words, "--jobs", "1", "--json"])
        captured = capsys.readouterr()
        assert ended.value.code == status, captured.err
        return json.loads(captured.out).get("entries")

    return run


def places_of(rows: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(row["variant"], row["scope"]) for row in rows}


def test_one_place_for_each_variant_or_those_of_a_scope(call: Call) -> None:
    assert places_of(call("C-LRU-1")) == {("M3", "pins"), ("stale-growth", "pins")}
    assert places_of(call("C-LRU-2", "--scope", "growth-turns")) == {("stale-growth", "growth-turns")}
    assert places_of(call("C-LRU-2", "--everywhere")) > {("stale-growth", "growth-turns"), ("stale-growth", "growth")}


def test_the_normative_variant_holds_in_the_same_scope(call: Call) -> None:
    for row in call("C-LRU-1"):
        assert (row["status"], row["normative"], row["trace_length"]) == ("reproduced", "holds", row["expected_length"])


def test_what_is_outside_says_why(call: Call) -> None:
    (row,) = call("C-KV-16")
    assert (row["status"], row["component"], row["trace_length"]) == ("outside", None, None)
    assert "a cause" in row["reason"]


def test_a_scope_that_shows_nothing_is_wrong_input(call: Call) -> None:
    call("C-LRU-1", "--scope", "no-such-scope", status=2)


def test_traces_are_kept_where_they_were_lost(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "traces" / "lru.ndjson"
    whole = path.read_text()
    path.write_text("".join(line for line in whole.splitlines(keepends=True) if "C-LRU-1" not in line))
    call("C-LRU-1")
    assert path.read_text() != whole
    call("C-LRU-1", "--keep")
    assert path.read_text() == whole
