"""Each claim that is proved fails on a bug that is made for it."""

from __future__ import annotations

import pytest
from tests.planting import planted
from tests.proofs.prove.bugs import (
    configuration,
    encoder_cache,
    kv_blocks,
    lru,
    mirror,
    mirror_progress,
    publication,
    ring,
    shared_prefix,
)
from tests.proofs.prove.planted import Bug, assert_refuted, claims_without_a_bug, found, identified

from cacheproof.model.registry import AnyVariant
from cacheproof.prove.finding import Verdict
from cacheproof.prove.mirror.progress import PROGRESS
from cacheproof.prove.obligations import configuration as configuration_claims
from cacheproof.prove.obligations import encoder_cache as encoder_cache_claims
from cacheproof.prove.obligations import kv_blocks as kv_blocks_claims
from cacheproof.prove.obligations import lru as lru_claims
from cacheproof.prove.obligations import mirror as mirror_claims
from cacheproof.prove.obligations import publication as publication_claims
from cacheproof.prove.obligations import ring as ring_claims
from cacheproof.prove.obligations import shared_prefix as shared_prefix_claims
from cacheproof.prove.proof import Proof
from cacheproof.prove.prover import prove
from cacheproof.prove.publication.loops import ANSWERS
from cacheproof.prove.ring.functions import CHUNKS, MEMORY
from cachespec.configuration import BALANCED_OUTSIDE
from cachespec.lru import GHOST, RELEASED, STALE_GROWTH
from cachespec.publication import WITHOUT_BARRIER

TABLES: dict[str, tuple[Proof, tuple[Bug, ...]]] = {
    "lru": (lru_claims.PROOF, lru.BUGS),
    "mirror": (mirror_claims.PROOF, mirror.BUGS),
    "mirror_progress": (PROGRESS, mirror_progress.BUGS),
    "encoder_cache": (encoder_cache_claims.PROOF, encoder_cache.BUGS),
    "ring": (ring_claims.PROOF, ring.BUGS),
    "ring_chunks": (CHUNKS, ring.OF_CHUNKS),
    "ring_memory": (MEMORY, ring.OF_MEMORY),
    "publication": (publication_claims.PROOF, publication.BUGS),
    "publication_answers": (ANSWERS, publication.OF_ANSWERS),
    "kv_blocks": (kv_blocks_claims.PROOF, kv_blocks.BUGS),
    "configuration": (configuration_claims.PROOF, configuration.BUGS),
    "shared_prefix": (shared_prefix_claims.PROOF, shared_prefix.BUGS),
}
"""What is proved, and a bug for each claim."""


@pytest.mark.parametrize(
    ("component", "bug"),
    [(component, bug) for component, (_, bugs) in TABLES.items() for bug in bugs],
    ids=lambda value: identified(value) if isinstance(value, Bug) else value,
)
def test_a_planted_bug_is_refuted(component: str, bug: Bug) -> None:
    assert_refuted(TABLES[component][0], bug)


@pytest.mark.parametrize("component", TABLES)
def test_every_claim_has_a_bug(component: str) -> None:
    assert not claims_without_a_bug(*TABLES[component])


@pytest.mark.parametrize(
    ("variant", "name"),
    [
        (GHOST, "LRU-1/touch"),
        (RELEASED, "LRU-6/room/put"),
        (STALE_GROWTH, "LRU-6/room/put"),
    ],
    ids=["ghost", "released", "stale growth"],
)
def test_an_era_of_lru_is_refuted(variant: AnyVariant, name: str) -> None:
    assert found(lru_claims.PROOF.of(variant), name).verdict is Verdict.REFUTED


@pytest.mark.parametrize("name", ["X-5/start", "X-5/record/start"])
def test_frontends_that_are_balanced_outside_are_refuted(name: str) -> None:
    """M1: several frontends of one deployment send to one engine (C-MIR-13)."""
    finding = found(configuration_claims.PROOF.of(BALANCED_OUTSIDE), name)
    assert finding.verdict is (Verdict.REFUTED if name == "X-5/start" else Verdict.PROVED)


def test_a_handle_that_may_arrive_before_the_data_is_refuted() -> None:
    """C-SHM-16."""
    finding = found(publication_claims.PROOF.of(WITHOUT_BARRIER), "waiting/publish")
    assert finding.verdict is Verdict.REFUTED


def test_a_round_that_admits_without_a_limit_is_not_proved() -> None:
    with planted(shared_prefix.WITHOUT_A_LIMIT.change):
        finding = found(shared_prefix_claims.PROOF, shared_prefix.WITHOUT_A_LIMIT.refuted)
    assert finding.verdict in (Verdict.REFUTED, Verdict.UNKNOWN)


def test_an_eviction_that_is_not_reported_is_refuted() -> None:
    with planted(shared_prefix.UNREPORTED.change):
        (finding,) = prove(shared_prefix_claims.REPORTED, ask_second=False, only=shared_prefix.UNREPORTED.refuted)
    assert finding.verdict is Verdict.REFUTED
