"""Which evidence detects which mutant: the draw, each kind of evidence, the limits, and a proof that got weaker."""

from __future__ import annotations

import ast
import faulthandler
import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from cacheproof.command.frame import main
from cacheproof.detection import campaign, kept, kinds
from cacheproof.detection.campaign import Answers, Task, answer_to, perform
from cacheproof.detection.choice import Drawn, drawn
from cacheproof.detection.evidence import Answer, Cell, Evidence, Question, detected, not_decided, not_detected
from cacheproof.detection.kinds import KINDS, Kind, asked
from cacheproof.detection.table import Line, gone, lines_of, totals
from cacheproof.model.registry import PATH_VARIABLE, component_named
from cacheproof.model.rewriting import tree_of
from cacheproof.model.scope import scope_named, scopes_of
from cacheproof.model.store import HOME_VARIABLE
from cacheproof.mutants import watch
from cacheproof.mutants.generate import Mutant, mutants_of
from cacheproof.present.book.detection_page import detection_part

TOY = Path(__file__).parents[1] / "mutants" / "toy"
COUNT = "lru/transitions.lookup/update-3e9174"
"""A look-up is not counted: LRU-4."""
WEIGHT = "lru/transitions.recent/constant-6e18c1"
"""A queue of other weights: no property reads them, and the tensors are compared with them."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty store, and no tables that are kept."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "runs")


def quiet(_: str) -> None:
    """Progress that is not shown."""


def mutant_named(name: str) -> Mutant:
    return next(one for one in mutants_of(component_named(name.partition("/")[0])) if one.name == name)


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    with pytest.raises(SystemExit) as ended:
        main(["detection", *arguments, "--json", "--jobs", "1"])
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


# The draw ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lru", "encoder_cache", "ring"])
def test_three_are_drawn_for_each_transition_the_same_every_time(name: str) -> None:
    component = component_named(name)
    chosen = drawn(component)
    names = [one.mutant.name for one in chosen]
    assert names == [one.mutant.name for one in drawn(component)]
    assert len(set(names)) == len(names)
    for kind in component.normative.transitions:
        own = [one for one in chosen if one.operation == kind.wire_name()]
        assert len(own) == 3, kind
    assert names != [one.mutant.name for one in drawn(component, seed=2)]


def test_a_transition_with_few_mutants_has_all_of_them() -> None:
    component = component_named("configuration")
    names = {one.mutant.name for one in drawn(component, each=10_000)}
    assert names == {one.name for one in mutants_of(component)}


# Each kind of evidence -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("evidence", "mutant", "answer", "by"),
    [
        (Evidence.EXPLORED, COUNT, Answer.DETECTED, "LRU-4/count in oversize"),
        (Evidence.EXPLORED, WEIGHT, Answer.NOT_DETECTED, "no difference in the default scopes"),
        (Evidence.INDUCTION, COUNT, Answer.DETECTED, "LRU-4/lookup: refuted"),
        (Evidence.INDUCTION, WEIGHT, Answer.NOT_DETECTED, ""),
        (Evidence.TENSORS, COUNT, Answer.DETECTED, "equal/lookup: refuted"),
        (Evidence.TENSORS, WEIGHT, Answer.DETECTED, "equal/lookup: refuted"),
        (Evidence.CONTRACTS, COUNT, Answer.DETECTED, "lookup: refuted"),
        (Evidence.REGIONS, COUNT, Answer.DETECTED, "LRU-4 in three-keys"),
        (Evidence.REGIONS, WEIGHT, Answer.NOT_DETECTED, ""),
        (Evidence.LOCKSTEP, COUNT, Answer.DETECTED, "LRU-4"),
        (Evidence.LOCKSTEP, WEIGHT, Answer.NOT_DETECTED, "2,000 calls agree"),
        (Evidence.VECTORS, COUNT, Answer.DETECTED, "lru.five-keys.fuzzing case "),
        (Evidence.VECTORS, WEIGHT, Answer.NOT_DETECTED, ""),
    ],
)
def test_what_each_kind_of_evidence_says(evidence: Evidence, mutant: str, answer: Answer, by: str) -> None:
    cell = answer_to(Task("lru", mutant, evidence, 60.0))
    assert cell.answer is answer
    assert cell.by.startswith(by) if by else cell.by == ""


@pytest.mark.parametrize(
    "evidence", [pytest.param(one, marks=[pytest.mark.nightly] * (one is Evidence.CONTRACTS)) for one in Evidence]
)
def test_the_original_is_not_detected(evidence: Evidence) -> None:
    """A mutant that changes nothing: otherwise the evidence itself would fail, and every mutant would be detected."""
    mutant = mutant_named(COUNT)
    tree = tree_of(mutant.function)
    assert tree is not None
    same = replace(mutant, text=ast.unparse(tree))
    cell = asked(evidence, Question(same, frozenset({"lookup"}), 120.0), lambda: False)
    assert cell.answer is Answer.NOT_DETECTED, cell


def test_a_list_of_witnesses_that_is_out_of_date_detects_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the original does not reach is found by running it, and not read from the scope file."""
    stale = [
        replace(scope, numbers=msgspec.structs.replace(scope.numbers, unreached=()))
        for scope in scopes_of(component_named("lru"))
        if scope.numbers is not None
    ]
    assert any(scope_named(component_named("lru"), scope.name).numbers != scope.numbers for scope in stale)
    monkeypatch.setattr("cacheproof.detection.concrete.scopes_of", lambda _: stale)
    assert answer_to(Task("lru", WEIGHT, Evidence.REGIONS, 60.0)).answer is Answer.NOT_DETECTED


def test_a_component_without_such_evidence() -> None:
    lacking = {
        "shared_prefix": (Evidence.TENSORS, Evidence.CONTRACTS, Evidence.LOCKSTEP),
        "kv_events": (Evidence.INDUCTION,),
    }
    for component, several in lacking.items():
        name = drawn(component_named(component))[0].mutant.name
        for evidence in several:
            assert answer_to(Task(component, name, evidence, 60.0)).answer is Answer.NONE


# Limits --------------------------------------------------------------------------------------------------------------


def kind_of(ask: Callable[[Question], Cell]) -> Any:
    return MappingProxyType({**KINDS, Evidence.EXPLORED: Kind(lambda _: True, ask)})


def test_a_limit_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(_: Question) -> Cell:
        while True:
            pass

    monkeypatch.setattr(kinds, "KINDS", kind_of(endless))
    cell = answer_to(Task("lru", COUNT, Evidence.EXPLORED, 1.0))
    assert (cell.answer, cell.by) == (Answer.OPEN, "over 1 s")


def test_a_crash_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(_: Question) -> Cell:
        faulthandler.disable()  # pytest would write where the process was into the output of the run
        os.kill(os.getpid(), signal.SIGSEGV)
        return not_detected()

    monkeypatch.setattr(kinds, "KINDS", kind_of(crash))
    cell = answer_to(Task("lru", COUNT, Evidence.EXPLORED, 10.0))
    assert cell.answer is Answer.OPEN
    assert "signal 11" in cell.by


def test_an_error_of_the_check_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Question) -> Cell:
        raise AttributeError("lost")

    monkeypatch.setattr(kinds, "KINDS", kind_of(fails))
    cell = answer_to(Task("lru", COUNT, Evidence.EXPLORED, 10.0))
    assert (cell.answer, cell.by) == (Answer.OPEN, "AttributeError: lost")


@pytest.mark.parametrize(
    ("evidence", "answer"),
    [
        (Evidence.EXPLORED, Answer.DETECTED),
        (Evidence.REGIONS, Answer.DETECTED),
        (Evidence.LOCKSTEP, Answer.DETECTED),
        (Evidence.VECTORS, Answer.DETECTED),
        (Evidence.TENSORS, Answer.OPEN),
    ],
)
def test_a_call_that_raises(evidence: Evidence, answer: Answer) -> None:
    """Who runs the call sees the error; a proof that stops has no answer."""
    mutant = mutant_named(COUNT)
    broken = replace(mutant, text=f"def {mutant.function.__name__}(config, cache, op):\n    return cache.nothing")
    cell = asked(evidence, Question(broken, frozenset({"lookup"}), 60.0), lambda: False)
    assert cell.answer is answer
    assert "AttributeError" in cell.by


# Runs ----------------------------------------------------------------------------------------------------------------


def test_a_later_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = drawn(component_named("lru"), each=1)[:3]
    some = (Evidence.EXPLORED, Evidence.VECTORS)
    first = perform(chosen, some, 20.0, 1, quiet, anew=False)
    assert len(first.cells) == 6
    monkeypatch.setattr(campaign, "asked", lambda *_: pytest.fail("asked again"))
    assert perform(chosen, some, 20.0, 1, quiet, anew=False).cells == first.cells
    monkeypatch.setattr(campaign, "asked", lambda *_: not_decided("over 20 s"))
    again = perform(chosen, some, 20.0, 1, quiet, anew=True)
    assert {cell.answer for cell in again.cells.values()} == {Answer.OPEN}
    monkeypatch.setattr(campaign, "asked", lambda *_: detected("with more time"))
    assert perform(chosen, some, 20.0, 1, quiet, anew=False).cells == again.cells
    longer = perform(chosen, some, 40.0, 1, quiet, anew=False)
    assert {cell.by for cell in longer.cells.values()} == {"with more time"}


def test_other_code_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = drawn(component_named("lru"), each=1)[:1]
    monkeypatch.setattr(campaign, "asked", lambda *_: detected("before"))
    perform(chosen, (Evidence.EXPLORED,), 20.0, 1, quiet, anew=False)
    monkeypatch.setattr(campaign, "asked", lambda *_: detected("after"))
    monkeypatch.setattr(campaign, "stamp_of", lambda *_: "another")
    found = perform(chosen, (Evidence.EXPLORED,), 20.0, 1, quiet, anew=False)
    assert [cell.by for cell in found.cells.values()] == ["after"]


def test_an_interrupted_run_keeps_and_reports_what_it_knows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([detected("P")] * 9)

    def ninth_is_interrupted(*_: object) -> Cell:
        cell = next(answers, None)
        if cell is None:
            raise KeyboardInterrupt
        return cell

    monkeypatch.setattr(campaign, "asked", ninth_is_interrupted)
    status, data = run(["lru", "--keep"], capsys)
    assert (status, data["interrupted"], len(data["lines"])) == (3, True, 1)
    assert kept.names() == []
    tasks = [Task("lru", one.mutant.name, kind, 60.0) for one in drawn(component_named("lru")) for kind in Evidence]
    assert len(campaign.kept(tasks)) == 9


def test_two_workers_find_the_same() -> None:
    chosen = drawn(component_named("lru"), each=1)[:3]
    some = (Evidence.EXPLORED, Evidence.VECTORS)
    alone = perform(chosen, some, 20.0, 1, quiet, anew=True)
    together = perform(chosen, some, 20.0, 2, quiet, anew=True)
    assert {key: cell.by for key, cell in alone.cells.items()} == {key: cell.by for key, cell in together.cells.items()}


# The verb ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def lamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy as a component."""
    folder = tmp_path / "toy"
    shutil.copytree(TOY, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv(PATH_VARIABLE, str(folder))
    monkeypatch.setattr(watch, "TICK", 0.05)


@pytest.mark.usefixtures("lamp")
def test_what_nothing_detects_falls_short(capsys: pytest.CaptureFixture[str]) -> None:
    """The toy has an answer that no property reads."""
    status, data = run(["lamp", "--each", "100", "--seconds", "10"], capsys)
    assert status == 1
    assert any("HIT => MISS: no evidence detects it" in line for line in data["undetected"])
    assert not any("drained(lamp) => lamp" in line for line in data["undetected"])
    explored = next(one for one in data["evidence"] if one["evidence"] == "exploration")
    assert explored["asked"] == len(data["lines"]) > 20
    assert explored["alone"] == explored["detected"] > 0
    assert all(one["asked"] == 0 for one in data["evidence"] if one["evidence"] != "exploration")


def test_a_proof_that_got_weaker_falls_short(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted case: without the claims about counters, the induction detects fewer mutants than before."""
    from cacheproof.prove import session  # noqa: PLC0415  # z3 is an extra

    chosen, some = drawn(component_named("lru"), each=1), (Evidence.INDUCTION,)
    answers = perform(chosen, some, 60.0, 1, quiet, anew=True)
    lines = lines_of(chosen, answers)
    assert any(line.cells[Evidence.INDUCTION].by.startswith("LRU-4") for line in lines)
    kept.write("lru", lines, each=1, seed=1, seconds=60.0)
    asking = ["--check", "--evidence", "induction", "--anew"]
    status, data = run(asking, capsys)
    assert (status, data["weakened"]) == (0, [])
    proof = session.PROOFS["lru"][0]
    weaker = replace(
        proof,
        invariants=tuple(one for one in proof.invariants if not one.name.startswith("LRU-4")),
        laws=tuple(one for one in proof.laws if not one.name.startswith("LRU-4")),
    )
    monkeypatch.setattr(session, "PROOFS", {**session.PROOFS, "lru": (weaker,)})
    status, data = run(asking, capsys)
    assert status == 1
    assert any("induction detected it (LRU-4" in line and "now: not detected" in line for line in data["weakened"])


def line(**answers: Answer) -> Line:
    cells = {kind: Cell(answers.get(kind.name.lower(), Answer.NONE)) for kind in Evidence}
    return Line("lru", COUNT, "a => b", "lookup", cells)


def test_alone_is_said_only_if_all_others_have_decided() -> None:
    assert line(explored=Answer.DETECTED, vectors=Answer.NOT_DETECTED).alone is Evidence.EXPLORED
    assert line(explored=Answer.DETECTED, vectors=Answer.OPEN).alone is None
    assert line(explored=Answer.DETECTED, vectors=Answer.DETECTED).alone is None
    assert line(explored=Answer.NOT_DETECTED).undetected
    assert not line(explored=Answer.NOT_DETECTED, vectors=Answer.OPEN).undetected
    by_kind = {one.evidence: one for one in totals([line(explored=Answer.DETECTED, vectors=Answer.OPEN)])}
    assert (by_kind[Evidence.VECTORS].asked, by_kind[Evidence.VECTORS].open) == (1, 1)
    assert by_kind[Evidence.TENSORS].asked == 0


def test_a_mutant_that_is_drawn_no_more_is_told() -> None:
    assert list(gone([line(explored=Answer.DETECTED)], [])) == [
        f"{COUNT}: in the table that is kept, and not among the mutants drawn now: keep a new table"
    ]


def test_a_table_of_other_mutants_falls_short_also_if_nothing_detected_them(capsys: pytest.CaptureFixture[str]) -> None:
    of_earlier = replace(line(explored=Answer.NOT_DETECTED), mutant="lru/transitions.lookup/of-earlier")
    kept.write("lru", [of_earlier], each=1, seed=1, seconds=60.0)
    status, data = run(["--check"], capsys)
    assert (status, data["mutants"]) == (1, 0)
    assert data["weakened"] == list(gone([of_earlier], ()))


def test_an_open_answer_in_the_place_of_a_detection_is_no_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = drawn(component_named("lru"), each=1)
    cells = {(one.mutant.name, Evidence.EXPLORED): detected("P") for one in chosen}
    kept.write("lru", lines_of(chosen, Answers(cells)), each=1, seed=1, seconds=60.0)
    monkeypatch.setattr(campaign, "asked", lambda *_: not_decided("over 1 s"))
    status, data = run(["--check", "--evidence", "exploration"], capsys)
    assert (status, len(data["weakened"])) == (3, len(chosen))


def test_a_kept_table_is_asked_again_only_for_what_it_detected(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = drawn(component_named("lru"), each=1)
    first, second, *others = (one.mutant.name for one in chosen)
    cells = {(name, kind): not_decided("over 60 s") for name in (first, second, *others) for kind in Evidence}
    expected = {(first, Evidence.EXPLORED), (first, Evidence.VECTORS), (second, Evidence.REGIONS)}
    cells |= dict.fromkeys(expected, detected("P"))
    kept.write("lru", lines_of(chosen, Answers(cells)), each=1, seed=1, seconds=60.0)
    questions: list[tuple[str, Evidence]] = []

    def answering(kind: Evidence, question: Question, _stop: object) -> Cell:
        questions.append((question.mutant.name, kind))
        return detected("P")

    monkeypatch.setattr(campaign, "asked", answering)
    status, data = run(["--check", "--anew"], capsys)
    assert len(questions) == len(expected)
    assert set(questions) == expected
    assert (status, data["mutants"], data["weakened"], data["undetected"]) == (0, 2, [], [])
    assert {kind for row in data["lines"] for kind in row["answers"]} == {"exploration", "vectors", "regions"}
    status, data = run(["--check", "--anew", "--evidence", "regions"], capsys)
    assert (status, [row["mutant"] for row in data["lines"]]) == (0, [second])


def test_what_does_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lru", "--keep", "--evidence", "vectors"], capsys)[0] == 2
    assert run(["lru", "--check"], capsys)[0] == 2


def test_the_list_runs_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "asked", lambda *_: pytest.fail("asked"))
    status, data = run(["lru", "--list"], capsys)
    assert (status, len(data["mutants"])) == (0, 30)


# The page ------------------------------------------------------------------------------------------------------------


def test_the_page_shows_what_is_kept() -> None:
    chosen: list[Drawn] = drawn(component_named("lru"), each=1)[:2]
    first, second = (one.mutant.name for one in chosen)
    cells = {(name, kind): not_detected() for name in (first, second) for kind in Evidence}
    cells[first, Evidence.TENSORS] = detected("equal/contains: refuted")
    cells[second, Evidence.REGIONS] = not_decided("over 9 s")
    kept.write("lru", lines_of(chosen, Answers(cells)), each=1, seed=1, seconds=9.0)
    alone = detection_part(["alone"])
    assert f"| `{first}` | `{chosen[0].mutant.change}` | tensors | equal/contains: refuted |" in alone
    assert f"| `{second}` | `{chosen[1].mutant.change}` | none | not decided: regions |" in alone
    assert "| tensors | 2 | 1 | 1 | 1 | 0 | 0 |" in detection_part(["evidence"])
    assert "| `lru`, 9 s | 2 | 1 | 0 of 2 | 0 of 2 | 1 of 2 |" in detection_part(["components"])
    assert "| no | no | yes | no | no | no | no |" in detection_part(["mutants"])
