"""A claim about a publication says the same as the property of its name, on every state and step that is tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types
from tests.proofs.prove.test_formulas import says as says_of_a_state

from cacheproof.prove.executor import Path, both, following, implies
from cacheproof.prove.obligations.publication import PROOF
from cacheproof.prove.proof import Law, Move, lifted
from cacheproof.prove.solvers import satisfiable
from cachespec.kernel import FROZEN, REFUSED, Code, Operation, Outcome
from cachespec.publication import COMPONENT, Config, Exchange
from cachespec.publication.operations import (
    Acknowledge,
    Allocate,
    Appear,
    Clear,
    Copy,
    Free,
    Open,
    Publish,
    ReaderDies,
    Restart,
    WriteCounts,
    WriteData,
    WriteHeader,
)
from cachespec.publication.state import NONE, Reading

CONFIG = Config(capacity=11, modulus=3, sizes=(2, 1), readers=2, outstanding=4, clears=1, deaths=1, restarts=1)
WRITTEN = (Allocate(0), WriteHeader(), WriteCounts(), WriteData(), Publish(), Appear(1), *[Appear(0)] * 5, Publish())
READ = (Open(0), Copy(0), Copy(0), Acknowledge(0), Open(1), Free(), Copy(1), Acknowledge(0))
SHORT = (Allocate(1), WriteHeader(), Appear(0), WriteCounts(), WriteData(), *[Appear(0)] * 4, Publish(), Allocate(0))
REST = (Copy(1), Acknowledge(1), Free(), Open(0), ReaderDies(1), Copy(0), Acknowledge(0), Clear(), *WRITTEN)
ENDED = (Open(0), Copy(0), Restart(), Acknowledge(0), Open(1), Publish(), Appear(4), *WRITTEN, Open(0), ReaderDies(0))
SCRIPT: tuple[Operation, ...] = (*WRITTEN, *READ, *SHORT, *REST, *ENDED)
"""Two chunks, read and given up; a writer that dies while one is read; and a chunk after that."""

FEW = 15
"""The number of states or steps that satisfy a property, and of others that do not; each is looked at."""

VIEW = COMPONENT.normative.view

Taken = tuple[Exchange, Operation, Outcome, Exchange]
"""The state before, the operation, its outcome, and the state after."""


def script() -> Iterator[Taken]:
    """The steps of the specification."""
    before = COMPONENT.normative.initial(CONFIG, FROZEN)
    for operation in SCRIPT:
        after, outcome = COMPONENT.normative.step(CONFIG, before, operation)
        yield before, operation, outcome, after
        before = after


def disturbed(exchange: Exchange) -> Iterator[Exchange]:
    """One part wrong: a unit, a store, the writer, a reader, a table, or the chunks."""
    yield exchange
    for unit in range(CONFIG.capacity):
        yield exchange._replace(memory=exchange.memory.set(unit, exchange.memory.get(unit, 0) + 1))
    pending = exchange.pending
    for wrong in (pending[1:], pending[::-1], (*pending, (0, 1)), pending[:-1]):
        yield exchange._replace(pending=wrong)
    writing = exchange.writing
    yield exchange._replace(writing=writing._replace(stage=writing.stage + 1))
    yield exchange._replace(writing=writing._replace(handle=(1, *writing.handle[1:])))
    yield exchange._replace(number=exchange.number + 1)
    yield exchange._replace(given_up=exchange.given_up.set((0, 1), 1))
    yield exchange._replace(given_up=exchange.given_up.remove((0, 1)))
    for place, reading in enumerate(exchange.readers):
        for other in elsewhere(reading):
            readers = (*exchange.readers[:place], other, *exchange.readers[place + 1 :])
            yield exchange._replace(readers=readers)
    yield from otherwise_chunked(exchange)


def elsewhere(reading: Reading) -> Iterator[Reading]:
    """A reader that has something else."""
    yield reading._replace(handles=reading.handles[1:])
    yield reading._replace(opened=NONE)
    yield reading._replace(size=reading.size + 1)
    yield reading._replace(units=(*reading.units, 1))
    content, identity, at, number = reading.opened
    yield reading._replace(opened=(content, identity, at + 1, number))


def otherwise_chunked(exchange: Exchange) -> Iterator[Exchange]:
    """A chunk that is missing, moved, or known for something else."""
    ring = exchange.ring
    for identity, start in ring.starts.items():
        yield exchange._replace(contents=exchange.contents.remove(identity))
        yield exchange._replace(contents=exchange.contents.set(identity, 1 - exchange.contents.get(identity, 0)))
        yield exchange._replace(ring=ring._replace(starts=ring.starts.set(identity, (start + 1) % 22)))
        yield exchange._replace(ring=ring._replace(starts=ring.starts.remove(identity)))


@pytest.mark.parametrize("name", [rule.name for rule in COMPONENT.safety])
def test_the_formula_is_the_property(name: str) -> None:
    (rule,) = (one for one in COMPONENT.safety if one.name == name)
    (claim,) = (one for one in PROOF.invariants if one.name == name)
    assert claim.statement == rule.statement
    states = [one for _, _, _, after in script() for one in disturbed(after)]
    for state, expected in few(states, lambda state: rule.holds(CONFIG, VIEW(CONFIG, state))):
        assert says_of_a_state(PROOF, name, CONFIG, state) == expected, state


def told_otherwise(outcome: Outcome) -> Iterator[Outcome]:
    """Another code, or other values."""
    yield REFUSED
    yield outcome._replace(code=Code.ABSENT)
    if outcome.code is Code.HIT:
        yield outcome._replace(values=(*outcome.values, 1))


def steps(law: Law) -> Iterator[Taken]:
    """Steps with the operations of the law, each with what may be wrong about it."""
    for before, operation, outcome, after in script():
        if type(operation) in law.operations:
            yield from ((before, operation, outcome, wrong) for wrong in disturbed(after))
            yield from ((before, operation, wrong, after) for wrong in told_otherwise(outcome))


def few(cases: Iterable[Any], holds: Callable[[Any], bool]) -> Iterator[tuple[Any, bool]]:
    """Some cases of which it holds, and some of which it does not, from everywhere in the list."""
    parts: dict[bool, list[Any]] = {True: [], False: []}
    for case in cases:
        parts[holds(case)].append(case)
    for expected, part in parts.items():
        assert part
        yield from ((case, expected) for case in part[:: max(1, len(part) // FEW)])


def says(law: Law, step: Taken) -> bool:
    """Whether the law holds of the step."""
    before, operation, outcome, after = step
    with following(Path()) as path:
        known = PROOF.lift(Config, CONFIG)
        move = Move(
            known,
            lifted(PROOF, known, before),
            PROOF.lift(type(operation), operation),
            outcome,
            lifted(PROOF, known, after),
        )
        formula: Any = implies(both(law.when(move)), law.then(move)).term
        return not satisfiable((*path.assumptions, z3.Not(formula)))


@pytest.mark.parametrize("law", PROOF.laws, ids=lambda law: law.name)
def test_the_law_is_the_property(law: Law) -> None:
    (rule,) = (one for one in COMPONENT.steps if one.name == law.name)

    def holds(step: Taken) -> bool:
        before, operation, outcome, after = step
        return rule.holds(CONFIG, VIEW(CONFIG, before), operation, outcome, VIEW(CONFIG, after))

    for step, expected in few(steps(law), holds):
        assert says(law, step) == expected, step


def test_every_property_but_progress_is_claimed() -> None:
    assert {law.name for law in PROOF.laws} == {rule.name for rule in COMPONENT.steps}
    assert {rule.name for rule in COMPONENT.safety} <= {one.name for one in PROOF.invariants}
    assert {rule.name for rule in COMPONENT.progress} == {"SHM-8"}
