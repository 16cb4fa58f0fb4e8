"""`status --properties`: the strongest word for each property, and none that the evidence does not have."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from cacheproof.command.frame import dispatch
from cacheproof.foundation.errors import ExitStatus
from cacheproof.model.registry import component_named, components
from cacheproof.model.scope import scopes_of
from cacheproof.present import strength
from cacheproof.present.strength import CONFIRMED, EXPLORED, PROVED, known_of
from cacheproof.prove.session import PROOFS

LRU = component_named("lru")


def strengths() -> dict[str, str]:
    """Of each property of `lru`."""
    return {one.name: one.strength for one in known_of(LRU)}


def test_every_property_is_there_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["status", "--properties", "--json"]) is ExitStatus.AS_EXPECTED
    shown = json.loads(capsys.readouterr().out)
    names = [(one["component"], one["name"]) for one in shown["properties"]]
    assert names == [(each.name, rule.name) for each in components("").values() for rule in each.properties()]
    assert sum(shown["counts"].values()) == len(names)
    assert shown["counts"][PROVED] + shown["counts"][CONFIRMED] >= 200


def test_a_claim_of_a_proof_is_the_strongest() -> None:
    known = strengths()
    assert (known["LRU-1"], known["LRU-7/needed"], known["LRU-3/kept"]) == (PROVED, CONFIRMED, EXPLORED)


def test_what_no_region_reaches_is_only_explored(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tuple(
        scope
        if scope.numbers is None
        else replace(scope, numbers=msgspec.structs.replace(scope.numbers, unreached=("LRU-7/needed",)))
        for scope in scopes_of(LRU)
    )
    monkeypatch.setattr(strength, "scopes_of", lambda component: changed)
    assert strengths()["LRU-7/needed"] == EXPLORED


def test_a_scope_without_accepted_counts_confirms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tuple(
        scope if scope.numbers is None else replace(scope, numbers=msgspec.structs.replace(scope.numbers, regions=None))
        for scope in scopes_of(LRU)
    )
    monkeypatch.setattr(strength, "scopes_of", lambda component: changed)
    assert CONFIRMED not in strengths().values()


def test_a_step_by_hand_is_said_of_the_component_and_of_what_contains_it() -> None:
    store, engine = ({one.name: one for one in known_of(component_named(name))} for name in ("object_store", "engine"))
    said = "one step by hand: a chunk has at most one acknowledgement for each ticket and worker"
    assert store["SHM-3"] == ("object_store", "SHM-3", PROVED, said)
    assert engine["SHM-3"] == ("engine", "SHM-3", PROVED, f"of its part `object_store`; {said}")
    assert store["SHM-4"].how == ""


def test_what_is_by_hand_is_a_property_and_a_claim() -> None:
    for name, proofs in PROOFS.items():
        properties = {rule.name for rule in component_named(name).properties()}
        for proof in proofs:
            claims = {one.name for one in proof.invariants} | {one.name for one in proof.laws}
            assert set(proof.by_hand) <= claims & properties
    assert any(proof.by_hand for proofs in PROOFS.values() for proof in proofs)
