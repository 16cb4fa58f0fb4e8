"""Each claim about the ring fails on a bug that is made for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types
from tests.proofs.prove.planted import Bug, found, identified, planted, reachable

from cacheproof.prove.executor import Path, following
from cacheproof.prove.finding import Verdict
from cacheproof.prove.obligations.ring import PROOF
from cacheproof.prove.proof import lifted
from cacheproof.prove.solvers import satisfiable
from cachespec.kernel import FROZEN
from cachespec.ring import COMPONENT, Config, Segment, chunks, initial, transitions, view
from cachespec.ring.operations import Allocate, Free, Read

BUGS = (
    Bug(chunks.candidate, "<= config.capacity", "<= config.capacity + 1", "SHM-1/allocate"),
    Bug(chunks.reserve, "> config.capacity or", "> config.capacity + 1 or", "SHM-1/allocate"),
    Bug(chunks.reserve, "end=address + total", "end=address + payload", "SHM-1/extent/allocate"),
    Bug(chunks.reserve, " or ring.starts.has(ring.id_end)", "", "SHM-5/allocate"),
    Bug(chunks.reserve, "id_end=successor(config, ring.id_end)", "id_end=ring.id_end", "SHM-4/ids/allocate"),
    Bug(
        chunks.reserve,
        "ring.starts.set(ring.id_end, address)",
        "ring.starts.set(ring.id_end, 0)",
        "SHM-6/order/allocate",
    ),
    Bug(chunks.candidate, "<= config.capacity", "< config.capacity", "fits/allocate"),
    Bug(chunks.rebased, "start=ring.start - config.capacity", "start=ring.start", "SHM-1/lap/free"),
    Bug(chunks.without_oldest, "ahead + config.capacity", "ahead", "loops/free"),
    Bug(chunks.without_oldest, "start=0, end=0", "start=0", "loops/free"),
    Bug(transitions.may_go, "not segment.unanswered.has(identity)", "True", "loops/free"),
    Bug(
        transitions.free, "segment._replace(ring=ring)", "segment._replace(ring=ring._replace(id_end=0))", "SHM-6/free"
    ),
    Bug(
        transitions.clear,
        "segment._replace(ring=ring)",
        "segment._replace(ring=ring._replace(starts=ring.starts.remove(ring.id_start)))",
        "SHM-2/freed/clear",
    ),
    Bug(
        transitions.allocate, "return segment, outcome", "return segment._replace(number=1), outcome", "SHM-7/allocate"
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=identified)
def test_a_planted_bug_is_refuted(bug: Bug) -> None:
    reachable("ring")
    with planted(bug):
        finding = found(PROOF, bug.refuted)
    assert finding.verdict is Verdict.REFUTED
    assert finding.detail


def test_every_claim_has_a_bug() -> None:
    claims = {invariant.name for invariant in PROOF.invariants} | {law.name for law in PROOF.laws}
    assert claims <= {bug.refuted.rpartition("/")[0] for bug in BUGS}


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
