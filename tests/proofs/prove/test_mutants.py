"""With each mutant of `mutants.py`, some obligation is not proved any more, or there is a reason why all still are."""

from __future__ import annotations

import inspect
from contextlib import closing
from types import FunctionType, ModuleType

import pytest
from tests.proofs.prove.mutants import Mutant, mutants_of
from tests.proofs.prove.planted import reachable_for

from cacheproof.model.rewriting import rewritten
from cacheproof.prove import solvers
from cacheproof.prove.proof import Proof
from cacheproof.prove.prover import prove
from cacheproof.prove.session import PROOFS
from cacheproof.prove.witness import Examples
from cachespec.encoder_cache import transitions as encoder_cache_transitions
from cachespec.lru import transitions as lru_transitions
from cachespec.mirror import protocol

UNREAD = "no transition reads it where no call is in progress"
ATTEMPTS = "what an attempt has pinned is history of the pass: ENC-11 is explored, not proved"
VOID = "messages of an older generation of the same epoch say the same: what MIR-10 costs is explored, not proved"

SURVIVORS = {
    "lru": {"finished: putting_size is not updated": UNREAD},
    "encoder_cache": {"release: attempted is not updated": ATTEMPTS},
    "mirror": {"receive: generation is not updated": VOID},
}

CASES: tuple[tuple[str, ModuleType], ...] = (
    ("lru", lru_transitions),
    ("encoder_cache", encoder_cache_transitions),
    ("mirror", protocol),
)


def survives(component: str, mutant: Mutant) -> bool:
    """Whether every obligation of every proof is still as required."""
    steps = [(proof, reachable_for(proof)) for proof in PROOFS[component]]
    with rewritten(mutant.function, mutant.tree):
        return all(holds(proof, known) for proof, known in steps)


def holds(proof: Proof, known: Examples) -> bool:
    """Whether every obligation of the proof is as required."""
    with closing(prove(proof, ask_second=False, reachable=known)) as findings:
        return all(finding.good for finding in findings)


def by_name(module: ModuleType) -> dict[str, list[Mutant]]:
    """The mutants of the functions that a module defines; those that differ in the line only have one name."""
    own = [value for value in vars(module).values() if isinstance(value, FunctionType)]
    functions = [function for function in own if inspect.getmodule(function) is module]
    mutants: dict[str, list[Mutant]] = {}
    for function in functions:
        for mutant in mutants_of(function):
            mutants.setdefault(mutant.name.partition(" (line")[0], []).append(mutant)
    return mutants


MUTANTS = {component: by_name(module) for component, module in CASES}


@pytest.mark.parametrize("component", MUTANTS)
def test_there_are_mutants_and_every_excused_one_is_among_them(component: str) -> None:
    assert len(MUTANTS[component]) > 20
    assert set(SURVIVORS[component]) <= set(MUTANTS[component])


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("component", "name"),
    [pytest.param(component, name, id=f"{component}, {name}") for component in MUTANTS for name in MUTANTS[component]],
)
def test_a_mutant_is_killed_or_excused(component: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "PATIENT", len(solvers.SEEDS))
    alive = any(survives(component, mutant) for mutant in MUTANTS[component][name])
    assert alive == (name in SURVIVORS[component])
