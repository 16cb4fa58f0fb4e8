"""Each claim about the books of the object store fails on a bug that is made for it."""

from __future__ import annotations

import pytest
from tests.proofs.prove.planted import Bug, found, identified, planted, reachable

from cacheproof.prove.finding import Verdict
from cacheproof.prove.obligations.object_store import PROOF
from cachespec.object_store import accounting

BUGS = (
    Bug(
        accounting.issue,
        "store.issued.get(identity, 0) + 1",
        "store.issued.get(identity, 0)",
        "SHM-3/tickets/issue",
    ),
    Bug(
        accounting.settle,
        "tickets=store.tickets.remove(slot)",
        "tickets=store.tickets",
        "SHM-3/tickets/settle",
    ),
    Bug(
        accounting.settle,
        "    if not store.tickets.has(slot):\n        return store\n",
        "",
        "SHM-3/tickets/settle",
    ),
    Bug(accounting.may_go, "store.issued.get(identity, 0) == 0", "True", "SHM-2/gone/forget"),
    Bug(accounting.forget, "epochs=left.epochs.remove(identity)", "epochs=left.epochs", "SHM-4/tables/forget"),
    Bug(accounting.enter, "issued=store.issued.set(identity, 0)", "issued=store.issued", "SHM-4/tables/enter"),
    Bug(accounting.enter, "store.epoch + 1 if identity == 0", "store.epoch - 1 if identity == 0", "SHM-5/epoch/enter"),
)


@pytest.mark.parametrize("bug", BUGS, ids=identified)
def test_a_planted_bug_is_refuted(bug: Bug) -> None:
    reachable("object_store")
    with planted(bug):
        finding = found(PROOF, bug.refuted)
    assert finding.verdict is Verdict.REFUTED
    assert finding.detail


def test_every_claim_has_a_bug() -> None:
    claims = {invariant.name for invariant in PROOF.invariants} | {law.name for law in PROOF.laws}
    assert claims <= {bug.refuted.rpartition("/")[0] for bug in BUGS}
