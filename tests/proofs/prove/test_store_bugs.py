"""Each claim that is proved of the object store is false on some reachable step, once a bug is planted for it.

The formulas of the store have quantifiers within quantifiers, for which solvers rarely find models. So a claim is asked
of reachable steps of small stores, one after the other.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types
from tests.planting import planted
from tests.proofs.prove.bugs.object_store import BUGS, OF_THE_SEARCH, TRACES
from tests.proofs.prove.planted import Bug, claims_without_a_bug, identified, reachable, reachable_for

from cacheproof.prove.executor import explore
from cacheproof.prove.finding import Verdict
from cacheproof.prove.loops import followed
from cacheproof.prove.object_store.laws import EVERY_CALL
from cacheproof.prove.obligations.object_store import PROOF, PROOFS, WALKS
from cacheproof.prove.proof import DEFINED, Invariant, Law, Proof, demand_claims, one_step
from cacheproof.prove.prover import prove
from cacheproof.prove.solvers import satisfiable
from cacheproof.prove.witness import Example
from cachespec.kernel import FROZEN, Operation
from cachespec.object_store import COMPONENT
from cachespec.object_store.view import view


def of_state(claim: Invariant) -> Law:
    """The claim, of the state after each step."""
    return Law(claim.name, claim.statement, EVERY_CALL, lambda move: claim.holds(move.config, move.after))


def only(proof: Proof, name: str) -> Proof:
    """The proof of this claim alone. Nothing is assumed of the state before: a reachable one is given."""
    claims = [*map(of_state, proof.invariants), *proof.laws]
    return replace(proof, given=(), invariants=(), laws=tuple(claim for claim in claims if claim.name == name))


def is_false(proof: Proof, claim: str, operation: type[Operation], example: Example) -> bool:
    """Whether the claim does not hold of this step."""
    for path in explore(lambda: demand_claims(proof, one_step(proof, operation, example))):
        for demand in (one for one in path.demands if one.name == claim):
            if satisfiable((*demand.assumptions, z3.Not(demand.formula))):
                return True
    return False


def steps_for(proof: Proof, bug: Bug, operation: type[Operation]) -> list[Example]:
    """The last step of the bug's trace, or steps of the witnesses; all are reachable without the bug."""
    if bug.refuted not in TRACES:
        return list(reachable("object_store", PROOFS.index(proof))[operation])
    config, (*earlier, last) = TRACES[bug.refuted]
    store = PROOF.variant.initial(config, FROZEN)
    for call in earlier:
        store, _ = PROOF.variant.step(config, store, call)
    return [(config, store, last)]


def is_refuted(proof: Proof, bug: Bug) -> bool:
    """Whether the claim is false on some step that is reachable without the bug."""
    claim, _, place = bug.refuted.rpartition("/")
    (operation,) = (one for one in proof.operations() if one.wire_name() == place)
    steps, alone = steps_for(proof, bug, operation), only(proof, claim)
    with planted(bug.change), followed(proof.modules, (), proof.replaced):
        return any(is_false(alone, claim, operation, step) for step in steps)


@pytest.mark.parametrize("bug", BUGS, ids=identified)
def test_a_planted_bug_is_refuted(bug: Bug) -> None:
    assert is_refuted(PROOF, bug)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("bug", BUGS, ids=identified)
def test_what_a_bug_makes_false_is_not_proved(bug: Bug) -> None:
    """The claim, the loops or the definedness of the call: mostly because no answer comes in time."""
    claim, _, place = bug.refuted.rpartition("/")
    steps = reachable_for(PROOF)
    with planted(bug.change):
        rows = (
            prove(PROOF, ask_second=False, only=f"{row}/{place}", reachable=steps) for row in (claim, "loops", DEFINED)
        )
        verdicts = [finding.verdict for findings in rows for finding in findings]
    assert Verdict.VACUOUS not in verdicts
    assert any(verdict is not Verdict.PROVED for verdict in verdicts)


@pytest.mark.parametrize("bug", OF_THE_SEARCH, ids=identified)
def test_a_bug_of_the_search_is_refuted(bug: Bug) -> None:
    assert is_refuted(WALKS, bug)


def test_every_claim_has_a_bug() -> None:
    assert not claims_without_a_bug(PROOF, BUGS)
    assert not claims_without_a_bug(WALKS, OF_THE_SEARCH)


STATES = {rule.name: rule for rule in COMPONENT.safety}
STEPS = {rule.name: rule for rule in COMPONENT.steps}


def keeps_the_property(name: str, example: Example) -> bool:
    """Whether the step keeps the property of this name, as the specification says it."""
    config, before, operation = example
    after, outcome = PROOF.variant.step(config, before, operation)
    was, has = view(config, before), view(config, after)
    if name in STATES:
        return STATES[name].holds(config, has)
    return STEPS[name].holds(config, was, operation, outcome, has)


@pytest.mark.parametrize(
    "bug", [bug for bug in BUGS if bug.refuted.rpartition("/")[0] in {**STATES, **STEPS}], ids=identified
)
def test_a_step_that_breaks_the_property_breaks_the_claim(bug: Bug) -> None:
    """So the claim says at least what the property says: of a state, the claims of states together."""
    name, _, place = bug.refuted.rpartition("/")
    (operation,) = (one for one in PROOF.operations() if one.wire_name() == place)
    claims = [name, *(claim.name for claim in PROOF.invariants)] if name in STATES else [name]
    with planted(bug.change):
        broken = [step for step in steps_for(PROOF, bug, operation) if not keeps_the_property(name, step)]
        with followed(PROOF.modules, (), PROOF.replaced):
            for step in broken[:FEW]:
                assert any(is_false(only(PROOF, claim), claim, operation, step) for claim in claims)
    assert broken or name in STRONGER


FEW = 5
STRONGER = ("SHM-3", "SHM-11")
"""Claims about tickets: a step that breaks them breaks the property only after a worker has acknowledged."""


def test_the_statements_are_those_of_the_properties() -> None:
    """A claim with the name of a property has its statement."""
    spoken = {name: rule.statement for name, rule in STATES.items()}
    spoken |= {name: rule.statement for name, rule in STEPS.items()}
    claims = [(one.name, one.statement) for one in PROOF.invariants] + [(one.name, one.statement) for one in PROOF.laws]
    assert all(spoken.get(name, statement) == statement for name, statement in claims)
