"""Every small change of a transition makes some obligation fail, or there is a reason why none does."""

from __future__ import annotations

import inspect
from contextlib import closing
from types import FunctionType, ModuleType

import pytest
from tests.proofs.prove.mutants import Mutant, mutants_of
from tests.proofs.prove.planted import reachable

from cacheproof.model.rewriting import rewritten
from cacheproof.prove import solvers
from cacheproof.prove.obligations import encoder_cache as encoder_cache_obligations
from cacheproof.prove.obligations import lru as lru_obligations
from cacheproof.prove.obligations import mirror as mirror_obligations
from cacheproof.prove.proof import Proof
from cacheproof.prove.prover import prove
from cachespec.encoder_cache import transitions as encoder_cache_transitions
from cachespec.lru import transitions as lru_transitions
from cachespec.mirror import protocol

UNREAD = "no transition reads it where no call is in progress"
ATTEMPTS = "what an attempt has pinned is history of the pass: ENC-11 is explored, not proved"
REPAIR = "whether and when a repair begins is a matter of progress: explored, not proved"
VOID = "messages of an older generation of the same epoch say the same: what MIR-10 costs is explored, not proved"

SURVIVORS = {
    "lru": {"finished: putting_size is not updated": UNREAD},
    "encoder_cache": {"release: attempted is not updated": ATTEMPTS},
    "mirror": {
        "receive: generation is not updated": VOID,
        "go_back: sent is not updated": REPAIR,
        "answered: or becomes and": REPAIR,
        "answered: == becomes !=": REPAIR,
        "answered: != becomes ==": REPAIR,
        "answered: joined is not updated": REPAIR,
    },
}

CASES: tuple[tuple[Proof, ModuleType], ...] = (
    (lru_obligations.PROOF, lru_transitions),
    (encoder_cache_obligations.PROOF, encoder_cache_transitions),
    (mirror_obligations.PROOF, protocol),
)


def survives(proof: Proof, mutant: Mutant) -> bool:
    """Whether every obligation is still as required."""
    known = reachable(proof.component)
    with (
        rewritten(mutant.function, mutant.tree),
        closing(prove(proof, ask_second=False, reachable=known)) as findings,
    ):
        return all(finding.good for finding in findings)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("proof", "module"), CASES, ids=[proof.component for proof, _ in CASES])
def test_every_mutant_is_killed_or_excused(proof: Proof, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "PATIENT_MILLISECONDS", 1)
    reachable(proof.component)
    own = [value for value in vars(module).values() if isinstance(value, FunctionType)]
    functions = [function for function in own if inspect.getmodule(function) is module]
    mutants = [mutant for function in functions for mutant in mutants_of(function)]
    assert len(mutants) > 20
    alive = {mutant.name.partition(" (line")[0] for mutant in mutants if survives(proof, mutant)}
    assert alive == set(SURVIVORS[proof.component])
