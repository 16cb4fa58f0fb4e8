"""`cacheproof fit`: the mixture of rules that an implementation follows, or the closest with what is left over."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.command_line import Run

CHILD = Path(__file__).parents[2] / "examples" / "lru_child.py"
QUICK = ("--steps", "100", "--seed", "4")


@pytest.mark.parametrize(
    ("component", "rules"),
    [
        ("lru", "entries+first-in-first-out"),
        ("lru", "C-MIR-10"),
        ("kv_blocks", "unhashed-last+last-copy"),
        ("kv_blocks", "merged-copies+lowest-first"),
        ("encoder_budget", "B0:configure"),
        ("block_hash", "K2:submit+K2:append"),
    ],
)
def test_the_mixture_that_a_target_follows_is_found(run: Run, component: str, rules: str) -> None:
    found = run("fit", component, "--target", f"spec:normative+{rules}", *QUICK, "--json")
    assert found.status == 0
    assert found.json["fits"]
    assert found.json["left"] is None
    assert all(rule["shown"] for rule in found.json["rules"])
    again = ("--steps", "100", "--seed", "5", "--driver", "lockstep")
    variant = found.json["variant"]
    assert run("fuzz", component, "--target", f"spec:normative+{rules}", "--variant", variant, *again).status == 0


def test_declared_rules_are_named_rather_than_transitions_of_eras(run: Run) -> None:
    found = run("fit", "kv_blocks", "--target", "spec:normative+last-copy+unhashed-last", *QUICK, "--json").json
    assert {rule["name"] for rule in found["rules"]} == {"last-copy", "unhashed-last"}


def test_an_implementation_without_deviations_follows_no_further_rule(run: Run) -> None:
    found = run("fit", "lru", "--target", "spec:normative", *QUICK)
    assert found.status == 0
    assert "follows lru (normative) without further rules" in found.out
    assert "seed 4" in found.out


def test_what_no_rule_explains_is_left_over_beside_the_closest_mixture(run: Run) -> None:
    child = f"exec:{sys.executable} {CHILD}"
    found = run("fit", "lru", "--target", child, "--scope", "three-keys", *QUICK)
    assert found.status == 1
    assert "follows no mixture of rules that is known; the closest is lru (normative)" in found.out
    assert "what is left differs in the scope three-keys" in found.out
    assert "put(key=" in found.out


def test_an_era_can_be_the_beginning(run: Run) -> None:
    found = run("fit", "lru", "--target", "spec:M2", "--variant", "M2", *QUICK, "--json")
    assert (found.status, found.json["variant"]) == (0, "M2")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (("--variant", "normative+entries"), "begin with a variant without rules"),
        (("--scope", "none"), "has no scope 'none'"),
        (("--without", "none"), "has no operation 'none'"),
    ],
)
def test_bad_input(run: Run, more: tuple[str, ...], reason: str) -> None:
    refused = run("fit", "lru", "--target", "spec:normative", *more)
    assert refused.status == 2
    assert reason in refused.err
