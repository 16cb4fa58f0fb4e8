"""The caches of processed items: the order by recency, both sides, and who gets which."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from tests.impl.interfaces.bad_input.sorts import Call, Face, Sort, always, amount, lacking, one_of, within

from cacheimpl.processor_cache import (
    EndlessEvictionError,
    GhostLRUCache,
    ItemNotCachedError,
    LRUCache,
    MultiModalCacheMissError,
    MultiModalProcessorOnlyCache,
    MultiModalProcessorSenderCache,
    MultiModalReceiverCache,
    ProcessorCacheError,
    engine_receiver_cache_from_config,
    processor_cache_from_config,
    processor_only_cache_from_config,
    worker_receiver_cache_from_config,
)
from cacheimpl.processor_cache.errors import AllPinnedError, NotAlikeError, NotThereError, TooLargeError

GIB = 2**30


def lru() -> Any:
    """Ten: `a` has three and is pinned, `b` four."""
    made: LRUCache[str, int] = LRUCache(10, getsizeof=lambda value: value)
    made.put("a", 3)
    made.put("b", 4)
    made.pin("a")
    return made


UNHASHABLE: Sort = one_of(["a"], {})
NO_SIZE: Sort = {"negative": always(-1), "NaN": always(float("nan")), "a text": always("3"), "nothing": always(None)}

LRU = Face(
    LRUCache,
    lru,
    ProcessorCacheError,
    {
        "__init__": Call(lambda made: {"capacity": 10.0}, {"capacity": amount(), "getsizeof": one_of(3, "size")}),
        "get": Call(lambda made: {"key": "a"}, {"key": UNHASHABLE}, {"default": "any"}),
        "touch": Call(lambda made: {"key": "a"}, {"key": UNHASHABLE}),
        "put": Call(
            lambda made: {"key": "c", "value": 2},
            {"key": UNHASHABLE, "value": {**NO_SIZE, "larger than everything": always(11)}},
            misuse={
                "what is pinned leaves too little": (AllPinnedError, lambda made: made.put("c", 8)),
                "larger than everything": (TooLargeError, lambda made: made.put("b", 11)),
                "by another method": (TooLargeError, lambda made: made.__setitem__("b", 11)),
            },
        ),
        "put_if_fits": Call(
            lambda made: {"key": "c", "value": 2},
            {"key": UNHASHABLE, "value": NO_SIZE},
            misuse={"what is pinned leaves too little": (AllPinnedError, lambda made: made.put_if_fits("c", 8))},
        ),
        "pop": Call(lambda made: {"key": "b"}, {"key": UNHASHABLE}, {"default": "any"}),
        "pin": Call(lambda made: {"key": "b"}, {"key": {**UNHASHABLE, "what is absent": always("z")}}),
        "size_of": Call(lambda made: {"key": "b"}, {"key": UNHASHABLE}),
        "getsizeof": Call(lambda made: {"value": 3}, {"value": NO_SIZE}),
    },
    dict.fromkeys(("stat", "popitem", "remove_oldest", "clear", "keys", "values", "items"), "flags only"),
)


def ghostly() -> Any:
    """As `lru`, and a ghost that is newer than both."""
    made: GhostLRUCache[str, int] = GhostLRUCache(10, getsizeof=lambda value: value)
    made.put("a", 3)
    made.put("b", 4)
    made.pin("a")
    made.touch("ghost")
    return made


def with_the_oldest_a_ghost(made: Any) -> Any:
    """All entries are newer than the ghost."""
    made.touch("a")
    made.touch("b")
    return made


AS_RELEASED = {"what is pinned leaves too little"}
"""What is refused after others were evicted: the fault of that era, and no bad input (C-LRU-1)."""
GHOST_LRU = Face(
    GhostLRUCache,
    ghostly,
    ProcessorCacheError,
    {
        name: call._replace(misuse={what: one for what, one in call.misuse.items() if what not in AS_RELEASED})
        for name, call in LRU.calls.items()
    },
    LRU.open,
)

ENDLESS = Face(
    None,
    lambda: with_the_oldest_a_ghost(ghostly()),
    ProcessorCacheError,
    {
        "put": Call(
            lambda made: {},
            misuse={
                "the oldest is a ghost": (EndlessEvictionError, lambda made: made.put("c", 7)),
                "by another method": (EndlessEvictionError, lambda made: made.__setitem__("c", 7)),
                "everything is to go": (EndlessEvictionError, lambda made: made.clear()),
            },
            works=False,
        )
    },
)


def only_pinned() -> Any:
    made = lru()
    made.pin("b")
    return made


PINNED = Face(
    None,
    only_pinned,
    ProcessorCacheError,
    {
        "popitem": Call(
            lambda made: {},
            misuse={
                "nothing may go": (AllPinnedError, lambda made: made.popitem()),
                "nothing may go, by another name": (AllPinnedError, lambda made: made.remove_oldest()),
                "what is absent": (NotThereError, lambda made: made["z"]),
                "what is absent, to be removed": (NotThereError, lambda made: made.__delitem__("z")),
            },
            works=False,
        )
    },
)


def model_config(gigabytes: Any = 100 / GIB) -> Any:
    mm_config = SimpleNamespace(mm_processor_cache_gb=gigabytes, mm_processor_cache_type="lru")
    return SimpleNamespace(get_multimodal_config=lambda: mm_config, supports_multimodal_inputs=True)


def item(size: int = 40) -> Any:
    return {"pixels": torch.zeros(size, dtype=torch.uint8)}


CONFIG: Sort = {
    "nothing": always(None),
    "something else": always(object()),
    **within(amount(), model_config, "mm_processor_cache_gb: "),
}
ITEM: Sort = {
    "not cached and not given": always(None),
    "no pair": always(item()),
    "a number": always(3),
    "three": always((item(), [], 3)),
    "without a leaf": always(({}, [])),
}
HASH: Sort = one_of(None, 3, ["a"])
HASHES: Sort = {
    **one_of(None, 3, "ab", [None, "d"], [3, "d"]),
    "too few": always(["c"]),
    "too many": always(list("cde")),
}
ITEMS: Sort = {
    **one_of(None, 3),
    "too few": always([(item(), [])]),
    "one is not cached and not given": always([(item(), []), None]),
    "one is no pair": always([(item(), []), 3]),
    "one has no leaf": always([(item(), []), ({}, [])]),
}
SAYS = ("item", "hash", "cached", "key", "leaf", "retry with the data")


def frontend(kind: Any) -> Any:
    def made() -> Any:
        cache = kind(model_config())
        cache.get_and_update([(item(), ["update"]), (item(30), [])], ["a", "b"])
        return cache

    return made


def walks(**more: Call) -> dict[str, Call]:
    return {
        "get_and_update_item": Call(
            lambda made: {"mm_item": (item(), []), "mm_hash": "c"}, {"mm_item": ITEM, "mm_hash": HASH}, says=SAYS
        ),
        "get_and_update": Call(
            lambda made: {"mm_items": [(item(), []), (item(), [])], "mm_hashes": ["c", "d"]},
            {"mm_items": ITEMS, "mm_hashes": HASHES},
            misuse={
                "evicts what it is about to use": (
                    ItemNotCachedError,
                    lambda made: made.get_and_update([(item(90), []), None], ["c", "a"]),
                ),
                "as many hashes": (NotAlikeError, lambda made: made.get_and_update([None], ["a", "b"])),
            },
            says=SAYS,
        ),
        **more,
    }


def of_frontend(kind: Any) -> Face:
    return Face(
        kind,
        frontend(kind),
        ProcessorCacheError,
        walks(
            __init__=Call(lambda made: {"model_config": model_config()}, {"model_config": CONFIG}),
            is_cached_item=Call(lambda made: {"mm_hash": "a"}, {"mm_hash": HASH}, says=SAYS),
            is_cached=Call(lambda made: {"mm_hashes": ["a"]}, {"mm_hashes": one_of(None, 3, "a", [3])}, says=SAYS),
            touch_sender_cache_item=Call(lambda made: {"mm_hash": "a"}, {"mm_hash": HASH}, says=SAYS),
            invalidate=Call(lambda made: {"mm_hash": "a"}, {"mm_hash": HASH}, says=SAYS),
            found=Call(lambda made: {"kept": None}, {}, {"kept": "made by the cache"}, works=False),
        ),
        dict.fromkeys(("release_sender_touches", "make_stats", "clear_cache", "close"), "flags only"),
    )


def receiver() -> Any:
    made = MultiModalReceiverCache(model_config())
    made.get_and_update([item(), item(30)], ["a", "b"])
    return made


def features(*pairs: Any) -> list[Any]:
    return [SimpleNamespace(data=data, identifier=name) for data, name in pairs]


UNSIZED: Sort = {"without a leaf": always({}), "not cached and not given": always(None)}
RECEIVER = Face(
    MultiModalReceiverCache,
    receiver,
    ProcessorCacheError,
    {
        "__init__": Call(lambda made: {"model_config": model_config()}, {"model_config": CONFIG}),
        "get_and_update_item": Call(
            lambda made: {"mm_item": item(), "mm_hash": "c"}, {"mm_item": UNSIZED, "mm_hash": HASH}, says=SAYS
        ),
        "get_and_update": Call(
            lambda made: {"mm_items": [item(), item()], "mm_hashes": ["c", "d"]},
            {
                "mm_items": {**one_of(None), "too few": always([item()]), "one has no leaf": always([item(), {}])},
                "mm_hashes": HASHES,
            },
            says=SAYS,
        ),
        "get_and_update_features": Call(
            lambda made: {"mm_features": features((item(), "c"))},
            {
                "mm_features": {
                    **one_of(None, 3, [3]),
                    "without identifier": always([SimpleNamespace(data=None)]),
                    "identifier is none": always(features((item(), None))),
                    "the second has no leaf": always(features((item(), "c"), ({}, "d"))),
                }
            },
            misuse={
                "what is missed": (
                    MultiModalCacheMissError,
                    lambda made: made.get_and_update_features(features((None, "z"))),
                )
            },
            says=(*SAYS, "feature"),
        ),
        "touch_receiver_cache_item": Call(
            lambda made: {"mm_hash": "a"}, {"mm_hash": HASH}, {"mm_item": "not read"}, says=SAYS
        ),
    },
    {"clear_cache": "takes nothing"},
)


def vllm_config(**more: Any) -> Any:
    parallel = SimpleNamespace(
        data_parallel_external_lb=False, data_parallel_size=1, _api_process_count=1, world_size=1
    )
    return SimpleNamespace(**{"model_config": model_config(), "parallel_config": parallel, **more})


def unknown_type() -> Any:
    mm_config = SimpleNamespace(mm_processor_cache_gb=1, mm_processor_cache_type="magic")
    return vllm_config(
        model_config=SimpleNamespace(get_multimodal_config=lambda: mm_config, supports_multimodal_inputs=True)
    )


WHOLE: Sort = {
    **lacking("model_config", "parallel_config"),
    "an unknown mm_processor_cache_type": always(unknown_type()),
    "mm_processor_cache_gb is a text": always(vllm_config(model_config=model_config("much"))),
}
TOLD = ("model_config", "parallel_config", "mm_processor_cache")


def chooses(function: Any, bad: Sort, name: str = "vllm_config", **good: Any) -> Face:
    free = {"mm_registry": "asked only where it is given"}
    if name == "vllm_config":
        free["balanced_outside"] = "a flag"
    return Face(
        function,
        lambda: function,
        ProcessorCacheError,
        {
            "__call__": Call(
                lambda made: {name: vllm_config(), **good},
                {name: bad},
                free,
                says=TOLD,
            )
        },
    )


FACES = {
    "LRUCache": LRU,
    "LRUCache, pinned": PINNED,
    "GhostLRUCache": GHOST_LRU,
    "GhostLRUCache, the oldest a ghost": ENDLESS,
    "MultiModalProcessorOnlyCache": of_frontend(MultiModalProcessorOnlyCache),
    "MultiModalProcessorSenderCache": of_frontend(MultiModalProcessorSenderCache),
    "MultiModalReceiverCache": RECEIVER,
    "processor_cache_from_config": chooses(processor_cache_from_config, WHOLE),
    "engine_receiver_cache_from_config": chooses(engine_receiver_cache_from_config, WHOLE),
    "processor_only_cache_from_config": chooses(
        processor_only_cache_from_config, {"nothing": always(None), "something else": always(object())}, "config"
    ),
    "worker_receiver_cache_from_config": Face(
        worker_receiver_cache_from_config,
        lambda: worker_receiver_cache_from_config,
        ProcessorCacheError,
        {
            "__call__": Call(
                lambda made: {"vllm_config": vllm_config(), "*arguments": (None,)},
                {"vllm_config": WHOLE, "*arguments": one_of((), (1, 2, 3))},
                {"balanced_outside": "a flag"},
                says=(*TOLD, "shared_worker_lock", "arguments"),
            )
        },
    ),
}
