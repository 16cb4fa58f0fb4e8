"""One file with a component and one with its scopes are all that it takes: every verb works on them at once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command_line import Ended, ran

from cacheproof.foundation.errors import ExitStatus
from cacheproof.model.registry import PATH_VARIABLE
from cacheproof.model.store import HOME_VARIABLE
from cacheproof.replay.shipped import DATA

TOY = Path(__file__).parent / "toy"


class Toy:
    """The command line where the toy is."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys

    def __call__(self, *arguments: str) -> Ended:
        return ran(self.capsys, *arguments)

    def replace(self, old: str, new: str) -> None:
        """Change the scope file."""
        path = self.folder / "shelf.toml"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Toy:
    folder = tmp_path / "toy"
    folder.mkdir()
    for name in ("shelf.py", "shelf.toml"):
        shutil.copy(TOY / name, folder / name)
    monkeypatch.setenv(PATH_VARIABLE, str(folder))
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return Toy(folder, capsys)


def test_it_is_listed_and_explained(toy: Toy) -> None:
    (listed,) = toy("list", "shelf", "--json").json["components"]
    assert [scope["name"] for scope in listed["scopes"]] == ["three-things"]
    assert "looking changes nothing" in toy("explain", "TOY-2").out
    assert "shelf shelf-overfull (T0), TOY-1, in scope three-things" in toy("explain", "C-TOY-1").out


def test_it_is_checked(toy: Toy) -> None:
    ended = toy("check", "shelf", "--json")
    assert (ended.status, ended.json["form"]) == (0, [])
    assert [(run["variant"], run["states"]) for run in ended.json["runs"]] == [("normative", 3), ("T0", 4)]
    assert "1 scope, 7 states" in toy("status").out


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        ("states = 3", "states = 4", 1),
        ("violations = [{ property", "violations = []\n# [{ property", 1),
        ("capacity = 2", "capacity = 0", 2),
        ("capacity = 2", "capacity = -2", 2),
        ("capacity = 2", 'capacity = "two"', 2),
        ("about = ", "abuot = ", 2),
    ],
)
def test_what_is_wrong_with_its_scopes_is_found(toy: Toy, old: str, new: str, status: int) -> None:
    toy.replace(old, new)
    ended = toy("check", "shelf")
    assert ended.status == status
    if status == ExitStatus.WRONG_INPUT:
        assert (ended.out, ended.err.count("\n")) == ("", 1)
        assert "shelf.toml: scope" in ended.err


def test_its_counterexample_is_shown(toy: Toy) -> None:
    toy("check", "shelf")
    ended = toy("show", "shelf.T0.three-things.reference", "--format", "table")
    assert ended.status == 0
    assert "add" in ended.out


def test_it_is_fuzzed(toy: Toy) -> None:
    agreed = toy("fuzz", "shelf", "--target", "spec:normative", "--steps", "200", "--seed", "1", "--json")
    assert (agreed.status, agreed.json["difference"]) == (0, None)
    differs = toy("fuzz", "shelf", "--target", "spec:T0", "--steps", "2000", "--seed", "1", "--json")
    assert differs.status == 1


def test_it_is_served(toy: Toy) -> None:
    lines = [
        {"do": "hello", "protocol": "0.1"},
        {"do": "init", "component": "shelf", "variant": "T0", "capacity": 1, "things": 2},
        *({"do": "apply", "op": "add", "key": key} for key in (0, 1)),
        {"do": "bye"},
    ]
    given = "".join(json.dumps(line) + "\n" for line in lines)
    call = [sys.executable, "-m", "cacheproof", "serve"]
    served = subprocess.run(call, input=given, capture_output=True, text=True, check=True).stdout.splitlines()
    answers = [json.loads(line) for line in served]
    assert "shelf" in answers[0]["components"]
    assert (answers[3]["code"], answers[3]["order"]) == ("done", [0, 1])


def test_it_replays_a_recorded_workload(toy: Toy) -> None:
    trace = DATA / "pope_coco_slice.jsonl.gz"
    ended = toy("replay", str(trace), "--component", "shelf", "--capacity", "5", "--json")
    assert ended.status == 0
    assert ended.json["requests"] == ended.json["references"] > 0
    assert 0 < ended.json["hits"] < ended.json["references"]
    broken = toy("replay", str(trace), "--component", "shelf", "--capacity", "5", "--variant", "T0", "--json")
    assert broken.status == 1
    assert {violation["property"] for violation in broken.json["violations"]} == {"TOY-1"}
