"""The caches of P0 and of the workers on the object store."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import UserDict
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import msgspec
import pytest
import torch

from cacheimpl.object_store import ShmObjectStoreReceiverCache, ShmObjectStoreSenderCache, StoreEra
from cacheimpl.object_store.caches import CacheInfo
from cacheimpl.object_store.errors import (
    ForgedHandleError,
    InvalidArgumentError,
    NotInEraError,
    NotStoredError,
    StaleHandleError,
)
from cacheimpl.object_store.handle_items import INPUTS, handle_of
from cacheimpl.object_store.names import NAME_VARIABLE

torch.set_num_threads(1)

WORKERS = 2


def config(cache_bytes: int = 8192, object_bytes: int = 4096) -> Any:
    """A configuration with the attributes that are read."""
    multimodal = SimpleNamespace(
        mm_processor_cache_gb=cache_bytes / 2**30, mm_shm_cache_max_object_size_mb=object_bytes / 2**20
    )
    return SimpleNamespace(
        parallel_config=SimpleNamespace(world_size=WORKERS),
        model_config=SimpleNamespace(get_multimodal_config=lambda: multimodal),
    )


@dataclass
class Feature:
    """One multimodal input as a worker is sent it."""

    data: Any
    identifier: str
    mm_hash: str | None = None


Caches = tuple[ShmObjectStoreSenderCache, list[ShmObjectStoreReceiverCache]]


@pytest.fixture
def caches(monkeypatch: pytest.MonkeyPatch) -> Iterator[Caches]:
    monkeypatch.setenv(NAME_VARIABLE, f"cacheproof-test-{uuid4().hex[:12]}")
    sender = ShmObjectStoreSenderCache(config())
    receivers = [ShmObjectStoreReceiverCache(config(), Lock()) for _ in range(WORKERS)]
    yield sender, receivers
    for receiver in receivers:
        receiver.close()
    sender.close()


def item(number: int) -> dict[str, torch.Tensor]:
    return {"pixels": torch.full((1500,), number, dtype=torch.uint8)}


def test_an_item_is_stored_once_and_read_by_every_worker(caches: Caches) -> None:
    sender, receivers = caches
    sent = [sender.get_and_update_item((item(7), "updates"), "h") for _ in range(2)]
    assert [updates for _, updates in sent] == ["updates"] * 2
    assert sender.get_and_update_item(None, "h")[1] == "updates"
    assert sender.is_cached(["h", "other"]) == [True, False]
    assert sender.make_stats() == CacheInfo(2, 3)
    for receiver in receivers:
        features = [Feature(sent[0][0], "lora-h", "h"), Feature(None, "covered"), Feature(sent[1][0], "h")]
        found = receiver.get_and_update_features(features)
        assert [torch.equal(one.data["pixels"], item(7)["pixels"]) for one in (found[0], found[2])] == [True, True]
        assert found[1].data is None
    assert sender.make_stats(delta=True).hit_ratio == pytest.approx(2 / 3)
    assert sender.make_stats(delta=True) == CacheInfo(0, 0)


def test_what_the_store_has_no_room_for_is_sent_itself(caches: Caches) -> None:
    sender, receivers = caches
    raw, updates = sender.get_and_update_item(({"pixels": torch.zeros(5000)}, "updates"), "large")
    assert handle_of(raw) is None
    assert (updates, sender.is_cached_item("large")) == ("updates", False)
    assert receivers[0].get_and_update_item(raw, "large") is raw
    sent = [sender.get_and_update_item((item(number), number), f"h{number}")[0] for number in range(9)]
    out = [handle_of(one) is not None for one in sent]
    assert out == [True] * out.count(True) + [False] * (9 - out.count(True))
    assert 0 < out.count(True) < 9


def test_the_end_of_a_request_makes_room(caches: Caches) -> None:
    sender, receivers = caches
    for number in range(40):
        sent, _ = sender.get_and_update_item((item(number), number), f"h{number}")
        assert handle_of(sent) is not None
        if number % 2:
            receivers[0].get_and_update_item(sent, f"h{number}")
        assert sender.release_items([sent, None], [f"h{number}", "raw"]) == 1
        assert sender.release_items([sent], [f"h{number}"]) == 0
    assert len(sender._p0_cache) <= 2 * len(sender._shm_cache.key_index)


def test_a_client_cannot_make_a_handle_up(caches: Caches) -> None:
    sender, receivers = caches
    sent, _ = sender.get_and_update_item((item(1), None), "h")
    sender.validate_input_item(sent, "h")
    sender.validate_input_item(item(1), "h")
    made_up = sender.address_as_item(0, 0, [0] * 36)
    for wrong, mm_hash in ((made_up, "h"), (sent, "other"), ({"address": sent["address"]}, "h")):
        with pytest.raises(ForgedHandleError):
            sender.validate_input_item(wrong, mm_hash)
        with pytest.raises((ForgedHandleError, StaleHandleError)):
            receivers[0].get_and_update_item(wrong, mm_hash)
        with pytest.raises((ForgedHandleError, StaleHandleError)):
            receivers[0].touch_receiver_cache_item(mm_hash, wrong)
    receivers[0].touch_receiver_cache_item("h", sent)


def test_what_was_touched_stays_through_the_walk(caches: Caches) -> None:
    sender, _ = caches
    first = [sender.get_and_update_item((item(number), number), f"h{number}")[0] for number in range(3)]
    sender.release_items(first, ["h0", "h1", "h2"])
    sender.touch_sender_cache_item("h0")
    assert handle_of(sender.get_and_update_item((item(9), 9), "h9")[0]) is not None
    assert handle_of(sender.get_and_update_item((item(8), 8), "h8")[0]) is None
    assert handle_of(sender.get_and_update_item(None, "h0")[0]) is not None
    sender.touch_sender_cache_item("h1")
    sender.release_sender_touches()
    with pytest.raises(NotStoredError):
        sender.get_and_update_item(None, "other")


def test_clearing_takes_nothing_from_a_reader(caches: Caches) -> None:
    sender, receivers = caches
    sent, _ = sender.get_and_update_item((item(3), None), "h")
    sender.clear_cache()
    receivers[0].clear_cache()
    assert not sender.is_cached_item("h")
    assert sender.make_stats() == CacheInfo(0, 0)
    assert torch.equal(receivers[0].get_and_update_item(sent, "h")["pixels"], item(3)["pixels"])
    with pytest.raises(NotStoredError):
        receivers[0].get_and_update_item(None, "h")


# In an engine -------------------------------------------------------------------------------------------------------


class BatchedField:
    """As the engine's own: how the values of several items are put together."""


@dataclass
class FieldElem:
    data: Any
    field: Any


class KwargsItem(UserDict[str, FieldElem]):
    """As the engine's own item."""


class Serialiser:
    """What the engine's serialiser of 0.33 does with items: by native types, and by hooks for its own classes."""

    def __init__(self) -> None:
        self.encoder = msgspec.msgpack.Encoder(enc_hook=self.encoded)
        self.decoder = msgspec.msgpack.Decoder(Message, dec_hook=self.decoded)

    def encoded(self, value: Any) -> Any:
        assert type(value) is KwargsItem, type(value)
        assert {type(elem.field) for elem in value.values()} == {BatchedField}
        return {key: {"data": elem.data, "field": ("batched", {"keep_on_cpu": False})} for key, elem in value.items()}

    def decoded(self, kind: type, value: Any) -> Any:
        assert kind is KwargsItem
        return KwargsItem({key: self.element(**elem) for key, elem in value.items()})

    def element(self, data: Any, field: Any) -> FieldElem:
        name, arguments = field
        assert name == "batched"
        assert set(arguments) <= {"keep_on_cpu"}
        assert isinstance(data, int) or all(isinstance(part, int) for part in data)
        return FieldElem(data, BatchedField())

    def sent(self, item: Any) -> Any:
        """An item as it arrives."""
        return self.decoder.decode(self.encoder.encode(Message("0", [Part(item, "h")]))).features[0].data


@dataclass
class Part:
    data: KwargsItem | None
    identifier: str


class Message(msgspec.Struct, array_like=True):
    request_id: str
    features: list[Part]


@pytest.mark.parametrize("loaded", [False, True], ids=["alone", "with vLLM loaded"])
def test_a_handle_survives_the_engines_serialiser(
    caches: Caches, monkeypatch: pytest.MonkeyPatch, loaded: bool
) -> None:
    if loaded:
        names = {"KwargsItem": KwargsItem, "FieldElem": FieldElem, "BatchedField": BatchedField}
        module = SimpleNamespace(**{f"MultiModal{name}": kind for name, kind in names.items()})
        monkeypatch.setitem(sys.modules, INPUTS, module)
    sender, receivers = caches
    given, _ = sender.get_and_update_item((item(4), None), "h")
    assert isinstance(given, KwargsItem) == loaded
    arrived = Serialiser().sent(given)
    sender.validate_input_item(arrived, "h")
    for receiver in receivers:
        (feature,) = receiver.get_and_update_features([Feature(arrived, "h")])
        assert torch.equal(feature.data["pixels"], item(4)["pixels"])
        arrived = Serialiser().sent(given)


def test_other_items_of_an_engine_are_not_made(monkeypatch: pytest.MonkeyPatch, caches: Caches) -> None:
    """Elements of earlier releases have other fields."""
    module = SimpleNamespace(MultiModalKwargsItem=dict, MultiModalFieldElem=Feature, MultiModalBatchedField=object)
    monkeypatch.setitem(sys.modules, INPUTS, module)
    assert handle_of(caches[0].address_as_item(1, 2, [3])) == (1, 2, [3])


@pytest.mark.parametrize("wrong", [(-1, 0, [1]), (0, None, [1]), (0, 0, 5), (0, 0, "image"), (0, 0, [None])])
def test_what_can_be_no_handle(caches: Caches, wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        caches[0].address_as_item(*wrong)


def test_what_a_worker_lacks_is_stored_again(caches: Caches) -> None:
    sender, receivers = caches
    sent, _ = sender.get_and_update_item((item(1), "updates"), "h")
    sender.touch_sender_cache_item("h")
    sender.invalidate("h")
    sender.invalidate("other")
    assert not sender.is_cached_item("h")
    with pytest.raises(NotStoredError):
        sender.get_and_update_item(None, "h")
    again, _ = sender.get_and_update_item((item(2), "others"), "h")
    for receiver in receivers:
        assert torch.equal(receiver.get_and_update_item(sent, "h")["pixels"], item(1)["pixels"])
        assert torch.equal(receiver.get_and_update_item(again, "h")["pixels"], item(2)["pixels"])
    assert issubclass(NotStoredError, ValueError)
    assert issubclass(NotStoredError, KeyError)


READER = """
from tests.impl.test_object_store_caches import Lock, ShmObjectStoreReceiverCache, config
ShmObjectStoreReceiverCache(config(), Lock()).close()
"""


def test_a_process_that_starts_later_finds_the_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME_VARIABLE, raising=False)
    sender = ShmObjectStoreSenderCache(config())
    other = ShmObjectStoreSenderCache(config())
    try:
        subprocess.run([sys.executable, "-c", READER], check=True, timeout=300)
    finally:
        other.close()
        sender.close()
        sender.close()
    assert NAME_VARIABLE not in os.environ
    with pytest.raises(ValueError, match=NAME_VARIABLE):
        ShmObjectStoreReceiverCache(config(), Lock())


def test_what_cannot_be_made_leaves_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME_VARIABLE, raising=False)
    with pytest.raises(ValueError, match="bytes"):
        ShmObjectStoreSenderCache(config(cache_bytes=1))
    assert NAME_VARIABLE not in os.environ


def test_a_sender_that_is_gone_leaves_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was never closed; the next one has a name that readers find."""
    monkeypatch.delenv(NAME_VARIABLE, raising=False)
    sender = ShmObjectStoreSenderCache(config())
    del sender
    gc.collect()
    assert NAME_VARIABLE not in os.environ
    sender = ShmObjectStoreSenderCache(config())
    ShmObjectStoreReceiverCache(config(), Lock()).close()
    sender.close()


def test_errors_have_the_words_that_users_of_vllm_search_for(caches: Caches) -> None:
    sender, _ = caches
    sent, _ = sender.get_and_update_item((item(1), None), "h")
    address, identity, signature = handle_of(sent) or (0, 0, [])
    changed = (
        (-1, identity, signature),
        (2**64, identity, signature),
        (address, 2**64, signature),
        (address, identity, signature[:-1]),
        (address, identity, [300] * len(signature)),
        (address, identity, [*signature[:-1], signature[-1] ^ 1]),
    )
    wrong = [{name: SimpleNamespace(data=part) for name, part in zip(sent, parts, strict=True)} for parts in changed]
    wrong.append({"address": sent["address"]})
    for one in wrong:
        with pytest.raises(ValueError, match="SHM handle signature"):
            sender.validate_input_item(one, "h")
    sender.release_items([sent], ["h"])
    with pytest.raises(ValueError, match="SHM handle signature: the handle is not out any more for the key 'h'"):
        sender.validate_input_item(sent, "h")
    with pytest.raises(ValueError, match="modified or is invalid"):
        sender._shm_cache.get(address, identity + 100)


def test_the_rules_of_0_33_0_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clearing takes chunks away whose handles are out (C-SHM-12), and nothing is revoked (C-SHM-4)."""
    monkeypatch.setenv(NAME_VARIABLE, f"cacheproof-test-{uuid4().hex[:12]}")
    era, lock = StoreEra.STORE_2026_11, Lock()
    sender = ShmObjectStoreSenderCache(config(), era=era)
    receivers = [ShmObjectStoreReceiverCache(config(), lock, era=era) for _ in range(WORKERS)]
    try:
        sent, _ = sender.get_and_update_item((item(1), "update"), "h")
        assert sender.get_and_update_item(None, "h")[1] == "update"
        with pytest.raises(NotInEraError, match="release_items"):
            sender.release_items([sent], ["h"])
        sender.invalidate("h")
        assert sender.is_cached_item("h")
        sender.validate_input_item(sent, "h")
        sender.clear_cache()
        with pytest.raises(ForgedHandleError, match="SHM handle signature"):
            sender.validate_input_item(sent, "h")
        assert int(receivers[0].get_and_update_item(sent, "h")["pixels"][0]) == 1
        again, _ = sender.get_and_update_item((item(2), None), "h")
        with pytest.raises(StaleHandleError, match="modified or is invalid"):
            receivers[1].get_and_update_item(sent, "h")
        assert [int(one.get_and_update_item(again, "h")["pixels"][0]) for one in receivers] == [2, 2]
        assert len(sender._shm_cache.free_unused()) == 1
    finally:
        for receiver in receivers:
            receiver.close()
        sender.close()


def test_counts_and_several_items(caches: Caches) -> None:
    assert CacheInfo(5, 9) - CacheInfo(2, 4) == CacheInfo(3, 5)
    sender, receivers = caches
    sent = [sender.get_and_update_item((item(number), None), f"h{number}")[0] for number in range(2)]
    got = receivers[0].get_and_update(sent, ["h0", "h1"])
    assert [int(one["pixels"][0]) for one in got] == [0, 1]
    with pytest.raises(InvalidArgumentError):
        receivers[1].get_and_update(sent, ["h0"])
