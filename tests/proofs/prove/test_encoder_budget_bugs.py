"""What is proved of the budgets fails where a rule is wrong, and for the formula that does not know the model."""

from __future__ import annotations

import pytest
from tests.planting import planted
from tests.proofs.prove.planted import Bug, assert_refuted, identified, reachable

from cacheproof.prove.finding import Verdict
from cacheproof.prove.obligations.encoder_budget import PROOF, PROOFS, in_tokens, of_a_formula
from cacheproof.prove.prover import prove
from cachespec.encoder_budget import eras, transitions

MERGED = next(proof for proof in PROOFS if proof.variant is eras.MERGED)


def test_constants_are_refuted() -> None:
    """B0: BUD-1 does not hold of two numbers that know nothing of the model."""
    proof = of_a_formula(eras.CONSTANT, in_tokens)
    (finding,) = prove(proof, ask_second=False, only="BUD-1@B0/configure")
    assert finding.verdict is Verdict.REFUTED
    assert "configure" in finding.detail.lower()


@pytest.mark.parametrize(
    "bug",
    [
        Bug(
            eras.larger_of_step_and_item,
            "($largest, max($z, $largest), max($z, $largest))",
            "($largest, $z, max($z, $largest))",
            "",
        ),
        Bug(transitions.with_modality, "max($largest, $sizes[$modality])", "$sizes[$modality]", ""),
    ],
    ids=identified,
)
def test_a_wrong_formula_is_refuted(bug: Bug) -> None:
    reachable("encoder_budget")
    with planted(bug.change):
        findings = list(prove(MERGED, ask_second=False, only=None))
    assert Verdict.REFUTED in {finding.verdict for finding in findings}


FITS = "$embeds > min($budget.compute, $budget.space)"


@pytest.mark.parametrize(
    "bug",
    [
        Bug(transitions.admit, FITS, "$embeds > $budget.compute", "BUD-3/space/admit"),
        Bug(transitions.admit, FITS, "$embeds > $budget.space", "BUD-3/compute/admit"),
        Bug(transitions.admit, "$tokens > $budget.longest", "embeds > $budget.longest", "BUD-4/admit"),
        Bug(transitions.admit, "($budget, REFUSED)", "($budget._replace(space=0), REFUSED)", "refused/admit"),
    ],
    ids=identified,
)
def test_what_is_let_in_by_a_wrong_rule_is_found(bug: Bug) -> None:
    assert_refuted(PROOF, bug)
