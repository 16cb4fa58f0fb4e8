"""Each claim about a scheduling step fails on a bug that is made for it."""

from __future__ import annotations

import ast
import inspect

import pytest
from tests.proofs.prove.planted import Bug, assert_refuted, identified, reachable

from cacheproof.prove.finding import Verdict
from cacheproof.prove.obligations.scheduler import COUNTS, ITEMS, STEP
from cacheproof.prove.proof import Proof
from cacheproof.prove.prover import prove
from cachespec.scheduler import counts, items, normative, rounds

BUGS = (
    (STEP, Bug(normative.is_positive, "$tokens > 0", "$tokens >= 0", "SCH-1/schedule")),
    (STEP, Bug(rounds.scheduled, "$current.tokens - $fit.tokens", "$current.tokens - 1", "SCH-1/budget/schedule")),
    (
        STEP,
        Bug(
            rounds.run,
            "$config.token_budget",
            "2 * $config.token_budget",
            "SCH-1/budget/schedule",
        ),
    ),
    (STEP, Bug(rounds.run, "$config.encoder_compute", "2 * $config.encoder_compute", "SCH-4/schedule")),
    (STEP, Bug(rounds.scheduled, "$fit.embeds", "current.embeds + 1", "loops/schedule")),
    (
        STEP,
        Bug(
            rounds.preempt,
            "$current._replace(state=$state, preempted=$x, ended=1)",
            "$current._replace(state=$state, preempted=$x, ended=1, tokens=$current.tokens + 1)",
            "loops/schedule",
        ),
    ),
    (STEP, Bug(rounds.set_back, "left_out($state.running, $victim)", "$state.running", "loops/schedule")),
    (
        ITEMS,
        Bug(items.up_to, "max(0, min($fit.tokens, $item[START] - $start))", "$item[START] - $start", "loops/schedule"),
    ),
    (ITEMS, Bug(items.up_to, "min($fit.tokens, $item[START] - $start)", "$item[START]", "loops/schedule")),
    (ITEMS, Bug(items.with_room, "not $asked.yes or $item[LENGTH] > $fit.embeds", "not $asked.yes", "loops/schedule")),
    (
        COUNTS,
        Bug(
            counts.offered,
            "min(limited($config, $tokens), $budget)",
            "limited($config, $tokens)",
            "SCH-1/count/schedule",
        ),
    ),
    (COUNTS, Bug(counts.at_least_none, "max($tokens, 0)", "$tokens", "SCH-1/count/schedule")),
    (
        COUNTS,
        Bug(
            counts.aligned,
            "$boundary - $start if $boundary > $start else $tokens",
            "$boundary - $start",
            "SCH-1/count/schedule",
        ),
    ),
)


@pytest.mark.parametrize(("proof", "bug"), BUGS, ids=lambda value: identified(value) if isinstance(value, Bug) else "")
def test_a_planted_bug_is_refuted(proof: Proof, bug: Bug) -> None:
    assert_refuted(proof, bug)


@pytest.mark.parametrize("proof", [STEP, ITEMS, COUNTS], ids=["step", "items", "counts"])
def test_every_claim_is_put_to_the_solver(proof: Proof) -> None:
    """A claim is demanded in the middle of the step: one that is never reached would be met by nothing."""
    findings = list(prove(proof, ask_second=False, reachable=reachable("scheduler")))
    assert {finding.verdict for finding in findings} == {Verdict.PROVED}
    assert all(finding.checks > 0 for finding in findings)


def test_only_one_function_puts_anything_into_a_plan() -> None:
    """So it is enough that what that one is given is judged."""
    makers = [
        function.name
        for module in (rounds, items, counts, normative)
        for function in ast.parse(inspect.getsource(module)).body
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Scheduled"
    ]
    assert makers == ["scheduled"]
