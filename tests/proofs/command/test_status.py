"""`status` says what the stored runs say, and nothing in a stronger word."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import ran

from cacheproof import command
from cacheproof.model import store
from cacheproof.model.fingerprint import specification_digest
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scopes_of
from cacheproof.present import evidence
from cachespec.kernel import NORMATIVE


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.HOME_VARIABLE, str(tmp_path))


def cell(component: str, method: str) -> str:
    cells = evidence.evidence([component_named(component)], store.load_all())
    return next(one.text for one in cells if one.method == method)


def explored(name: str, **changes: Any) -> None:
    scope = scopes_of(component_named("lru"))[0]
    record = {"component": "lru", "variant": NORMATIVE, "scope": scope.name, "engine": "reference", "states": 1200}
    store.save("check", name, {**record, "status": "as_expected", **changes})


BOUNDS = {"smt": "any eviction rule", "crosshair": "at most 2 entries"}


def obligation(name: str, method: str, verdict: str) -> dict[str, Any]:
    return {"component": "lru", "name": name, "method": method, "verdict": verdict, "bound": BOUNDS[method]}


def test_without_runs_nothing_is_claimed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["status", "--json"])
    assert ended.value.code == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["text"] for row in rows} == {"no run yet"}
    assert {row["method"] for row in rows} == {method.name for method in evidence.METHODS}


def test_an_exploration_is_only_explored() -> None:
    explored("one")
    assert cell("lru", "explored") == "1 scope, 1,200 states: 1 normative run"
    assert cell("lru", "proved") == cell("lru", "confirmed to a bound") == cell("lru", "fuzzed") == "no run yet"
    assert cell("mirror", "explored") == "no run yet"


def test_what_fell_short_or_has_no_answer_is_counted_and_nothing_else_said() -> None:
    explored("one", status="fell_short")
    explored("two", status="inconclusive")
    assert cell("lru", "explored") == "1 fell short; 1 inconclusive"


def test_a_run_of_an_older_specification_is_not_taken_for_this_one() -> None:
    explored("one", source="0123456789abcdef")
    assert cell("lru", "explored") == "1 of an older specification"


def test_a_run_of_a_scope_that_is_gone_is_left_out() -> None:
    explored("one", scope="no-such-scope")
    explored("two", variant="no-such-variant")
    assert cell("lru", "explored") == "no run yet"


def test_proved_and_confirmed_are_told_apart() -> None:
    found = [
        obligation("LRU-1/put", "smt", "proved"),
        obligation("LRU-2/put", "smt", "refuted"),
        obligation("LRU-7/put", "smt", "unknown"),
        obligation("queue", "crosshair", "confirmed"),
    ]
    store.save("prove", "lru", {"component": "lru", "obligations": found})
    assert cell("lru", "proved") == "1 obligation proved: any eviction rule; 1 fell short; 1 inconclusive"
    assert cell("lru", "confirmed to a bound") == "1 contract confirmed: at most 2 entries"


def fuzzed(name: str, target: str, steps: int, **changes: Any) -> None:
    record = {"component": "lru", "variant": NORMATIVE, "target": target, "steps": steps, "difference": None}
    store.save("fuzz", name, {**record, "violations": [], "breakdown": None, **changes})


def test_fuzzed_names_the_steps_and_the_targets() -> None:
    fuzzed("one", "torch", 2000)
    fuzzed("two", "exec:child", 500)
    fuzzed("three", "exec:other", 7, difference={"calls": 3})
    fuzzed("four", "exec:gone", 9, breakdown={"text": "it ended"})
    fuzzed("five", "spec:normative", 9000)
    assert cell("lru", "fuzzed") == (
        "2,500 steps without a difference: exec:child, torch; 1 fell short; 1 inconclusive"
    )


def test_conforms_is_about_eras_and_says_what_is_listed() -> None:
    era = {"component": "lru", "variant": "M2", "target": "vllm==0.20.2", "steps": 5000, "difference": None}
    store.save("conform", "one", {**era, "breakdown": None, "known_as": ["stat: a reason"], "vanished": []})
    store.save("conform", "two", {**era, "breakdown": None, "known_as": [], "vanished": ["stat"]})
    assert cell("lru", "conforms") == (
        "5,000 steps without an unlisted difference: M2 beside vllm==0.20.2 (1 listed difference); 1 fell short"
    )


def consumed(name: str, target: str, **changes: Any) -> None:
    cases = {"passed": 40, "failed": 0, "deviated": 0, "skipped": 7, "broke_down": 0} | changes.pop("cases", {})
    deviations = {"seen": [], "vanished": [], "untried": []} | changes.pop("deviations", {})
    record = {"component": "lru", "target": target, "cases": cases, "deviations": deviations, "calls": 900}
    store.save("consume", name, {**record, **changes})


def test_vectors_are_agreed_with_case_by_case() -> None:
    consumed("one", "exec:child")
    consumed("two", "exec:other", cases={"deviated": 2}, deviations={"seen": ["C-LRU-2"]})
    consumed("three", "exec:wrong", cases={"failed": 1})
    consumed("four", "exec:mended", deviations={"vanished": ["C-LRU-2"]})
    consumed("five", "exec:gone", cases={"broke_down": 5})
    consumed("six", "exec:lacking", cases={"passed": 0})
    consumed("seven", "exec:stopped", interrupted=True)
    consumed("eight", "spec:normative")
    assert cell("lru", "agrees with vectors") == (
        "82 cases of vectors, 1,800 calls: exec:child, exec:other (as declared: C-LRU-2); 2 fell short; 3 inconclusive"
    )


def test_a_log_is_validated_for_the_variant_that_it_was_held_to() -> None:
    for name, variant, verdict in (
        ("one", NORMATIVE, "possible"),
        ("two", "M2", "possible"),
        ("three", NORMATIVE, "impossible"),
        ("four", NORMATIVE, "inconclusive"),
    ):
        record = {"component": "lru", "variant": variant, "log": "a.ndjson", "verdict": verdict, "consumed": 700}
        store.save("validate", name, record)
    assert cell("lru", "logs validated") == (
        "2 logs, 1,400 lines, each a run of the specification: M2, normative; 1 fell short; 1 inconclusive"
    )


def searched(name: str, target: str, **changes: Any) -> None:
    record = {"component": "scheduler", "target": target, "calls": 400, "loads": 5, "finding": None, "passed_over": {}}
    store.save("stalls", name, {**record, **changes})


def test_a_search_for_stalls_says_how_much_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    searched("one", "exec:child", passed_over={"circling": 3})
    searched("two", "exec:other", finding={"sort": "stall"})
    searched("three", "exec:gone", calls=0)
    searched("four", "spec:S2", finding={"sort": "stall"})
    said = "400 calls of 5 loads without a finding: exec:child (3 of sorts that were not asked for)"
    assert cell("scheduler", "searched for stalls") == f"{said}; 1 fell short; 1 inconclusive"
    explained = {}
    for name in ("SCH-8", "SCH-1"):
        with pytest.raises(SystemExit):
            command.main(["explain", name])
        explained[name] = capsys.readouterr().out
    assert "400 calls of 5 loads without a finding" in " ".join(explained["SCH-8"].split())
    assert "without a finding" not in explained["SCH-1"]


def test_what_the_verbs_keep_is_what_status_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a log.ndjson"
    header = {"format": "cacheproof-log", "version": "0.1", "component": "lru", "config": {"capacity": 1, "sizes": [1]}}
    header["source"] = "an engine"
    called = {"operation": {"op": "get", "key": 0}, "outcome": {"code": "miss"}}
    log.write_text(json.dumps(header) + "\n" + json.dumps(called) + "\n")
    child = f"exec:{sys.executable} {Path(__file__).parents[2] / 'examples' / 'lru_child.py'} --correct"
    calls = [["validate", str(log)], ["consume", "lru", "--target", child]]
    calls += [["stalls", "spec:normative", "--steps", "30", "--seed", "1"]]
    for call in calls:
        with pytest.raises(SystemExit) as ended:
            command.main(call)
        assert ended.value.code == 0, capsys.readouterr().err
    assert cell("lru", "logs validated") == "1 log, 1 line, each a run of the specification: normative"
    assert "cases of vectors" in cell("lru", "agrees with vectors")
    assert cell("scheduler", "searched for stalls") == "no run yet", "the specification's own target says nothing"
    assert store.load("stalls", "scheduler.spec_normative")["calls"] >= 30


def test_a_name_of_a_run_can_be_a_file_and_is_its_own() -> None:
    assert store.name_of("lru", "", "exec:a b/c") == "lru.exec_a_b_c"
    longer = [store.name_of("lru", "x" * 200 + end) for end in "ab"]
    assert longer[0] != longer[1]
    assert max(map(len, longer)) < 100


def test_every_stored_run_says_which_specification_it_was_of() -> None:
    explored("one")
    assert store.load("check", "one")["source"] == specification_digest()


def test_the_digest_changes_with_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.setattr("cachespec.__path__", [str(package)])
    digests = []
    for source in ("x = 1\n", "x = 2\n"):
        (package / "lru.py").write_text(source)
        specification_digest.cache_clear()
        digests.append(specification_digest())
    specification_digest.cache_clear()
    assert digests[0] != digests[1]


def test_one_component_alone(capsys: pytest.CaptureFixture[str]) -> None:
    every, alone = ran(capsys, "status", "--json").json["rows"], ran(capsys, "status", "lru", "--json").json["rows"]
    assert alone == [row for row in every if row["component"] == "lru"]
    assert ran(capsys, "status", "lur").status == 2
