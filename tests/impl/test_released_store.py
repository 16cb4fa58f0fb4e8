"""The ring and the object store of an era beside the specification's, beside a release, and planted bugs."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any

import pytest
import torch
from tests.planting import Change, planted

from cacheimpl.object_store import ReleasedObjectStorage, StoreEra
from cacheimpl.object_store.counting import RINGS, CountingReader, CountingWriter, count_at, count_once_more
from cacheimpl.object_store.errors import ForgedHandleError, NotStoredError, StaleHandleError, StoreFullError
from cacheimpl.ring import ReleasedRingBuffer, RingEra
from cacheimpl.ring.eras import ReleasedPlacement
from cacheimpl.ring.headers import ReleasedHeaders
from cacheimpl.ring.placement import Placement
from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.campaign import lockstep
from cacheproof.model.finding import Breakdown, Finding
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scopes_of
from cacheproof.model.target import Target, TargetError
from cacheproof.targets.factory import open_target
from cacheproof.targets.tensor.ring_buffer import ReleasedRingTarget, open_ring_2025_10
from cacheproof.targets.vllm.release import Release, add
from cachespec.configuration import Config as ChoiceConfig
from cachespec.kernel import Observation, Operation, Outcome
from cachespec.lru.configuration import Config as LruConfig
from cachespec.object_store.configuration import Config as StoreConfig
from cachespec.ring.configuration import Config as RingConfig

torch.set_num_threads(1)

STORE, RING = component_named("object_store"), component_named("ring")
ERAS = ("M1", "M2", "M3")

EVERYTHING = StoreConfig(
    capacity=72,
    payloads=(16, 28, 16, 40, 76),
    requests=((0, 1), (1, 0, 1), (2, 3), (3, 4), (2,)),
    largest=40,
    header=8,
    modulus=8,
    touches=1,
    rejects=1,
    aborts=1,
    covered=1,
    preempts=1,
    clears=1,
    forges=1,
    reclaims=1,
)
"""Chunks begin at multiples of 12 bytes, so that none begins within the header or the count of another."""
CALM = EVERYTHING._replace(readers=1, modulus=2**31, rejects=0, aborts=0, clears=0, forges=0, reclaims=0)
SPELT = EVERYTHING._replace(lookalikes=1, payloads=(16, 28, 16, 40, 40), readers=1)
WIDE_RING = RingConfig(capacity=120, modulus=2**31, header=8, sizes=(1, 9, 30, 60), readers=2, wants=(10, 40, 120))
TIGHT_RING = RingConfig(capacity=64, modulus=5, header=8, sizes=(1, 4, 14, 30), readers=2, wants=(10, 64), clears=1)


def store_of(era: str) -> Target:
    return open_target("torch", STORE, STORE.variants[era])


def of_era(era: str, config: StoreConfig) -> StoreConfig:
    """0.11.0 does not touch: a scope in which P0 touches before it walks would leave it nothing to do."""
    return config._replace(touches=0) if era == "M1" else config


def finding_of(era: str, config: StoreConfig, steps: int, seed: int = 1) -> Finding | None:
    target, config = store_of(era), of_era(era, config)
    try:
        return lockstep(
            STORE, STORE.variants[era], config, target, steps=steps, seed=seed, seconds_to_shrink=0.0
        ).finding
    finally:
        target.close()


@pytest.mark.parametrize("config", [EVERYTHING, CALM, SPELT], ids=["everything", "calm", "spelt"])
@pytest.mark.parametrize("era", ERAS)
def test_a_store_of_an_era_beside_the_specification(era: str, config: StoreConfig) -> None:
    assert finding_of(era, config, 800) is None


def driven(config: StoreConfig) -> bool:
    """Whether the target takes the configuration; what it does not take, it says why."""
    target = store_of("M3")
    try:
        target.reset(config)
    except InputError:
        return False
    finally:
        target.close()
    return True


DRIVEN = {scope.name: scope.config for scope in scopes_of(STORE) if driven(scope.config)}


def test_most_scopes_are_driven() -> None:
    assert len(DRIVEN) >= 20


@pytest.mark.parametrize("scope", DRIVEN)
def test_a_store_of_an_era_in_every_scope(scope: str) -> None:
    for era in ERAS:
        assert finding_of(era, DRIVEN[scope], 60) is None


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("era", ERAS)
def test_a_store_of_an_era_in_long_runs(era: str) -> None:
    for config in (EVERYTHING, CALM, SPELT, *DRIVEN.values()):
        assert finding_of(era, config, 3_000, seed=7) is None


@pytest.mark.parametrize("config", [EVERYTHING, CALM._replace(readers=2)], ids=["everything", "calm"])
@pytest.mark.parametrize(("era", "other"), [("M1", "M2"), ("M2", "M3"), ("M3", "normative")])
def test_no_era_is_another_one(era: str, other: str, config: StoreConfig) -> None:
    target, config = store_of(era), of_era(era, config)
    try:
        run = lockstep(STORE, STORE.variants[other], config, target, steps=3_000, seed=1, seconds_to_shrink=0.0)
    finally:
        target.close()
    assert run.finding is not None


# The ring -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [WIDE_RING, TIGHT_RING], ids=["wide", "tight"])
@pytest.mark.parametrize("era", RingEra, ids=lambda era: era.name)
def test_a_ring_of_an_era_beside_the_specification(era: RingEra, config: RingConfig) -> None:
    assert ring_finding(era, config) is None


def ring_finding(era: RingEra, config: RingConfig, steps: int = 1500) -> Finding | None:
    target = ReleasedRingTarget(era)
    bounded = config._replace(outstanding=8)
    try:
        return lockstep(
            RING, RING.variants[era.value], bounded, target, steps=steps, seed=5, seconds_to_shrink=0.0
        ).finding
    finally:
        target.close()


def test_the_ring_is_a_target_of_its_component_alone() -> None:
    assert isinstance(open_ring_2025_10("ring"), ReleasedRingTarget)
    with pytest.raises(InputError, match="not of lru"):
        open_ring_2025_10("lru")


# Facts --------------------------------------------------------------------------------------------------------------


class Stores:
    """One writer and two readers of an era."""

    def __init__(self, era: StoreEra, size: int = 4096) -> None:
        ring = ReleasedRingBuffer(size, create=True, era=RINGS[era.value])
        self.writer = ReleasedObjectStorage(2048, 2, ring, reader_lock=Lock(), era=era)
        self.readers = [ReleasedObjectStorage.create_from_handle(self.writer.handle()) for _ in range(2)]

    def close(self) -> None:
        for store in (*self.readers, self.writer):
            store.close()


@pytest.fixture(params=StoreEra, ids=lambda era: era.name)
def stores(request: pytest.FixtureRequest) -> Any:
    made = Stores(request.param)
    yield made
    made.close()


def test_what_is_put_is_read_by_all_and_then_it_may_go(stores: Any) -> None:
    value: dict[str, Any] = {"pixels": torch.arange(100.0), "grid": (1, 2)}
    address, identity = stores.writer.put("a", value)
    signed = (stores.writer.get_signature("a"), "a") if stores.writer.era is StoreEra.STORE_2026_11 else ()
    assert not stores.writer.default_is_free_check(identity, memoryview(b""))
    for reader in stores.readers:
        found = reader.get(address, identity, *signed)
        assert torch.equal(found["pixels"], value["pixels"])
    assert torch.equal(stores.writer.get(address, identity)["pixels"], value["pixels"])
    assert stores.writer.default_is_free_check(identity, memoryview(b""))
    assert stores.writer.free_unused() == (identity,)
    assert stores.writer.key_index == {}


def test_a_request_that_is_lost_keeps_its_chunk_for_ever(stores: Any) -> None:
    """C-SHM-4: nobody tells the store, so it fills, and nothing is put any more."""
    for number in range(40):
        try:
            stores.writer.put(f"item {number}", torch.zeros(100))
        except StoreFullError:
            break
    else:
        pytest.fail("the store never fills")
    assert stores.writer.free_unused() == ()
    with pytest.raises(StoreFullError):
        stores.writer.put("another", torch.zeros(100))


@pytest.mark.parametrize("era", [StoreEra.STORE_2025_10, StoreEra.STORE_2025_12])
def test_clearing_gives_the_same_handle_to_another_item(era: StoreEra) -> None:
    """C-SHM-7: a reader gets the other's bytes."""
    stores = Stores(era)
    handle = stores.writer.put("a", torch.zeros(10))
    stores.writer.clear()
    assert stores.writer.put("b", torch.ones(10)) == handle
    assert stores.readers[0].get(*handle).tolist() == [1.0] * 10
    stores.close()


def test_later_ids_go_on_and_handles_are_signed() -> None:
    stores = Stores(StoreEra.STORE_2026_11)
    handle = (*stores.writer.put("a", torch.zeros(10)), stores.writer.get_signature("a"), "a")
    stores.writer.clear()
    assert stores.writer.put("b", torch.ones(10)) == (handle[0], 1)
    with pytest.raises(StaleHandleError):
        stores.readers[0].get(*handle)
    with pytest.raises(ForgedHandleError):
        stores.readers[0].get(0, 1, handle[2], "b")
    stores.writer.touch("b")
    assert stores.writer.writer.protected == {1}
    stores.writer.release_touches()
    assert stores.writer.writer.protected == set()
    stores.close()


def test_a_writer_with_the_lock_counts_as_a_reader(stores: Any) -> None:
    """As released: its own look at an item is one of those that free the chunk. Without the lock it counts nothing."""
    lock, stores.writer._reader_lock = stores.writer._reader_lock, None
    address, identity = stores.writer.put("a", torch.zeros(10))
    for _ in range(2):
        stores.writer.get(address, identity)
    assert not stores.writer.default_is_free_check(identity, memoryview(b""))
    stores.writer._reader_lock = lock
    for _ in range(2):
        stores.writer.get(address, identity)
    assert stores.writer.default_is_free_check(identity, memoryview(b""))


def test_the_writer_takes_back_only_what_it_hands_out_now() -> None:
    stores = Stores(StoreEra.STORE_2026_11)
    handle = stores.writer.put("a", torch.zeros(10))
    signature = stores.writer.get_signature("a")
    for store in (stores.writer, *stores.readers):
        store.verify_signature("a", *handle, signature)
    stores.writer.clear()
    for _ in range(2):
        stores.readers[0].verify_signature("a", *handle, signature)
        with pytest.raises(ForgedHandleError, match="SHM handle signature"):
            stores.writer.verify_signature("a", *handle, signature)
        if "a" not in stores.writer.key_index:
            stores.writer.put("a", torch.ones(10))
    for wrong in ((-1, 0), (True, 0), (0, -1)):
        with pytest.raises(ForgedHandleError, match="SHM handle signature"):
            stores.readers[0].get(*wrong, signature, "a")
    stores.close()


def test_0_11_0_has_a_chunk_that_is_not() -> None:
    """C-SHM-1."""
    stores = Stores(StoreEra.STORE_2025_10)
    assert stores.writer.ring_buffer.metadata == {0: 0}
    with pytest.raises(NotStoredError, match="no chunk has the id 0"):
        stores.writer.free_unused()
    stores.close()


# Planted bugs -------------------------------------------------------------------------------------------------------

STORE_BUGS: dict[str, tuple[str, Change]] = {
    "issuing is not counted": ("M3", Change(CountingWriter.issue_once_more, "self.issued[$identity] += 1", "pass")),
    "a lookup keeps the protection": (
        "M3",
        Change(CountingWriter.issue_once_more, "self.protected.discard($identity)", "pass"),
    ),
    "what is protected goes": ("M3", Change(CountingWriter.may_go, "$x and $identity not in self.protected", "$x")),
    "one reader's count suffices": (
        "M2",
        Change(CountingWriter.may_go, "self.issued[$identity] * self._readers", "self.issued[$identity]"),
    ),
    "freeing stops early": ("M2", Change(CountingWriter.free_unused, "2 * self._largest", "self._largest // 2")),
    "nothing is freed to make room": ("M1", Change(CountingWriter._allocated, "self.free_unused()", "pass")),
    "the index keeps what is gone": ("M2", Change(CountingWriter.free_unused, "del self.key_index[$key]", "pass")),
    "clearing keeps the index": ("M3", Change(CountingWriter.clear, "self.key_index.clear()", "pass")),
    "an old count is taken over": ("M3", Change(CountingWriter.put, "bytearray($size)", "bytearray([1] * $size)")),
    "the id is not looked at": ("M3", Change(CountingReader.look, "$found != $identity", "$found < 0")),
    "nothing is acknowledged": (
        "M1",
        Change(CountingReader.acknowledge, "count_once_more(self._ring, $address)", "count_at(self._ring, $address)"),
    ),
    "a touch counts what is new": ("M2", Change(CountingReader.touch, "self._readers", "0")),
    "counted twice": ("M2", Change(count_once_more, "count_at($ring, $address) + 1", "count_at($ring, $address) + 2")),
    "the header is counted": (
        "M2",
        Change(count_at, "place_of_count($ring, $address)", "place_of_count($ring, $address - 4)"),
    ),
    "touching protects": (
        "M2",
        Change(
            ReleasedObjectStorage._touch_stored,
            "self.writer.issue_once_more",
            "self.writer.protected.add",
        ),
    ),
}


@pytest.mark.parametrize("name", STORE_BUGS)
def test_a_planted_bug_of_the_store_is_found(name: str) -> None:
    era, change = STORE_BUGS[name]
    with planted(change):
        found = any(finding_of(era, config, 5_000) is not None for config in (EVERYTHING, CALM))
    assert found


RING_BUGS: dict[str, tuple[RingEra, Change]] = {
    "an id is not given twice": (
        RingEra.RING_2026_11,
        Change(Placement.address_for, "$x or not self.guards_ids", "$x"),
    ),
    "the start moves": (
        RingEra.RING_2025_10,
        Change(
            ReleasedPlacement.drop_oldest_staying_behind,
            "self.start = self.starts.pop(self.id_start)",
            "self.starts.pop(self.id_start)",
        ),
    ),
    "ids begin again": (
        RingEra.RING_2026_11,
        Change(ReleasedPlacement.drop_all, "0 if $from_zero else self.id_end", "0"),
    ),
    "ids go on": (
        RingEra.RING_2025_12,
        Change(ReleasedPlacement.drop_all, "0 if $from_zero else self.id_end", "self.id_end"),
    ),
    "headers are struck out": (
        RingEra.RING_2025_12,
        Change(ReleasedHeaders.begin, "$body", "self.strike_out(place + total)\n$body"),
    ),
    "the lap is not taken off": (
        RingEra.RING_2025_10,
        Change(Placement.rebase, "self.start >= self.capacity", "False"),
    ),
    "what is freed is what was asked for": (
        RingEra.RING_2025_10,
        Change(ReleasedRingBuffer.drop_oldest, "return size", "return 10 ** 6"),
    ),
}


@pytest.mark.parametrize("name", RING_BUGS)
def test_a_planted_bug_of_the_ring_is_found(name: str) -> None:
    era, change = RING_BUGS[name]
    with planted(change):
        found = any(ring_finding(era, config, 3_000) is not None for config in (TIGHT_RING, WIDE_RING))
    assert found


# Beside the releases ------------------------------------------------------------------------------------------------


class Both:
    """Ours and a release, which are given the same calls and have to answer and show the same."""

    def __init__(self, ours: Target, theirs: Target) -> None:
        self._ours, self._theirs = ours, theirs

    def reset(self, config: Any) -> None:
        self._ours.reset(config)
        self._theirs.reset(config)

    def apply(self, operation: Operation) -> Outcome:
        ours, theirs = self._ours.apply(operation), self._theirs.apply(operation)
        if ours != theirs:
            raise TargetError(f"{operation}: ours says {ours}, the release {theirs}")
        return ours

    def observe(self) -> Mapping[str, Observation]:
        ours, theirs = dict(self._ours.observe()), dict(self._theirs.observe())
        if any(ours[name] != value for name, value in theirs.items()):
            raise TargetError(f"ours shows {ours}, the release {theirs}")
        return ours

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


LRU = LruConfig(capacity=6, sizes=(1, 2, 3, 4, 7), grown=(2, 5, 1, 4, 6), lookups=1000, pins=2)
VERSIONS = ("0.11.0", "0.20.2", "0.33.0")
BESIDE = [
    *(("lru", era, version, LRU) for era, version in (("M2", "0.11.0"), ("M2", "0.20.2"), ("M3", "0.33.0"))),
    *(("object_store", era, version, of_era(era, EVERYTHING)) for era, version in zip(ERAS, VERSIONS, strict=True)),
    *(("object_store", era, version, of_era(era, CALM)) for era, version in zip(ERAS, VERSIONS, strict=True)),
    *(("ring", era, version, TIGHT_RING) for era, version in zip(ERAS, VERSIONS, strict=True)),
    *(("ring", era, version, WIDE_RING) for era, version in zip(ERAS, VERSIONS, strict=True)),
    ("configuration", "M1", "0.11.0", ChoiceConfig()),
]
"""Ours in an era, and the release that the era is of, in one configuration."""


def beside(component: str, era: str, version: str, config: Any, steps: int) -> Finding | None:
    of = component_named(component)
    ours: Target = (
        ReleasedRingTarget(RingEra(era)) if component == "ring" else open_target("torch", of, of.variants[era])
    )
    add(Release(version), print)
    both = Both(ours, open_target(f"vllm=={version}", of, of.variants[era]))
    config = config._replace(outstanding=8) if component == "ring" else config
    try:
        run = lockstep(of, of.variants[era], config, both, steps=steps, seed=4, seconds_to_shrink=0.0)
    finally:
        both.close()
    return run.finding


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("component", "era", "version", "config"), BESIDE)
def test_ours_beside_the_release_itself(component: str, era: str, version: str, config: Any) -> None:
    assert beside(component, era, version, config, 5_000) is None


def test_both_find_a_difference() -> None:
    ours, other = store_of("M3"), store_of("M2")
    both = Both(ours, other)
    try:
        found = lockstep(STORE, STORE.variants["M3"], EVERYTHING, both, steps=3_000, seed=4, seconds_to_shrink=0.0)
    finally:
        both.close()
    assert isinstance(found.finding, Breakdown)
