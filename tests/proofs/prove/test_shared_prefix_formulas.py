"""A claim about shared prefixes says the same as the property of its name, on every state and step that is tried."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types
from tests.proofs.prove import test_formulas

from cacheproof.prove.arithmetic import blocks_are_within, define_blocks, is_shown, prefix_ends_before, use
from cacheproof.prove.executor import NotFollowedError, Path, both, following, implies
from cacheproof.prove.lines import Shares
from cacheproof.prove.obligations.shared_prefix import PROOF, REPORTED
from cacheproof.prove.proof import Law, Move, Proof, lifted
from cacheproof.prove.solvers import satisfiable
from cachespec.kernel import FROZEN, REFUSED, Operation, Outcome
from cachespec.shared_prefix import COMPONENT, Config, Finish
from cachespec.shared_prefix.state import State

CONFIG = Config(batch_tokens=3, block_size=2, sequences=2, prompts=(4,), items=(((0, 1, 3),),), requests=(0, 0, 0))

ONE_IN = 3
"""Of the steps one in so many is looked at."""

Taken = tuple[Any, Operation, Outcome, Any]
"""The state before, the operation, its outcome, and the state after."""


def disturbed(state: State) -> Iterator[State]:
    """The state with a queue or one number wrong."""
    yield state._replace(waiting=state.waiting[::-1])
    yield state._replace(running=state.running[1:])
    yield state._replace(waiting=(*state.waiting, *state.running[:1]))
    for name in ("status", "computed", "reach"):
        values = getattr(state, name)
        for place, value in enumerate(values):
            for wrong in (value + 1, -1):
                changed: Any = {name: (*values[:place], wrong, *values[place + 1 :])}
                yield state._replace(**changed)


def told_otherwise(outcome: Outcome) -> Iterator[Outcome]:
    """Another code, and counts or requests that are wrong."""
    yield REFUSED
    values = outcome.values
    if values:
        yield outcome._replace(values=values[2:])
        yield outcome._replace(values=(*values[2:], *values[:2]))
        for count in (0, -1, values[1] + 1, 9):
            yield outcome._replace(values=(values[0], count, *values[2:]))


def steps() -> Iterator[Taken]:
    """Steps of the specification, each with what may be wrong about it."""
    variant = COMPONENT.normative
    for before in test_formulas.states(variant, CONFIG):
        for operation in (*variant.alphabet(CONFIG, before), Finish(2)):
            after, outcome = variant.step(CONFIG, before, operation)
            yield before, operation, outcome, after
            yield from ((before, operation, outcome, wrong) for wrong in disturbed(after))
            yield from ((before, operation, wrong, after) for wrong in told_otherwise(outcome))


@pytest.mark.parametrize("name", ["SCH-2", "SCH-6"])
def test_the_formula_is_the_property(name: str) -> None:
    (rule,) = (one for one in COMPONENT.safety if one.name == name)
    answers = set()
    for reached in test_formulas.states(COMPONENT.normative, CONFIG):
        for state in (reached, *disturbed(reached)):
            expected = rule.holds(CONFIG, COMPONENT.normative.view(CONFIG, state))
            assert test_formulas.says(PROOF, name, CONFIG, state) == expected, state
            answers.add(expected)
    assert answers == {True, False}


def says(proof: Proof, law: Law, step: Taken) -> bool:
    """Whether the law holds of the step; it says nothing of other operations than its own."""
    before, operation, outcome, after = step
    if type(operation) not in law.operations:
        return True
    with following(Path()) as path:
        known = proof.lift(Config, CONFIG)
        define_blocks(known.block_size.term, *(z3.IntVal(tokens) for tokens in range(-2, 8)))
        values: Any = Shares.of(outcome.values)
        move = Move(
            known,
            lifted(proof, known, before),
            proof.lift(type(operation), operation),
            outcome._replace(values=values) if operation.wire_name() == "step" else outcome,
            lifted(proof, known, after),
        )
        formula = implies(both(law.when(move)), law.then(move)).term
        return not satisfiable((*path.assumptions, z3.Not(formula)))


@pytest.mark.parametrize("law", [*PROOF.laws, *REPORTED.laws], ids=lambda law: law.name)
def test_the_law_is_the_property(law: Law) -> None:
    (rule,) = (one for one in COMPONENT.steps if one.name == law.name)
    proof, view, answers = REPORTED if law in REPORTED.laws else PROOF, COMPONENT.normative.view, set()
    taken = islice(unreported() if proof is REPORTED else steps(), None, None, ONE_IN)
    for before, operation, outcome, after in taken:
        expected = rule.holds(CONFIG, view(CONFIG, before), operation, outcome, view(CONFIG, after))
        assert says(proof, law, (before, operation, outcome, after)) == expected, (operation, outcome, before, after)
        answers.add(expected)
    assert answers == {True, False}


def unreported() -> Iterator[Taken]:
    """Some steps, each with an eviction that was not reported."""
    for before, operation, outcome, after in steps():
        yield before, operation, outcome, after
        freed = FROZEN.queue().push(0, 2)
        yield before, operation, outcome, after._replace(encoder=after.encoder._replace(freed=freed))


def test_facts_of_arithmetic_are_shown() -> None:
    assert is_shown(blocks_are_within, 2)
    assert is_shown(prefix_ends_before, 3)
    assert not is_shown(lambda size, tokens: tokens / size * size == tokens, 2)


def test_a_fact_that_is_none_is_refused() -> None:
    with following(Path()), pytest.raises(NotFollowedError):
        use(lambda number: number > 0, z3.Int("number"))
