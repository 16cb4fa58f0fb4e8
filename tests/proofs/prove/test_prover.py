"""The prover's own failures: vacuous, unknown, not followed; and what a person reads of a counterexample."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.proofs.prove.planted import found

from cacheproof.prove import solvers
from cacheproof.prove.finding import Verdict
from cacheproof.prove.loops import Loop
from cacheproof.prove.obligations import lru as obligations
from cacheproof.prove.proof import Invariant, Law
from cacheproof.prove.prover import prove
from cachespec import lru
from cachespec.kernel import ABSENT, DONE
from cachespec.lru import transitions

PROOF = obligations.PROOF


def with_law(when: Any) -> Any:
    """The proof with one law more, which holds whenever its premise does."""
    law = Law("more", "anything goes", (lru.Touch,), lambda move: True, when)
    return replace(PROOF, laws=(*PROOF.laws, law))


def test_a_law_whose_premise_can_be_met_is_proved() -> None:
    assert found(with_law(lambda move: move.before.used > 0), "more/touch").verdict is Verdict.PROVED


def test_a_law_whose_premise_is_never_met_is_vacuous() -> None:
    finding = found(with_law(lambda move: move.before.used < 0), "more/touch")
    assert finding.verdict is Verdict.VACUOUS
    assert not finding.good


def test_an_operation_that_nothing_reaches_is_vacuous() -> None:
    config = lru.Config(capacity=3, sizes=(1, 2), lookups=1, pins=0)
    unpinned = replace(PROOF, witnesses=(config,))
    verdicts = {one.name: one.verdict for one in prove(unpinned, ask_second=False, only="LRU-1/pin")}
    assert verdicts == {"LRU-1/pin": Verdict.VACUOUS}


def test_contradictory_invariants_are_vacuous() -> None:
    never = Invariant("never", "nothing is like this", lambda config, cache: cache.used < cache.used - 1)
    finding = found(replace(PROOF, invariants=(*PROOF.invariants, never)), "LRU-1/touch")
    assert finding.verdict is Verdict.VACUOUS


def test_an_invariant_that_does_not_hold_at_the_start_is_refuted() -> None:
    busy = Invariant("busy", "something has been counted", lambda config, cache: cache.total > 0)
    finding = found(replace(PROOF, invariants=(busy,)), "busy/initial")
    assert finding.verdict is Verdict.REFUTED


def test_what_the_solver_cannot_tell_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "_within", lambda solver, steps: solvers.Answer.UNKNOWN)
    monkeypatch.setattr(solvers, "satisfiable", lambda formulas: True)
    monkeypatch.setattr("cacheproof.prove.prover.satisfiable", lambda formulas: True)
    finding = found(PROOF, "LRU-2/pop")
    assert finding.verdict is Verdict.UNKNOWN
    assert not finding.good


def test_a_second_solver_that_disagrees_is_not_overruled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cacheproof.prove.prover.second_opinion", lambda solver: solvers.Answer.FAILS)
    (finding,) = prove(PROOF, only="LRU-2/pop")
    assert finding.verdict is Verdict.UNKNOWN
    assert "contradict" in finding.detail


def test_a_second_solver_without_an_answer_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cacheproof.prove.prover.second_opinion", lambda solver: solvers.Answer.UNKNOWN)
    (finding,) = prove(PROOF, only="LRU-6/evict")
    assert finding.verdict is Verdict.PROVED
    assert finding.checks > 0
    assert finding.agreed == 0


def touch_by_listing(config: Any, cache: Any, op: lru.Touch) -> Any:
    """Does what cannot be followed."""
    return cache, DONE if op.key in [key for key, _ in cache.entries.items()] else ABSENT


def test_code_that_cannot_be_followed_is_unknown_and_says_why() -> None:
    era = PROOF.variant.era("toy", "lists", {lru.Touch: touch_by_listing}, {lru.Touch: "a test"})
    finding = found(PROOF.of(era), "LRU-1/touch")
    assert finding.verdict is Verdict.UNKNOWN
    assert "cannot be listed" in finding.detail


def test_a_loop_that_is_not_cut_is_unknown() -> None:
    finding = found(replace(PROOF, loops=()), "LRU-1/clear")
    assert finding.verdict is Verdict.UNKNOWN
    assert "needs to be cut" in finding.detail


def test_a_loop_whose_invariant_is_too_weak_is_refuted() -> None:
    weak = Loop(transitions.clear, "LRU-6", lambda entry, now: (), PROOF.loops[0].measures)
    assert found(replace(PROOF, loops=(weak,)), "LRU-1/clear").verdict is Verdict.REFUTED


def test_a_loop_whose_measure_does_not_shrink_is_refuted() -> None:
    still = replace(PROOF.loops[0], measures=(lambda local: local["cache"].hits,))
    assert found(replace(PROOF, loops=(still,)), "LRU-6/clear").verdict is Verdict.REFUTED


def test_a_counterexample_shows_state_and_operation() -> None:
    detail = found(PROOF.of(lru.GHOST), "LRU-1/touch").detail
    lines = dict(line.split(": ", 1) for line in detail.splitlines())
    assert list(lines) == ["config", "before", "operation", "outcome", "after"]
    key = lines["operation"].removeprefix("Touch(key=").removesuffix(")")
    assert f"order=[{key} (1)" in lines["after"] or f" {key} (1)]" in lines["after"]
    assert f"{key}:" not in lines["before"].partition("order=")[0]


def touch_beyond_the_end(config: Any, cache: Any, op: lru.Touch) -> Any:
    """Is not total."""
    codes = [DONE]
    return cache, codes[1]


def test_a_transition_that_raises_is_a_failure() -> None:
    era = PROOF.variant.era("toy", "raises", {lru.Touch: touch_beyond_the_end}, {lru.Touch: "a test"})
    finding = found(PROOF.of(era), "LRU-1/touch")
    assert finding.verdict is Verdict.CRASHED
    assert "IndexError" in finding.detail
