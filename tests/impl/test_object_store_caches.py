"""The caches of P0 and of the workers on the object store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
import torch

from cacheimpl.object_store import ShmObjectStoreReceiverCache, ShmObjectStoreSenderCache
from cacheimpl.object_store.caches import NAME_VARIABLE, CacheInfo, handle_of
from cacheimpl.object_store.errors import ForgedHandleError, NotStoredError, StaleHandleError

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
