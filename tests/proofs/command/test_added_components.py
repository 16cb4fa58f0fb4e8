"""Components from folders that CACHEPROOF_PATH names: their mistakes are theirs, and they replace nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.command_line import Ended, Run, ran

from cacheproof.model.registry import PATH_VARIABLE, SCOPES
from cacheproof.model.store import HOME_VARIABLE

TOY = Path(__file__).parents[2] / "quality" / "toy"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the toy component."""
    path = tmp_path / "added"
    shutil.copytree(TOY, path)
    monkeypatch.setenv(PATH_VARIABLE, str(path))
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    return path


@pytest.fixture
def cacheproof(capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line."""

    def run(*arguments: str) -> Ended:
        return ran(capsys, *arguments)

    return run


def plant(path: Path, right: str, wrong: str) -> int:
    """Replace a text of the component once; the line where it is."""
    text = path.read_text(encoding="utf-8")
    assert right in text
    path.write_text(text.replace(right, wrong, 1), encoding="utf-8")
    return text[: text.index(right)].count("\n") + 1


@pytest.mark.parametrize(
    "how", [("--jobs", "1"), ("--jobs", "2"), ("--scope", "three-things", "--variant", "T0", "--split", "2")]
)
def test_a_typo_in_a_component_is_the_components(folder: Path, cacheproof: Run, how: tuple[str, ...]) -> None:
    plant(folder / "shelf.py", "if shelf.order.has(op.key):", "if shelf.order.has(op.gest):")
    line = plant(folder / "shelf.py", "shelf.order.push(op.key, 1)), DONE", "shelf.order.push(op.gest, 1)), DONE")
    ended = cacheproof("check", "shelf", *how)
    assert (ended.status, ended.out) == (2, ""), ended.err
    said = ended.err.splitlines()[-1]
    assert f"{folder / 'shelf.py'}:" in said
    assert "has no attribute 'gest'" in said
    assert said.endswith("correct the component")
    assert "Traceback" not in ended.err
    if "--split" in how:
        assert f"shelf.py:{line}: " in said


def test_a_typo_is_located_while_fuzzing(folder: Path, cacheproof: Run) -> None:
    line = plant(folder / "shelf.py", "if shelf.order.has(op.key):", "if shelf.order.has(op.gest):")
    ended = cacheproof("fuzz", "shelf", "--target", "spec:normative", "--driver", "lockstep", "--seed", "1")
    assert ended.status == 2, ended
    assert f"shelf.py:{line}: AttributeError" in ended.err


def test_check_warns_of_what_a_prover_cannot_read(folder: Path, cacheproof: Run) -> None:
    right = "    if order.length > config.capacity:"
    line = plant(folder / "shelf.py", right, "    if len(tuple(order.items())) > config.capacity:")
    ended = cacheproof("check", "shelf", "--jobs", "1", "--json")
    assert ended.status == 0, "the exploration is as sound as before"
    where = f"{folder / 'shelf.py'}:{line}: cachespec_from_path_shelf.add"
    assert sorted(ended.json["form"]) == [f"{where}: len() over a container", f"{where}: tuple() over a container"]
    assert f"warning: {where}: len() over a container: cacheproof prove cannot read this\n" in ended.err


def test_a_field_that_holds_no_integers_is_a_warning(folder: Path, cacheproof: Run) -> None:
    plant(folder / "shelf.py", "    order: Queue[Key]\n", "    order: Queue[Key]\n    price: float = 0\n")
    (breach,) = cacheproof("check", "shelf", "--jobs", "1", "--json").json["form"]
    assert breach.endswith("Shelf: field price holds float")


def test_scopes_of_the_package_are_not_replaced(folder: Path, cacheproof: Run) -> None:
    text = (SCOPES / "lru.toml").read_text(encoding="utf-8")
    (folder / "lru.toml").write_text(text, encoding="utf-8")
    ended = cacheproof("list", "lru")
    assert (ended.status, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"{folder / 'lru.toml'} would replace the scopes of the component 'lru'" in ended.err


def test_a_component_of_the_package_is_not_replaced(folder: Path, cacheproof: Run) -> None:
    plant(folder / "shelf.py", 'name="shelf"', 'name="lru"')
    ended = cacheproof("list", "lru")
    assert (ended.status, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"{folder} has a component 'lru', and there is one already" in ended.err


def test_check_stops_at_the_first_violation(folder: Path, cacheproof: Run) -> None:
    scopes = folder / "shelf.toml"
    scopes.write_text(scopes.read_text(encoding="utf-8").partition("[scope.expect")[0], encoding="utf-8")
    plant(scopes, "things = 3", "things = 5")
    whole = cacheproof("check", "shelf", "--variant", "T0", "--jobs", "1", "--json")
    ended = cacheproof("check", "shelf", "--variant", "T0", "--jobs", "1", "--first-violation", "--json")
    (every,), (first,) = whole.json["runs"], ended.json["runs"]
    assert (whole.status, ended.status) == (1, 1)
    assert (every["ending"], first["ending"]) == ("exhausted", "found")
    assert first["states"] < every["states"]
    (line,) = ended.json["amiss"]
    assert "TOY-1: violated; the scope file expects 'holds'. TOY-1 says: there is never more on the shelf" in line
    assert "(cacheproof explain TOY-1; cacheproof show shelf.T0.three-things.reference --property TOY-1)" in line
    assert cacheproof("check", "shelf", "--first-violation", "--accept").status == 2


def test_explore_finds_a_bug_that_no_scope_reaches(folder: Path, cacheproof: Run) -> None:
    plant(folder / "shelf.py", "> config.capacity:", "> config.capacity + (config.capacity == 4):")
    assert cacheproof("check", "shelf", "--jobs", "1").status == 0, "the scope has another capacity"
    call = ("--seed", "1", "--from", "36", "--configurations", "4", "--jobs", "1")
    ended = cacheproof("explore", "shelf", *call, "--json")
    assert ended.status == 1, ended.err
    ((violated,),) = (one["violated"] for one in ended.json["variants"])
    assert (violated["property"], violated["length"]) == ("TOY-1", 5)
    assert violated["configuration"] == {"capacity": 4, "things": 5}


def test_a_configuration_check_that_raises_is_the_components(folder: Path, cacheproof: Run) -> None:
    right = 'return None if min(config) > 0 else "capacity and things must be positive"'
    line = plant(folder / "shelf.py", right, "return None if 12 // (config.capacity - 1) else None")
    ended = cacheproof("explore", "shelf", "--seed", "1", "--configurations", "20", "--jobs", "1")
    assert (ended.status, ended.out) == (2, ""), ended
    assert f"shelf.py:{line}: ZeroDivisionError" in ended.err
    assert "Traceback" not in ended.err
