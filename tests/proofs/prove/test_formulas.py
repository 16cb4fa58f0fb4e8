"""A claim of the same name says the same in the proof and in the specification, on every state that is tried."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.model.registry import AnyVariant, component_named
from cacheproof.prove.executor import Path, both, following
from cacheproof.prove.obligations import configuration, encoder_cache, lru
from cacheproof.prove.proof import Proof, lifted
from cacheproof.prove.solvers import satisfiable
from cachespec.configuration import SAFETY
from cachespec.kernel import FROZEN

STATES = 40


def states(variant: AnyVariant, config: Any) -> Iterator[Any]:
    """States of the variant, breadth first; those of eras break properties."""
    start = variant.initial(config, FROZEN)
    seen, waiting = {start}, [start]
    while waiting and len(seen) < STATES:
        state = waiting.pop(0)
        yield state
        following_step = variant.continuation(config, state)
        for operation in [following_step] if following_step else variant.alphabet(config, state):
            after, _ = variant.step(config, state, operation)
            if after not in seen:
                seen.add(after)
                waiting.append(after)


def disturbed(state: Any) -> Iterator[Any]:
    """The state, and the state with one of its counts wrong."""
    yield state
    for name in state._fields:
        if type(getattr(state, name)) is int and name not in ("doing", "putting", "putting_size"):
            yield state._replace(**{name: getattr(state, name) + 1})


def says(proof: Proof, name: str, config: Any, state: Any) -> bool:
    """Whether the proof's formula of this name holds in the state."""
    (invariant,) = (one for one in proof.invariants if one.name == name)
    with following(Path()) as path:
        known = proof.lift(proof.config, config)
        formula = both(invariant.holds(known, lifted(proof, known, state))).term
        return not satisfiable((*path.assumptions, z3.Not(formula)))


CASES = [
    *((lru.PROOF, tag, name) for tag in ("normative", "M2") for name in ("LRU-1", "LRU-2", "LRU-4")),
    *((encoder_cache.PROOF, "normative", name) for name in ("ENC-1", "ENC-2", "ENC-2/freeable")),
    *((configuration.PROOF, tag, rule.name) for tag in ("normative", "M1") for rule in SAFETY),
]


@pytest.mark.parametrize(("proof", "tag", "name"), CASES, ids=lambda value: getattr(value, "component", str(value)))
def test_the_formula_is_the_property(proof: Proof, tag: str, name: str) -> None:
    component = component_named(proof.component)
    variant = component.variants[tag]
    (rule,) = (one for one in component.safety if one.name == name)
    config, answers = proof.witnesses[0], set()
    for state in (one for reached in states(variant, config) for one in disturbed(reached)):
        expected = rule.holds(config, variant.view(config, state))
        assert says(proof, name, config, state) == expected
        answers.add(expected)
    assert answers == ({True, False} if tag == "M2" or name != "LRU-1" else {True})
