"""`status` says what the stored runs say, and nothing in a stronger word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cacheproof import command, evidence, store
from cacheproof.fingerprint import specification_digest
from cacheproof.registry import component_named
from cacheproof.scope import scopes_of
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
