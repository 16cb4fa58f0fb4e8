"""A deviation has one meaning in `consume`, `validate` and `tests_for`: the rule that the implementation follows."""

from __future__ import annotations

import json
from pathlib import Path

from tests.command_line import Run

RELEASED = Path(__file__).parents[3] / "proofs" / "cacheproof" / "vectors" / "released"


def some(name: str) -> list[Path]:
    return sorted(RELEASED.glob(name))[:1]


def test_consume_goes_on_after_a_declared_deviation(run: Run) -> None:
    files = some("kv_blocks.copies-evicted.*")
    target = ("--target", "spec:normative+unhashed-last+last-copy")
    assert run("consume", *files, *target).status == 1
    declared = ("--deviation", "C-KV-15", "--deviation", "last-copy")
    found = run("consume", *files, *target, *declared, "--json")
    assert found.status == 0
    assert found.json["deviations"]["seen"] == ["C-KV-15", "last-copy"]
    assert found.json["cases"]["failed"] == 0
    whole = run("consume", *files, "--target", "spec:normative", "--json").json
    assert found.json["calls"] == whole["calls"], "no case ends at a deviation"


def test_consume_fails_where_a_declared_rule_is_not_followed(run: Run) -> None:
    files = some("kv_blocks.copies-evicted.*")
    found = run("consume", *files, "--target", "spec:normative", "--deviation", "unhashed-last", "--json")
    assert found.status == 1
    assert any("right without unhashed-last, which is declared" in each["reason"] for each in found.json["not_passed"])
    assert found.json["deviations"]["vanished"] == ["unhashed-last"]


def test_consume_finds_a_bug_behind_a_declared_deviation(run: Run) -> None:
    files = some("kv_blocks.copies-evicted.*")
    both = "spec:normative+unhashed-last+last-copy"
    assert run("consume", *files, "--target", both, "--deviation", "unhashed-last").status == 1


def test_consume_does_not_ask_what_callers_do_not_ask(run: Run) -> None:
    files = some("lru.*")
    plain = run("consume", *files, "--target", "spec:normative", "--json").json
    found = run("consume", *files, "--target", "spec:normative", "--deviation", "unguarded:absent", "--json").json
    assert found["calls"] < plain["calls"]
    assert found["cases"]["failed"] == 0


def test_consume_refuses_what_is_no_rule(run: Run) -> None:
    files = some("lru.*")
    for name, reason in (("no-such", "has no rule"), ("C-KV-999", "neither the catalogue")):
        refused = run("consume", *files, "--target", "spec:normative", "--deviation", name)
        assert refused.status == 2
        assert reason in refused.err


def call(key: int, used: int) -> dict[str, object]:
    """A line of a log."""
    done = {"outcome": {"code": "done"}, "observations": {"used": used}}
    return {"operation": {"op": "put", "key": key, "size": 3}, **done}


def test_validate_takes_deviations_and_tells_those_that_never_show(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "log.ndjson"
    lines = [
        {"format": "cacheproof-log", "version": "0.1", "component": "lru", "config": {"capacity": 3, "sizes": [3, 3]}},
        call(0, 1),
        call(1, 2),
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert run("validate", log, "--unfinished").status == 1
    declared = ("--deviation", "entries", "--deviation", "contains-refreshes")
    found = run("validate", log, "--unfinished", *declared, "--json")
    assert found.status == 0
    assert found.json["variant"] == "normative+entries+contains-refreshes"
    assert [(rule["name"], rule["shown"]) for rule in found.json["rules"]] == [
        ("entries", True),
        ("contains-refreshes", False),
    ]
    told = run("validate", log, "--unfinished", *declared)
    assert "contains-refreshes is declared and never showed" in told.out
    assert run("validate", log, "--unfinished", "--deviation", "no-such").status == 2
