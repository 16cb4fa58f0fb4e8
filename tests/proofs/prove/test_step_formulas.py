"""A law of the name of a property says the same as the property, on every step that is tried."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types
from tests.proofs.prove.test_formulas import disturbed, states

from cacheproof.model.registry import AnyVariant, component_named
from cacheproof.prove.executor import Path, both, following, implies
from cacheproof.prove.obligations import configuration
from cacheproof.prove.proof import Move, Proof, lifted
from cacheproof.prove.solvers import satisfiable
from cachespec.configuration import Config
from cachespec.kernel import REFUSED, Operation, Outcome

FEW = Config(multimodal=(0, 1), gigabytes=(4,), api_processes=(1, 2), engines=(1,), external=(0,))

Taken = tuple[Any, Operation, Outcome, Any]
"""The state before, the operation, its outcome, and the state after."""


def steps(variant: AnyVariant, config: Any) -> Iterator[Taken]:
    """Steps of the variant; then each with another outcome, or with one number of the later state wrong."""
    for before in states(variant, config):
        for operation in variant.alphabet(config, before):
            after, outcome = variant.step(config, before, operation)
            yield from ((before, operation, outcome, wrong) for wrong in disturbed(after))
            yield before, operation, REFUSED, after


def says(proof: Proof, name: str, config: Any, step: Taken) -> bool:
    """Whether the law of this name holds of the step; it says nothing of other operations than its own."""
    before, operation, outcome, after = step
    (law,) = (one for one in proof.laws if one.name == name)
    if type(operation) not in law.operations:
        return True
    with following(Path()) as path:
        known = proof.lift(proof.config, config)
        move = Move(
            known,
            lifted(proof, known, before),
            proof.lift(type(operation), operation),
            outcome,
            lifted(proof, known, after),
        )
        formula = implies(both(law.when(move)), law.then(move)).term
        return not satisfiable((*path.assumptions, z3.Not(formula)))


@pytest.mark.parametrize("tag", ["normative", "M1"])
@pytest.mark.parametrize("name", ["X-5/type", "X-5/asked"])
def test_the_law_is_the_property(tag: str, name: str) -> None:
    component, config = component_named("configuration"), FEW
    variant, answers = component.variants[tag], set()
    (rule,) = (one for one in component.steps if one.name == name)
    for before, operation, outcome, after in steps(variant, config):
        expected = rule.holds(config, variant.view(config, before), operation, outcome, variant.view(config, after))
        assert says(configuration.PROOF, name, config, (before, operation, outcome, after)) == expected
        answers.add(expected)
    assert answers == {True, False}
