"""The verb `regions`: what it prints, how it ends, and what it writes into a scope file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cacheproof.command.frame import dispatch
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.model import scope as scopes
from cacheproof.model.registry import component_named, scope_file
from cacheproof.search.regions.campaign import Limits, accept, performed, tasks_for
from cacheproof.search.regions.region import RegionSearch

LRU = component_named("lru")
ANY = ("--scope", "three-keys", "--any", "capacity", "--any", "sizes")


def test_the_scope_file_says_what_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["regions", "lru", "--json"]) is ExitStatus.AS_EXPECTED
    (run, *_) = json.loads(capsys.readouterr().out)["runs"]
    assert (run["scope"], run["extent"], run["regions"], run["drift"]) == ("three-keys", "covered", 19, [])
    assert "LRU-1" in run["confirmed"]


def test_an_era_is_broken_first_with_small_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["regions", "lru", *ANY, "--variant", "M2"]) is ExitStatus.FELL_SHORT
    out = capsys.readouterr().out
    assert "LRU-5 is broken in 8 of 8 regions" in out
    assert "cacheproof explain LRU-5" in out


def test_a_limit_is_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["regions", "lru", *ANY, "--limit-regions", "2"]) is ExitStatus.INCONCLUSIVE
    assert "ended by regions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--any", "capacity"], "--any needs one component and --scope"),
        (["--scope", "three-keys", "--any", "capcity"], "has no 'capcity'"),
        (["--scope", "three-keys", "--any", "sizes[9]"], "sizes is (1, 1, 2)"),
        (["--scope", "three-keys", "--any", "sizes=4..2"], "2 is less than 4"),
        (["--scope", "three-keys", "--any", "sizes[x]"], "is not FIELD"),
        (["--scope", "three-keys", "--any", "grown"], "there is no integer in it"),
        (["--set", "larger"], "there is no set"),
        (["--accept", "--seconds", "1"], "--accept writes the counts of whole runs"),
        (["--scope", "turns"], "no scope file names numbers for that"),
    ],
)
def test_wrong_usage_says_what_is_wrong(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["regions", "lru", *given]) is ExitStatus.WRONG_INPUT
    assert said in capsys.readouterr().err


def test_counts_are_written_and_another_count_falls_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lru.toml"
    shutil.copy(scope_file(LRU), file)
    file.write_text(file.read_text().replace("regions = 19", "regions = 18"))
    monkeypatch.setattr(scopes, "scope_file", lambda component: file)
    (task,) = tasks_for([LRU], "normative", "three-keys", ("default",), None, Limits())
    run = performed(task, lambda line: None)
    assert run.drift == ["regions: 19; the scope file says 18"]
    assert run.status is ExitStatus.FELL_SHORT
    assert accept(file, [run]) == 1
    assert performed(task, lambda line: None).drift == []
    assert file.read_text() == scope_file(LRU).read_text()
    assert accept(file, [run]) == 0


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ('any = ["sizes"]\nunreached = ["LRU-99"]', "numbers: unreached: lru has no property 'LRU-99'"),
        ('any = "sizes"', "Expected `array`"),
        ('any = ["sizes"]\nset = "often"', "Invalid enum value"),
    ],
)
def test_a_scope_file_is_checked(tmp_path: Path, numbers: str, said: str) -> None:
    file = tmp_path / "lru.toml"
    text = scope_file(LRU).read_text()
    start = text.index("[scope.numbers]\n") + len("[scope.numbers]\n")
    file.write_text(text[:start] + numbers + "\n\n" + text[text.index("[scope.expect.M2]") :])
    with pytest.raises(InputError, match=said):
        scopes.read(LRU, file)


def test_a_run_for_other_numbers_is_kept_beside_that_of_the_scope_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path))
    own = ("--any", "capacity", "--any", "sizes")
    for numbers in (own, ("--any", "capacity=1..3")):
        assert dispatch(["regions", "lru", "--scope", "three-keys", *numbers]) is ExitStatus.AS_EXPECTED
    capsys.readouterr()
    kept = sorted(path.name for path in (tmp_path / "runs" / "regions").iterdir())
    assert kept == ["lru.normative.three-keys.capacity=1..3.json", "lru.normative.three-keys.json"]


def test_a_counterexample_that_is_none_with_plain_integers_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(RegionSearch, "_way", lambda *_: ())
    assert dispatch(["regions", "lru", *ANY, "--variant", "M2"]) is ExitStatus.INCONCLUSIVE
    assert "a counterexample is not confirmed" in capsys.readouterr().err
