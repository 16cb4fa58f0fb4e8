"""SHM-1 as it is proved of the ring is SHM-1 as it is explored."""

from __future__ import annotations

from collections.abc import Iterator

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import Path, following
from cacheproof.prove.obligations.ring import PROOF
from cacheproof.prove.proof import lifted
from cacheproof.prove.solvers import satisfiable
from cachespec.kernel import FROZEN
from cachespec.ring import COMPONENT, Config, Segment, initial, view
from cachespec.ring.operations import Allocate, Free, Read

NINE = Config(capacity=9, modulus=4, sizes=(1, 2))


def segments() -> Iterator[Segment]:
    """Two chunks, the younger one in the second lap; then with each of their addresses moved by some units."""
    segment = initial(NINE, FROZEN)
    first, second = (Read(0, 1, 0, 0, 0), Read(0, 1, 1, 4, 0))
    for operation in (Allocate(1), Allocate(1), first, Free(1), Allocate(0), second, Free(1), Allocate(1)):
        segment, _ = COMPONENT.normative.step(NINE, segment, operation)
        yield segment
    for identity, address in segment.ring.starts.items():
        for moved in range(18):
            ring = segment.ring._replace(starts=segment.ring.starts.set(identity, (address + moved) % 18))
            yield segment._replace(ring=ring)


def test_the_formula_is_the_property() -> None:
    (claim,) = (one for one in PROOF.invariants if one.name == "SHM-1")
    (spoken,) = (one for one in COMPONENT.safety if one.name == "SHM-1")
    answers = set()
    for segment in segments():
        with following(Path()) as path:
            known = PROOF.lift(PROOF.config, NINE)
            formula = claim.holds(known, lifted(PROOF, known, segment)).term
            said = not satisfiable((*path.assumptions, z3.Not(formula)))
        assert said == spoken.holds(NINE, view(NINE, segment)), segment
        answers.add(said)
    assert answers == {True, False}
