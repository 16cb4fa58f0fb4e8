"""`explain` of a property says why it matters and how strong the evidence is, and no more than what was seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import ran

from cacheproof import command
from cacheproof.catalogue.meaning import PropertyMeaning, meanings
from cacheproof.command.explain import lines
from cacheproof.model.fingerprint import specification_digest
from cacheproof.model.registry import component_named, components
from cacheproof.model.scope import scopes_of
from cacheproof.model.store import load_all
from cacheproof.present.standing import releases_of, standing
from cacheproof.targets.vllm.eras import table

Json = Callable[..., dict[str, Any]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Json:
    """Runs a verb with `--json`, with a store of its own."""
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path))

    def run(*arguments: str) -> dict[str, Any]:
        ended = ran(capsys, *arguments, "--json")
        assert ended.status == 0
        data: dict[str, Any] = ended.json
        return data

    return run


def of(component: str, name: str) -> PropertyMeaning:
    (found,) = [
        one
        for one in meanings(name, [component_named(component)])
        if isinstance(one, PropertyMeaning) and one.name == name
    ]
    return found


def test_a_property_comes_with_its_real_cases(call: Json) -> None:
    stands = next(one["standing"] for one in call("explain", "MIR-2")["meanings"] if one["meaning"]["name"] == "MIR-2")
    cases = {case["number"]: case for case in stands["cases"]}
    assert "#31404" in cases["C-MIR-1"]["entry"]["threads"]
    assert cases["C-MIR-1"]["entry"]["releases"].startswith("0.7.3")
    assert (cases["C-MIR-1"]["eras"], cases["C-MIR-1"]["length"]) == (["M0", "M1", "M2"], 4)
    assert stands["released"]["M1"] == ["vllm==0.11.0"]
    assert cases["C-MIR-4"]["length"] is None, "the register says that it breaks MIR-2; no scope shows it by that"


def test_a_person_reads_all_of_it(call: Json, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["explain", "MIR-2"])
    said = capsys.readouterr().out
    assert said.index("why it matters") < said.index("is checked") < said.index("evidence")
    assert "public: #31404 (open)" in said
    assert "shown by M0, M1, M2, in at least 4 operations: cacheproof catalogue C-MIR-1" in said
    assert "M1: vllm==0.11.0" in said
    assert max(map(len, said.splitlines())) < 240


def test_what_was_explored_is_what_the_runs_kept_say(call: Json) -> None:
    before = standing(of("lru", "LRU-1"), load_all()).evidence["explored"]
    assert before.endswith("golden counts; no run is kept here")
    scope = next(scope for scope in scopes_of(component_named("lru")) if scope.name == "pins")
    call("check", "lru", "--scope", "pins")
    after = standing(of("lru", "LRU-1"), load_all()).evidence["explored"]
    states = scope.expectation("normative").states
    assert after.endswith(f"the last runs saw it hold in 1 of them, {states:,} states")


def test_a_run_of_another_specification_or_one_that_refuted_it_is_no_evidence(call: Json) -> None:
    call("check", "lru", "--scope", "pins")
    kept = [dict(record) for record in load_all()]
    (run,) = [record for record in kept if record["variant"] == "normative"]
    older = {**run, "source": "another"}
    refuted = {**run, "verdicts": [{**one, "found": "violated"} for one in run["verdicts"]]}
    for planted in (older, refuted):
        assert "no run is kept here" in standing(of("lru", "LRU-1"), [planted]).evidence["explored"]


def test_proofs_are_those_of_this_property_in_the_last_run() -> None:
    rows = [
        {"component": "lru", "name": "LRU-1/put", "verdict": "proved", "bound": "all sizes"},
        {"component": "lru", "name": "LRU-1/pop", "verdict": "unknown", "bound": "all sizes"},
        {"component": "lru", "name": "LRU-10/put", "verdict": "proved", "bound": "all sizes"},
        {"component": "mirror", "name": "LRU-1/put", "verdict": "proved", "bound": "all sizes"},
    ]
    rows = [{**row, "method": "smt", "statement": ""} for row in rows]
    record = {"kind": "prove", "source": specification_digest(), "obligations": rows}
    said = standing(of("lru", "LRU-1"), [record]).evidence["proved"]
    assert said == "1 obligation proved: all sizes; 1 obligation unknown: all sizes (of LRU-1 with its parts)"
    assert "no run is kept" in standing(of("lru", "LRU-1"), [{**record, "source": "another"}]).evidence["proved"]


def test_a_property_that_nobody_is_known_to_have_broken_says_so() -> None:
    quiet = next(
        (one, stands)
        for component in components().values()
        for rule in component.properties()
        for one in meanings(rule.name, [component])
        if isinstance(one, PropertyMeaning) and not (stands := standing(one, [])).cases
    )
    text = "\n".join(lines(*quiet))
    assert "why it matters: no public case is known" in text


def test_an_era_names_the_packages_that_it_describes(call: Json) -> None:
    (era,) = [one for one in call("explain", "E0")["meanings"] if one["is"] == "variant"]
    assert era["released"] == list(releases_of("encoder_cache", "E0")) == ["vllm==0.7.3"]
    described = {(one.component, one.variant) for one in table().eras}
    assert all(releases_of(*one) for one in described)
    assert releases_of("lru", "normative") == ()


def test_one_operation_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    text = ran(capsys, "explain", "C-MIR-10").out
    assert "shortest trace of 1 operation," in text
    assert "1 operations" not in text


def test_a_case_of_several_properties_is_described_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = ran(capsys, "explain", "MIR-10").out
    described = text.count(" property of mirror\n")
    assert text.count("    C-MIR-2: ") == described > 3, "each property names its case"
    assert text.count("public: #14864") == 1
