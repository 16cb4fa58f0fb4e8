"""The object store with the methods of the processor caches: what P0 has, and what every worker has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.impl.interfaces.bad_input.shared_memory import SAYS, close, fresh_name
from tests.impl.interfaces.bad_input.sorts import Call, Face, Sort, always, amount, count, lacking, one_of, within

from cacheimpl.object_store import ShmObjectStoreReceiverCache, ShmObjectStoreSenderCache, StoreEra
from cacheimpl.object_store.errors import ForgedHandleError, NotStoredError
from cacheimpl.object_store.names import NAME_VARIABLE
from cacheimpl.ring.errors import RingError


def config(gigabytes: Any = 4096 / 2**30, largest: Any = 1024 / 2**20, size: Any = 1) -> Any:
    mm_config = SimpleNamespace(mm_processor_cache_gb=gigabytes, mm_shm_cache_max_object_size_mb=largest)
    return SimpleNamespace(
        model_config=SimpleNamespace(get_multimodal_config=lambda: mm_config),
        parallel_config=SimpleNamespace(world_size=size),
    )


def item() -> Any:
    return {"pixels": torch.ones(3)}


PAIR: tuple[Any, Any] = (item(), [])


def sender() -> Any:
    made: Any = ShmObjectStoreSenderCache(config())
    made.sent, _ = made.get_and_update_item((item(), ["update"]), "a")
    return made


HASH: Sort = one_of(None, 3, ["a"])
HASHES: Sort = {**one_of(None, 3, "ab", [None, "d"], ["c", 3]), "too few": always(["c"])}
TOLD = (*SAYS, "mm_", "config", "store", "pair", "world_size")
CONFIG: Sort = {
    **lacking("model_config", "parallel_config"),
    **within(amount(), config, "mm_processor_cache_gb: "),
    **within(amount(), lambda bad: config(largest=bad), "mm_shm_cache_max_object_size_mb: "),
    **within(count(1), lambda bad: config(size=bad), "world_size: "),
}
ERA: Sort = one_of(3, "M3", StoreEra.STORE_2025_10, StoreEra.STORE_2025_12)
HALF: Sort = {
    "half a handle": always({"address": SimpleNamespace(data=0)}),
    "address is none": always(dict.fromkeys(("address", "monotonic_id", "signature"))),
}
FLAGS = ("release_sender_touches", "remove_dangling_items", "make_stats", "clear_cache", "close")

SENDER = Face(
    ShmObjectStoreSenderCache,
    sender,
    RingError,
    {
        "__init__": Call(lambda made: {"vllm_config": config()}, {"vllm_config": CONFIG, "era": ERA}, says=TOLD),
        "is_cached_item": Call(lambda made: {"mm_hash": "a"}, {"mm_hash": HASH}, says=TOLD),
        "is_cached": Call(lambda made: {"mm_hashes": ["a"]}, {"mm_hashes": one_of(None, 3, "a", [3])}, says=TOLD),
        "get_and_update_item": Call(
            lambda made: {"mm_item": PAIR, "mm_hash": "c"},
            {"mm_item": {**one_of(None, 3, (1, 2, 3)), "no value": always((lambda: None, []))}, "mm_hash": HASH},
            misuse={"not there": (NotStoredError, lambda made: made.get_and_update_item(None, "z"))},
            says=TOLD,
        ),
        "get_and_update": Call(
            lambda made: {"mm_items": [PAIR, PAIR], "mm_hashes": ["c", "d"]},
            {
                "mm_items": {**one_of(None, 3), "too few": always([PAIR]), "no pair": always([PAIR, 3])},
                "mm_hashes": HASHES,
            },
            says=TOLD,
        ),
        "touch_sender_cache_item": Call(lambda made: {"mm_hash": "a"}, {"mm_hash": HASH}, says=TOLD),
        "release_items": Call(
            lambda made: {"mm_items": [made.sent], "mm_hashes": ["a"]},
            {
                "mm_items": {**one_of(None, 3), "too few": always([]), **within(HALF, lambda bad: [bad])},
                "mm_hashes": one_of(None, 3, "a", [3], ["b"], []),
            },
            misuse={
                "the second is forged": (
                    ForgedHandleError,
                    lambda made: made.release_items([made.sent, made.sent], ["a", "z"]),
                )
            },
            says=TOLD,
        ),
        "invalidate": Call(lambda made: {"mm_hash": "a"}, {"mm_hash": HASH}, says=TOLD),
        "validate_input_item": Call(
            lambda made: {"mm_item": made.sent, "mm_hash": "a"},
            {"mm_item": HALF, "mm_hash": one_of(None, 3, "b")},
            says=TOLD,
        ),
        "address_as_item": Call(
            lambda made: {"address": 0, "monotonic_id": 0, "signature": [1]},
            {"address": count(0), "monotonic_id": count(0), "signature": one_of(None, 3, "image", [None])},
            says=("handle", "signature"),
        ),
    },
    dict.fromkeys(FLAGS, "flags only"),
    close,
)


def named(kind: Any, *arguments: Any) -> Any:
    """Made under the name that the environment says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(NAME_VARIABLE, NAME)
        return kind(config(), *arguments)


NAME = fresh_name()


def receiver() -> Any:
    writer = named(ShmObjectStoreSenderCache)
    sent, _ = writer.get_and_update_item((item(), []), "a")
    made = named(ShmObjectStoreReceiverCache, object())
    made.others, made.sent = (writer,), sent
    return made


FORGED: Sort = {**HALF, "nothing": always(None)}
RECEIVER = Face(
    ShmObjectStoreReceiverCache,
    receiver,
    RingError,
    {
        "__init__": Call(
            lambda made: {"vllm_config": config(), "shared_worker_lock": object()},
            {"vllm_config": CONFIG, "shared_worker_lock": {}, "era": ERA},
            misuse={"without a segment": (RingError, lambda made: ShmObjectStoreReceiverCache(config(), 1))},
            works=False,
            says=TOLD,
        ),
        "get_and_update_item": Call(
            lambda made: {"mm_item": made.sent, "mm_hash": "a"},
            {"mm_item": FORGED, "mm_hash": one_of(None, 3, "b")},
            says=(*TOLD, "sent"),
        ),
        "get_and_update": Call(
            lambda made: {"mm_items": [made.sent], "mm_hashes": ["a"]},
            {
                "mm_items": {**one_of(None, 3), "too few": always([]), **within(FORGED, lambda bad: [bad])},
                "mm_hashes": one_of(None, 3, "a", [3], ["b"], []),
            },
            says=(*TOLD, "sent"),
        ),
        "get_and_update_features": Call(
            lambda made: {"mm_features": [SimpleNamespace(data=made.sent, identifier="a")]},
            {
                "mm_features": {
                    **one_of(None, 3, [3], "text"),
                    "without identifier": lambda good: [SimpleNamespace(data=good[0].data)],
                    "the second is forged": lambda good: [*good, SimpleNamespace(data=good[0].data, identifier="b")],
                }
            },
            says=(*TOLD, "feature"),
        ),
        "touch_receiver_cache_item": Call(
            lambda made: {"mm_hash": "a", "mm_item": made.sent},
            {"mm_item": FORGED, "mm_hash": one_of(None, 3, "b")},
            says=(*TOLD, "sent"),
        ),
    },
    {"clear_cache": "takes nothing", "close": "takes nothing"},
    close,
    lambda made: (made._shm_cache, made.others),
)


FACES = {"ShmObjectStoreSenderCache": SENDER, "ShmObjectStoreReceiverCache": RECEIVER}
