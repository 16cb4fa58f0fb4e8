"""Vectors on targets: what passes, fails, deviates, is skipped or breaks down; and the verbs as a user has them."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Run, ran

from cacheproof.foundation.errors import InputError
from cacheproof.model.declaration import Declaration, declaration_from
from cacheproof.model.registry import component_named, components, scope_file
from cacheproof.model.store import HOME_VARIABLE
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.vectors.consuming import Consumer, Consumption, Verdict
from cacheproof.vectors.files import RELEASED, read, released
from cacheproof.vectors.vector import name_of
from cachespec.kernel import Code, Observation, Operation, Outcome
from cachespec.lru import Get, Put

EXAMPLE = Path(__file__).parents[2] / "examples" / "lru_child.py"
CHILD = f"exec:{sys.executable} {EXAMPLE}"
ORACLE = f"exec:{sys.executable} -m cacheproof serve"
LRU = component_named("lru")
GROWTH = next(RELEASED.glob("lru.growth.exploration.*"))
THREE = next(RELEASED.glob("lru.three-keys.exploration.*"))
REFUSALS = next(RELEASED.glob("lru.*.refusals.*"))
SCOPED = [component for component in components().values() if scope_file(component).is_file()]


@pytest.fixture
def cacheproof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))

    return partial(ran, capsys)


def consumed(target: Any, *paths: Path, **options: Any) -> Consumption:
    declaration = options.pop("declaration", Declaration())
    consumer = Consumer(target, "target", declaration, **options)
    return consumer.consume((path, read(path)) for path in paths)


def era(tag: str) -> SpecificationTarget:
    return SpecificationTarget(LRU, LRU.variants[tag])


@pytest.mark.parametrize("component", SCOPED, ids=lambda component: component.name)
def test_released_vectors_are_what_the_specification_answers(component: Any) -> None:
    """Where this fails, the normative variant has changed: fill anew, and raise SPECIFICATION_VERSION."""
    whole = consumed(SpecificationTarget(component, component.normative), *released(component.name))
    assert whole.of(Verdict.FAILED) == []
    assert {result.vectors.origin for result in whole.of(Verdict.SKIPPED)} == {"refusals"}
    assert whole.of(Verdict.PASSED)


def test_refusals_are_those_of_the_oracle(cacheproof: Run) -> None:
    ended = cacheproof("consume", "lru", "--target", ORACLE, "--json")
    assert ended.status == 0, ended.err
    assert ended.json["cases"]["skipped"] == 0
    assert ended.json["features"]["refusals"]["passed"] >= 10
    assert ended.json["observables"] == [
        f"lru/observable/{name}" for name in ("hits", "order", "sizes", "total", "used")
    ]


def test_the_planted_bug_is_found_and_shown(cacheproof: Run, tmp_path: Path) -> None:
    ended = cacheproof("consume", "lru", "--target", CHILD, "--write", tmp_path / "found")
    assert ended.status == 1
    assert "put(key=0, size=1)" in ended.out
    assert "order: the specification has" in ended.out
    assert "┃ specification ┃ yours" in ended.out
    assert "sequenceDiagram" not in ended.out
    assert "not shown, and not compared: hits, total" in ended.out
    assert {path.suffix for path in (tmp_path / "found").iterdir()} == {".html", ".mmd", ".svg", ".json", ".py"}
    told = cacheproof("consume", "lru", "--target", CHILD, "--json").json
    assert len(told["difference"]["trace"]["steps"]) == 3, "what is shown is shrunk"
    kept = cacheproof("show", told["run"])
    assert kept.status == 0, kept.err
    assert "put(key=0, size=1)" in kept.out


def test_without_the_bug_nothing_is_found(cacheproof: Run) -> None:
    ended = cacheproof("consume", "lru", "--target", f"{CHILD} --correct")
    assert ended.status == 0
    assert re.search(r"skipped: \d+ cases, the target does not have refusals", ended.out)
    assert "failed" not in ended.out.partition("all cases")[2]


def test_what_an_era_does_is_a_failure_or_as_declared() -> None:
    plain = consumed(era("stale-growth"), GROWTH)
    assert plain.of(Verdict.FAILED)
    known = consumed(era("stale-growth"), GROWTH, deviations=("C-LRU-2",))
    assert known.of(Verdict.FAILED) == []
    assert {result.deviation for result in known.of(Verdict.DEVIATED)} == {"C-LRU-2"}
    assert (known.vanished, known.untried) == ((), ())


def test_a_declared_deviation_that_does_not_occur_is_told() -> None:
    declared = Declaration(deviations=("C-LRU-2", "C-KV-1"))
    whole = consumed(SpecificationTarget(LRU, LRU.normative), GROWTH, declaration=declared)
    assert whole.vanished == ("C-LRU-2",)
    assert whole.untried == ("C-KV-1",)


def test_what_an_era_shows_at_first_is_a_failure_or_as_declared() -> None:
    ring = component_named("ring")
    path = next(RELEASED.glob("ring.never-drained.exploration.*"))
    first = SpecificationTarget(ring, ring.variants["M1"])
    assert {(result.verdict, result.step) for result in consumed(first, path).results} == {(Verdict.FAILED, 0)}
    known = consumed(first, path, deviations=("C-SHM-1",))
    assert {(result.verdict, result.step) for result in known.results} == {(Verdict.DEVIATED, 0)}
    assert (known.vanished, known.untried) == ((), ())
    gone = consumed(SpecificationTarget(ring, ring.normative), path, deviations=("C-SHM-1",))
    assert gone.of(Verdict.PASSED) == gone.results
    assert gone.vanished == ("C-SHM-1",)


def test_another_initial_state_than_the_declared_one_is_a_failure() -> None:
    ring = component_named("ring")

    class Worse(SpecificationTarget):
        def observe(self) -> Mapping[str, Observation]:
            return {**super().observe(), "ids": (1, 2)}

    path = next(RELEASED.glob("ring.never-drained.exploration.*"))
    whole = consumed(Worse(ring, ring.variants["M1"]), path, deviations=("C-SHM-1",))
    assert whole.of(Verdict.FAILED) == whole.results


def test_a_declared_deviation_excuses_no_other_answer() -> None:
    """Where the bug is another one at the very same calls, it is found."""

    class Worse(SpecificationTarget):
        def observe(self) -> Mapping[str, Observation]:
            shown = dict(super().observe())
            return shown | {"total": 7} if shown["order"] == () and self.touched else shown

        touched = False

        def apply(self, operation: Operation) -> Outcome:
            self.touched = isinstance(operation, Put)
            return super().apply(operation)

    whole = consumed(Worse(LRU, LRU.variants["stale-growth"]), GROWTH, deviations=("C-LRU-2",))
    assert whole.of(Verdict.FAILED)


def test_features_are_left_out_by_name(cacheproof: Run) -> None:
    data = cacheproof("consume", "lru", "--target", "spec:normative", "--skip", "lru/operation/pin", "--json").json
    assert data["features"]["lru/operation/pin"] == {"skipped": data["cases"]["skipped"] - refusals_without_pins(data)}
    data = cacheproof("consume", "lru", "--target", "spec:normative", "--skip", "lru/observable/hits", "--json").json
    assert "lru/observable/hits" not in data["observables"]
    for wrong in ("lru/operation/fly", "mirror/operation/send", "everything"):
        assert cacheproof("consume", "lru", "--target", "spec:normative", "--skip", wrong).status == 2


def refusals_without_pins(data: dict[str, Any]) -> int:
    skipped = [one for one in data["not_passed"] if one["verdict"] == "skipped"]
    return sum(one["reason"].startswith("the target does not have refusals") for one in skipped)


def test_a_target_lacks_what_it_says() -> None:
    declared = declaration_from(LRU, {"features": ["lru/operation/put", "lru/operation/contains"]})
    whole = consumed(SpecificationTarget(LRU, LRU.normative), THREE, declaration=declared)
    assert {result.reason.partition("have ")[2] for result in whole.of(Verdict.SKIPPED)} <= {
        f"lru/operation/{kind.wire_name()}" for kind in LRU.operations
    } - declared.features
    for result in whole.results:
        can = declared.features >= set(result.vectors.needs(result.case))
        assert result.verdict is (Verdict.PASSED if can else Verdict.SKIPPED)
    assert whole.of(Verdict.PASSED), "runs that need few operations are there"
    assert whole.of(Verdict.SKIPPED)


def test_a_case_is_run_up_to_what_the_target_lacks() -> None:
    class Forgetful(SpecificationTarget):
        def apply(self, operation: Operation) -> Outcome:
            outcome = super().apply(operation)
            return outcome._replace(code=Code.MISS) if isinstance(operation, Get) else outcome

    def verdicts(target: SpecificationTarget, *lacking: str) -> list[Verdict]:
        features = {f"lru/operation/{kind.wire_name()}" for kind in LRU.operations if kind.wire_name() not in lacking}
        declared = declaration_from(LRU, {"features": sorted(features)})
        return [result.verdict for result in consumed(target, THREE, declaration=declared).results]

    right = verdicts(SpecificationTarget(LRU, LRU.normative), "pop")
    wrong = verdicts(Forgetful(LRU, LRU.normative), "pop")
    assert set(right) == {Verdict.PASSED, Verdict.SKIPPED}
    assert any(case is Verdict.SKIPPED and found is Verdict.FAILED for case, found in zip(right, wrong, strict=True)), (
        "it answers wrongly before the first pop"
    )


SLOPPY = """
import json, sys
value = 0
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"answer": "state", "used": value}
    if asked["do"] == "hello": answer = {"answer": "hello", "protocol": "1.0", "features": ["refusals"]}
    if asked["do"] in ("init", "reset") and asked.get("component") == "lru": value = 0
    if asked["do"] == "apply" and asked["op"] == "no_such_name": MISTAKE
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.parametrize(
    ("mistake", "verdict", "said"),
    [
        (
            "answer = {'answer': 'outcome', 'code': 'done'}",
            Verdict.FAILED,
            "must be refused as wrong_field, and was taken",
        ),
        ("answer = {'answer': 'error', 'error': 'not_a_message'}", Verdict.FAILED, "not as not_a_message"),
        (
            "value, answer = 1, {'answer': 'error', 'error': 'wrong_field'}",
            Verdict.FAILED,
            "was refused, and changed used",
        ),
        ("sys.exit(3)", Verdict.BROKE_DOWN, "ended with exit status 3"),
    ],
)
def test_messages_that_are_taken_are_found(
    cacheproof: Run, tmp_path: Path, mistake: str, verdict: Verdict, said: str
) -> None:
    child = tmp_path / "child.py"
    child.write_text(SLOPPY.replace("MISTAKE", mistake), encoding="utf-8")
    lines = [json.loads(line) for line in REFUSALS.read_text(encoding="utf-8").splitlines()]
    only = [one for one in lines[-1]["steps"] if one.get("refused", {}).get("op") == "no_such_name"]
    assert only
    content = b"".join(
        json.dumps(one).encode() + b"\n" for one in (lines[0] | {"cases": 1}, {"case": 1, "steps": only})
    )
    path = tmp_path / name_of("lru.x.refusals", content)
    path.write_bytes(content)
    ended = cacheproof("consume", path, "--target", f"exec:{sys.executable} {child}", "--json")
    (one,) = ended.json["not_passed"]
    assert (one["verdict"], ended.status) == (verdict.value, 1 if verdict is Verdict.FAILED else 3)
    assert said in one["reason"]
    shown = cacheproof("consume", path, "--target", f"exec:{sys.executable} {child}")
    assert said in shown.out


def test_a_configuration_that_the_target_refuses_is_skipped_with_its_reason() -> None:
    class Narrow(SpecificationTarget):
        def reset(self, config: Any) -> None:
            if config == refused:
                raise InputError("not this one")
            super().reset(config)

    lru = component_named("lru")
    paths = released("lru")
    refused = read(paths[0]).config
    whole = consumed(Narrow(lru, lru.normative), *paths)
    reasons = {result.reason for result in whole.of(Verdict.SKIPPED)}
    assert "the target does not take this configuration: not this one" in reasons
    assert len(whole.of(Verdict.PASSED)) > 10
    assert len(whole.of(Verdict.PASSED)) + len(whole.of(Verdict.SKIPPED)) == len(whole.results)


def test_a_driver_that_fails_is_no_verdict(cacheproof: Run) -> None:
    ended = cacheproof("consume", "lru", "--target", "exec:false", "--json")
    assert ended.status == 3
    ended = cacheproof("consume", GROWTH, "--target", f"exec:{sys.executable} {EXAMPLE} --correct", "--answer", "0.001")
    assert ended.status in (0, 3), "an answer within a millisecond is possible"


def test_nothing_that_ran_is_no_answer(cacheproof: Run) -> None:
    assert cacheproof("consume", REFUSALS, "--target", "spec:normative").status == 3


def test_wrong_calls(cacheproof: Run, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for path in (GROWTH, next(RELEASED.glob("ring.never-drained.exploration.*"))):
        shutil.copy(path, mixed)
    ended = cacheproof("consume", mixed, "--target", "spec:normative")
    assert ended.status == 2
    assert "choose one with --component" in ended.err
    assert cacheproof("consume", mixed, "--component", "ring", "--target", "spec:normative").status == 0
    assert cacheproof("consume", GROWTH, "--component", "mirror", "--target", "spec:normative").status == 2
    assert cacheproof("consume", "lru", "--target", "nonsense").status == 2
    assert cacheproof("consume", GROWTH, "--target", "spec:normative", "--junit", tmp_path / "no" / "x.xml").status == 2
    assert cacheproof("fill", "lru").status == 2
    assert cacheproof("fill", "--scope", "growth", "--output", tmp_path).status == 2
    assert cacheproof("fill", "lru", "--scope", "no-such", "--output", tmp_path).status == 2


def test_filling_and_checking(cacheproof: Run, tmp_path: Path) -> None:
    folder = tmp_path / "vectors"
    first = cacheproof("fill", "lru", "--scope", "growth", "--output", folder, "--json")
    assert first.status == 0, first.err
    assert {path.name for path in folder.iterdir()} == {one["file"] for one in first.json["files"]}
    assert cacheproof("fill", "lru", "--scope", "growth", "--output", folder, "--check").status == 0
    next(folder.glob("*.exploration.*")).unlink()
    stale = cacheproof("fill", "lru", "--scope", "growth", "--output", folder, "--check", "--json")
    assert stale.status == 1
    assert len(stale.json["stale"]) == 1
    assert not list(folder.glob("*.exploration.*")), "--check writes nothing"
