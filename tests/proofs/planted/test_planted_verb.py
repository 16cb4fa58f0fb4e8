"""`cacheproof planted` as a user calls it: what it refuses, and what it says when it is interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cacheproof.command.frame import dispatch, main
from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import ExitStatus
from cacheproof.releases.conformance import EraResult
from cacheproof.releases.planted.listing import Planted
from cacheproof.releases.planted.trial import Fate


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            "sglang==0.5.23 --list",
            "bugs are planted in releases that are compared with eras, as vLLM's are, not in sglang",
        ),
        ("vllm==0.33.0 --component publication", "nothing is planted in publication, in no release"),
        ("vllm==0.33.0 --list --keep", "--list runs nothing"),
        ("vllm==0.33.0 --list --junit planted.xml", "--list runs nothing"),
    ],
)
def test_wrong_input_is_one_line(capsys: pytest.CaptureFixture[str], given: str, says: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["planted", *given.split()])
    said = capsys.readouterr().err
    assert (ended.value.code, said.count("\n")) == (ExitStatus.WRONG_INPUT, 1)
    assert says in said


def test_long_work_says_what_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The exploration of an era takes minutes, in which nothing else is shown."""

    def performed(planted: Planted, *, progress: Show, **_: object) -> Fate:
        progress("exploring, configuration 3")
        return Fate(planted, EraResult(planted.era, seed=1, steps=5), 1.0)

    monkeypatch.setattr("cacheproof.command.planted.perform", performed)
    monkeypatch.setattr("cacheproof.command.planted.needed", lambda release: None)
    monkeypatch.setattr("cacheproof.foundation.console.SECONDS_BETWEEN_LINES", 0.0)
    dispatch(["planted", "vllm==0.33.0", "--component", "lru"])
    assert ": lru as released: exploring, configuration 3\n" in capsys.readouterr().err


def test_what_is_interrupted_is_not_said_to_be_unfound(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def performed(planted: Planted, **_: object) -> Fate:
        return Fate(planted, EraResult(planted.era, seed=1, steps=5, interrupted=planted.bug is not None), 1.0)

    monkeypatch.setattr("cacheproof.command.planted.perform", performed)
    monkeypatch.setattr("cacheproof.command.planted.needed", lambda release: None)
    report = tmp_path / "planted.xml"
    given = ["planted", "vllm==0.33.0", "--component", "lru", "--junit", str(report), "--json"]
    assert dispatch(given) == ExitStatus.INCONCLUSIVE
    told = json.loads(capsys.readouterr().out)
    assert (told["interrupted"], {one["verdict"] for one in told["results"]}) == (True, {"agrees"})
    written = report.read_text(encoding="utf-8")
    assert "the run was interrupted" in written
    assert "<failure" not in written
