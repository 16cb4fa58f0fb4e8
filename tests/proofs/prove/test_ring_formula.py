"""What is proved of the ring is what is explored, by the same names: in segments that are right, and in wrong ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import Path, both, following
from cacheproof.prove.obligations.ring import PROOF
from cacheproof.prove.proof import lifted
from cacheproof.prove.solvers import satisfiable
from cachespec.kernel import FROZEN
from cachespec.ring import COMPONENT, Config, Segment, initial, view
from cachespec.ring.operations import Allocate, Free, Read

NINE = Config(capacity=9, modulus=4, sizes=(1, 2))


def segments() -> Iterator[Segment]:
    """Two chunks, the younger one in the second lap; then with one part wrong."""
    segment = initial(NINE, FROZEN)
    first, second = (Read(0, 1, 0, 0, 0), Read(0, 1, 1, 4, 0))
    for operation in (Allocate(1), Allocate(1), first, Free(1), Allocate(0), second, Free(1), Allocate(1)):
        segment, _ = COMPONENT.normative.step(NINE, segment, operation)
        yield segment
    yield from disturbed(segment)


def disturbed(segment: Segment) -> Iterator[Segment]:
    """An address moved, the window moved, an entry left out, or a handle with another content or place."""
    ring = segment.ring
    for identity, address in ring.starts.items():
        for moved in range(18):
            yield segment._replace(ring=ring._replace(starts=ring.starts.set(identity, (address + moved) % 18)))
        yield segment._replace(contents=segment.contents.remove(identity))
    for moved in (1, 9):
        yield segment._replace(ring=ring._replace(start=ring.start + moved))
        yield segment._replace(ring=ring._replace(end=ring.end + moved))
    yield segment._replace(unanswered=segment.unanswered.set(ring.id_end, 1))
    for handle in (key for key, _ in segment.handles.items()):
        reader, content, identity, place, number = handle
        for wrong in ((reader, 1 - content, identity, place, number), (reader, content, identity, place + 1, number)):
            yield segment._replace(handles=segment.handles.set(wrong, 1))


@pytest.mark.parametrize("name", ["SHM-1", "SHM-1/window", "SHM-4", "SHM-5"])
def test_the_formula_is_the_property(name: str) -> None:
    (claim,) = (one for one in PROOF.invariants if one.name == name)
    (spoken,) = (one for one in COMPONENT.safety if one.name == name)
    assert claim.statement == spoken.statement
    answers = set()
    for segment in segments():
        with following(Path()) as path:
            known = PROOF.lift(PROOF.config, NINE)
            formula = both(claim.holds(known, lifted(PROOF, known, segment))).term
            said = not satisfiable((*path.assumptions, z3.Not(formula)))
        assert said == spoken.holds(NINE, view(NINE, segment)), segment
        answers.add(said)
    assert answers == {True, False}


def test_every_property_but_progress_has_its_statement() -> None:
    """The names and statements of the claims are those of the properties."""
    claims = {(one.name, one.statement) for one in PROOF.invariants}
    claims |= {(one.name, one.statement) for one in PROOF.laws}
    assert {(rule.name, rule.statement) for rule in COMPONENT.safety} <= claims
    assert {(rule.name, rule.statement) for rule in COMPONENT.steps} <= claims
