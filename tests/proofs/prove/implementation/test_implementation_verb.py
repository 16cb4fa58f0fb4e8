"""`cacheproof prove --implementation` as a user calls it, and what is kept of a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cacheproof.command.prove import Method, command
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.model import fingerprint
from cacheproof.model.registry import component_named
from cacheproof.model.store import HOME_VARIABLE, load
from cacheproof.present.evidence import evidence
from cacheproof.prove import session
from cacheproof.prove.asking import answer_of
from cacheproof.prove.executor import NotFollowedError
from cacheproof.prove.finding import Verdict
from cacheproof.prove.implementation import prover
from cacheproof.prove.implementation.correspondence import INITIAL
from cacheproof.prove.implementation.prover import EQUAL, STATEMENTS, prove_place
from cacheproof.prove.session import CORRESPONDENCES


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    return tmp_path


def test_the_operations_of_a_component_are_proved_at_its_shape_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["prove", "--implementation", "--method", "smt", "lru", "--json", "--jobs", "2"]
    ended = subprocess.run(
        [sys.executable, "-m", "cacheproof", *arguments], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    rows = {row["name"]: row for row in json.loads(ended.stdout)["obligations"]}
    (shape,) = (one for one in CORRESPONDENCES["lru"] if not one.nightly)
    operations = [place for place in shape.places() if place != INITIAL]
    assert set(rows) == {"form/initial", *(f"{claim}/{place}" for claim in STATEMENTS for place in operations)}
    assert {row["verdict"] for row in rows.values()} == {"proved at stated shapes"}
    assert {row["bound"] for row in rows.values()} == {"3 keys, any numbers"}
    assert {row["method"] for row in rows.values()} == {"implementation"}
    kept = load("prove", "lru-implementation")
    assert [row["name"] for row in kept["obligations"]] == list(rows)
    cell = said_of(kept)
    assert cell.says == f"{len(rows)} obligations of the tensor code proved at stated shapes: 3 keys, any numbers"
    assert said_of(kept, method="proved").as_expected == 0
    outdated = said_of({**kept, "implementation": "0" * 16})
    assert (outdated.as_expected, outdated.outdated) == (0, len(rows))


def said_of(record: Any, method: str = "proved at stated shapes") -> Any:
    (cell,) = (one for one in evidence([component_named("lru")], [record]) if one.method == method)
    return cell


def test_the_digest_changes_with_the_tensor_code(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fingerprint.implementation_digest() != fingerprint.specification_digest()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ["lur"], "implementation": True}, "the implementation of 'lur': there are .*lru"),
        ({"implementation": True, "which": "some"}, "no set 'some'"),
        ({"names": ["lur"], "implementation": True, "method": Method.SMT}, "by smt of the implementation of 'lur'"),
        ({"which": "all"}, "obligations of --implementation"),
    ],
)
def test_wrong_input_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        command(**options)


def test_larger_shapes_are_in_the_set_all() -> None:
    usual, every = (
        session.chosen_implementation(["lru"], "smt", nightly=nightly).shapes["lru"] for nightly in (False, True)
    )
    assert set(usual) < set(every)


def test_a_question_without_an_answer_is_given_up_at_its_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover, "answer_of", lambda solver: answer_of(solver, 1))
    (row,) = prove_place(CORRESPONDENCES["lru"][0], "put", only=EQUAL)
    assert row.verdict is Verdict.GAVE_UP
    assert "at 3 keys" in row.detail


def test_a_kind_that_is_not_known_is_named_and_never_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise NotFollowedError("the kind of node aten.tril.default is not followed")

    monkeypatch.setattr(prover, "step_of", refuse)
    rows = list(prove_place(CORRESPONDENCES["lru"][0], "put"))
    assert {row.verdict for row in rows} == {Verdict.UNKNOWN}
    assert all("aten.tril.default" in row.detail for row in rows)
    report = command(["lru"], method=Method.SMT, implementation=True, jobs=1)
    assert report.exit_status is ExitStatus.FELL_SHORT
