"""Spin and TLC count the states and transitions that our engines count, on the models written by hand.

A planted difference is noticed, and so is a planted drift of the two sides, by their invariants.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cacheproof.bench import benchmarks_named
from cacheproof.bench.measure import Peers, measured
from cacheproof.bench.peers.models import Counts, PeerScope, model_text
from cacheproof.bench.peers.ours import explored, subject_of
from cacheproof.bench.peers.spin import Spin, spin_is_missing
from cacheproof.bench.peers.tlc import Tlc, tlc_is_missing
from cacheproof.search.worker import NATIVE

JAR = Path(os.environ.get("CACHEPROOF_TLC", "tla2tools.jar"))
"""TLC's jar; these tests are skipped without it."""
NEEDS_SPIN = pytest.mark.skipif(spin_is_missing() is not None, reason=spin_is_missing() or "")
NEEDS_TLC = pytest.mark.skipif(tlc_is_missing(JAR) is not None, reason="CACHEPROOF_TLC does not name tla2tools.jar")
pytestmark = pytest.mark.nightly

SMALL = (
    PeerScope("mirror", "fewer-partitions"),
    PeerScope("mirror", "all-faults", (("channel", 1), ("duplicate", 1))),
    PeerScope("mirror", "mixed-sizes", (("items", 1),)),
    PeerScope("encoder_cache", "three-requests"),
    PeerScope("encoder_cache", "siblings"),
    PeerScope("encoder_cache", "siblings", (("capacity", 2000), ("sizes", (0, 2000)))),
)
SCOPES = (
    *SMALL,
    PeerScope("mirror", "impatient"),
    PeerScope("mirror", "two-senders"),
    PeerScope("mirror", "all-faults", (("sizes", (1, 1, 2)), ("capacity", 2), ("duplicate", 1))),
    PeerScope("encoder_cache", "any-call-larger"),
)


def ours(scope: PeerScope) -> Counts:
    """What the native engine counts."""
    found = explored(scope, NATIVE, subject_of(scope.component))
    assert not found.violations
    return Counts(found.states, found.transitions)


def planted(component: str, suffix: str, right: str, wrong: str) -> str:
    """The model with one difference."""
    text = model_text(component, suffix)
    assert text.count(right) == 1
    return text.replace(right, wrong)


@NEEDS_SPIN
@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_spin_counts_what_we_count(scope: PeerScope, tmp_path: Path) -> None:
    counts = ours(scope)
    run = Spin(scope, tmp_path, invariant=True, optimized=False).run(counts.states)
    assert run.counts == counts
    assert run.errors == 0, "the invariant holds"


@NEEDS_TLC
@pytest.mark.parametrize("scope", SMALL, ids=str)
def test_tlc_counts_what_we_count(scope: PeerScope, tmp_path: Path) -> None:
    run = Tlc(scope, JAR, tmp_path, invariant=True).run()
    assert run.counts == ours(scope)
    assert not run.violated


DIFFERENCES = (
    (PeerScope("mirror", "fewer-partitions"), "link[s].granted == 0 && !PARTITION_LEFT", "false"),
    (PeerScope("mirror", "all-faults"), "link[s].allowance = 0; link[s].marked = NONE", "link[s].allowance = 0"),
    (PeerScope("mirror", "all-faults"), "link[s].generation++; link[s].sent = 0", "link[s].sent = 0"),
    (PeerScope("encoder_cache", "three-requests"), "put_last_again(attempted, INPUTS, input)", "skip"),
    (
        PeerScope("encoder_cache", "siblings"),
        "#define MAY_FREE(input) (held[input] && promised[0] == 0)",
        "#define MAY_FREE(input) (held[input])",
    ),
)


@NEEDS_SPIN
@pytest.mark.parametrize(("scope", "right", "wrong"), DIFFERENCES)
def test_a_planted_difference_changes_the_counts(scope: PeerScope, right: str, wrong: str, tmp_path: Path) -> None:
    counts = ours(scope)
    run = Spin(scope, tmp_path, text=planted(scope.component, ".pml", right, wrong), optimized=False).run(
        4 * counts.states
    )
    assert run.counts != counts


DRIFTS = (
    ("mirror", "all-faults", "           walk(link[s].held_order, item);", "           skip;"),
    ("encoder_cache", "three-requests", "        freeable = freeable + CONTENT_SIZE(c) ", "        skip "),
)


@NEEDS_SPIN
@pytest.mark.parametrize(("component", "scope", "right", "wrong"), DRIFTS)
def test_spin_finds_a_planted_drift(component: str, scope: str, right: str, wrong: str, tmp_path: Path) -> None:
    text = planted(component, ".pml", right, wrong)
    assert (
        Spin(PeerScope(component, scope), tmp_path, invariant=True, text=text, optimized=False).run(50_000).errors == 1
    )


@NEEDS_TLC
@pytest.mark.parametrize(
    ("component", "scope", "right", "wrong"),
    [
        ("mirror", "all-faults", "!.held_order = WalkOrder(@, message.item)", "!.held_order = @"),
        ("encoder_cache", "three-requests", "!.freeable = @ + Sizes[content]]", "!.freeable = @]"),
    ],
)
def test_tlc_finds_a_planted_drift(component: str, scope: str, right: str, wrong: str, tmp_path: Path) -> None:
    text = planted(component, ".tla", right, wrong)
    assert Tlc(PeerScope(component, scope), JAR, tmp_path, invariant=True, text=text).run().violated


@NEEDS_SPIN
def test_spin_is_measured_first_and_answers_alike() -> None:
    (benchmark,) = benchmarks_named("explore-encoder_cache")
    rows = measured(benchmark, 1, lambda line: None, small=True, peers=Peers(spin=True))
    assert [row.contender for row in rows] == ["Spin", "reference", "native", "native, no properties"]
    assert len({row.units for row in rows}) == 1
    assert all(row.also["states/s"].median > 0 for row in rows)
