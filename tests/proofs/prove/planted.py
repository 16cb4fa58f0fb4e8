"""Bugs planted in the specification, and what the prover then says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, NamedTuple

from tests.planting import Change, planted

from cacheproof.mutants.apart import apart
from cacheproof.prove.finding import Finding, Verdict
from cacheproof.prove.proof import Proof
from cacheproof.prove.prover import prove
from cacheproof.prove.session import PROOFS
from cacheproof.prove.witness import Examples, examples

MOST_SECONDS, MOST_BYTES = 3_600.0, 1 << 36


class Bug(NamedTuple):
    """One piece of one function's text, replaced; and the obligation that must be refuted for it."""

    function: Callable[..., Any]
    right: str
    wrong: str
    refuted: str

    @property
    def change(self) -> Change:
        """What is planted."""
        return Change(self.function, self.right, self.wrong)


@cache
def reachable(component: str, number: int = 0) -> Examples:
    """Steps of the specification as it is, for one of its proofs: a planted bug may never come to an end."""
    return examples(PROOFS[component][number])


def reachable_for(proof: Proof) -> Examples:
    """The same for this proof, or for the proof of another variant with its witnesses."""
    same = (number for number, one in enumerate(PROOFS[proof.component]) if one.witnesses == proof.witnesses)
    return reachable(proof.component, next(same))


def found(proof: Proof, name: str) -> Finding:
    """The finding of this name; no second opinion is asked."""
    (finding,) = prove(proof, ask_second=False, only=name, reachable=reachable_for(proof))
    return finding


def assert_refuted(proof: Proof, bug: Bug) -> None:
    """With the bug the obligation fails, and the prover says how.

    Each bug has a process of its own: whether z3's steps suffice depends on what it was asked in its process before.
    """
    reachable_for(proof)
    with planted(bug.change):
        finding = apart(partial(found, proof, bug.refuted), MOST_SECONDS, MOST_BYTES, lambda: False)
    assert finding.verdict is Verdict.REFUTED
    assert finding.detail


def claims_without_a_bug(proof: Proof, bugs: Iterable[Bug]) -> set[str]:
    """Invariants and laws that no bug is made for."""
    claims = {invariant.name for invariant in proof.invariants} | {law.name for law in proof.laws}
    return claims - {bug.refuted.rpartition("/")[0] for bug in bugs}


def identified(bug: Bug) -> str:
    """A short name for a test."""
    return f"{bug.function.__name__}: {bug.wrong.strip() or 'nothing'} -> {bug.refuted}"
