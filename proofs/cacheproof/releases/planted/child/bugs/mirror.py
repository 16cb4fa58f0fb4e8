"""Bugs on either side of the mirrored processor cache, and in what is between them."""

from __future__ import annotations

from typing import Any

from .declaring import Place

CACHES, LRU = "vllm.multimodal.cache", "vllm.multimodal.cache.lru"
SENDER = Place(
    f"{LRU}:LruKeyReplicatedSenderCache",
    f"{CACHES}:LruKeyReplicatedSenderCache",
    f"{CACHES}:MultiModalProcessorSenderCache",
)
RECEIVER = Place(
    f"{LRU}:LruKeyReplicatedReceiverCache",
    f"{CACHES}:LruKeyReplicatedReceiverCache",
    f"{CACHES}:MultiModalReceiverCache",
)
FEATURES = Place("vllm.multimodal.cache.base:BaseMultiModalReceiverCache", f"{CACHES}:BaseMultiModalReceiverCache")
MEASURE = Place("vllm.multimodal.cache.base:MultiModalCache", f"{CACHES}:MultiModalCache")
PROCESSOR = Place(
    "vllm.multimodal.processing.processor:BaseMultiModalProcessor", "vllm.multimodal.processing:BaseMultiModalProcessor"
)
RENDERER = Place("vllm.renderers.base:BaseRenderer")
CLIENT, SERVER = (Place(f"vllm.v1.engine.mm_input_cache:MMInputCache{side}") for side in ("Client", "Server"))
WEIGHING, TOUCHING, REPAIRING, COUNTING = "0.11.0", "0.20.2", "0.33.0", "0.7.3"
"""From the first on, items are weighed; from the next on, all of a request are touched before any is updated; from the
third on, a miss at P1 is repaired. Until the last, entries are counted."""


@SENDER.broken("get_and_update_item", since=WEIGHING)
def hit_keeps_its_data(released: Any, cache: Any, item: Any, key: str) -> Any:
    """P0 sends the data of a new item and does not record it."""
    return released(item, key) if item is None else item


@SENDER.broken("get_and_update_item", since=WEIGHING)
def data_is_left_out(released: Any, cache: Any, item: Any, key: str) -> Any:
    """P0 sends a new item without its data."""
    return None, released(item, key)[1]


@SENDER.broken("touch_sender_cache_item", since=TOUCHING)
def sender_does_not_touch(released: Any, cache: Any, key: str) -> Any:
    """P0 does not touch the items of a request before it updates them, and P1 does."""


@SENDER.broken("is_cached_item", since=WEIGHING)
def asking_is_a_use(released: Any, cache: Any, key: str) -> Any:
    """Asking P0 for an item makes it the newest."""
    there = released(key)
    if there:
        cache._cache[key]
    return there


@SENDER.broken("clear_cache", since=WEIGHING)
def sender_is_not_cleared(released: Any, cache: Any) -> Any:
    """A reset leaves P0 as it was."""


@SENDER.broken("invalidate", since=REPAIRING)
def miss_is_not_repaired(released: Any, cache: Any, key: str) -> Any:
    """P0 keeps an entry that P1 has missed."""


@RECEIVER.broken("get_and_update_item", since=WEIGHING)
def receiver_keeps_nothing(released: Any, cache: Any, item: Any, key: str) -> Any:
    """P1 returns the received items and does not cache them."""
    return released(item, key) if item is None else item


@RECEIVER.broken("get_and_update_item", since=WEIGHING)
def another_item_is_taken(released: Any, cache: Any, item: Any, key: str) -> Any:
    """P1 returns its oldest item instead of the requested one."""
    if item is None and key in cache._cache:
        released(item, key)
        return released(None, next(iter(cache._cache.order)))
    return released(item, key)


@RECEIVER.broken("get_and_update_item", since=REPAIRING)
def first_one_stays(released: Any, cache: Any, item: Any, key: str) -> Any:
    """P1 keeps the old item when another is sent under the same key."""
    there = item is not None and key in cache._cache
    return cache._cache.get(key) if there else released(item, key)


@RECEIVER.broken("touch_receiver_cache_item", since=TOUCHING)
def receiver_does_not_touch(released: Any, cache: Any, key: str, item: Any = None) -> Any:
    """P1 does not touch the items of a request before it updates them, and P0 does."""


@RECEIVER.broken("clear_cache", since=WEIGHING)
def receiver_is_not_cleared(released: Any, cache: Any) -> Any:
    """A reset leaves P1 as it was."""


@FEATURES.broken("get_and_update_features", since=WEIGHING)
def from_last_to_first(released: Any, cache: Any, features: Any) -> Any:
    """P1 walks the items of a request from the last to the first."""
    released(features[::-1])
    return features


@FEATURES.broken("get_and_update_features", since=REPAIRING)
def first_miss_ends_it(released: Any, cache: Any, features: Any) -> Any:
    """P1 reports only the first item that it misses."""
    for feature in features:
        cache.touch_receiver_cache_item(feature.mm_hash, feature.data)
    for feature in features:
        feature.data = cache.get_and_update_item(feature.data, feature.mm_hash)
    return features


@MEASURE.broken("get_item_size", since=WEIGHING)
def one_byte_each(released: Any, caches: Any, value: Any, *, debug: bool = False) -> Any:
    """Every item counts as one byte on both sides."""
    return 1


@MEASURE.broken("get_leaf_size", since=WEIGHING)
def described_is_small(released: Any, caches: Any, leaf: object) -> Any:
    """An item counts as one byte at P0 and with its size at P1."""
    return 1 if hasattr(leaf, "item_size") else released(leaf)


@PROCESSOR.broken("_merge_mm_kwargs", since=WEIGHING)
def modalities_from_the_last(released: Any, processor: Any, cache: Any, **named: Any) -> Any:
    """P0 updates the last modality first, and sends the items in their order."""
    turned = {**named, "mm_hashes": dict(reversed(named["mm_hashes"].items()))}
    return released(cache, **turned)


@RENDERER.broken("queue_mm_cache_invalidations", since=REPAIRING)
def one_miss_is_forgotten(released: Any, renderer: Any, keys: Any) -> Any:
    """P0 does not learn of the first item that P1 misses."""
    return released(list(keys)[1:])


@RENDERER.broken("_drain_mm_cache_invalidations", since=REPAIRING)
def misses_wait_for_another(released: Any, renderer: Any) -> Any:
    """P0 drops a missed item only when another one is missed too."""
    if len(renderer._pending_mm_cache_invalidations) > 1:
        released()


@CLIENT.broken("process_inputs", until=COUNTING)
def client_remembers_nothing(released: Any, client: Any, **named: Any) -> Any:
    """P0 forgets the last item of a request at once."""
    sent = released(**named)
    client.mm_cache.pop(named["mm_hashes"][-1])
    return sent


@CLIENT.broken("process_inputs", until=COUNTING)
def client_from_last_to_first(released: Any, client: Any, **named: Any) -> Any:
    """P0 walks the items of a request from the last to the first."""
    turned = ("mm_hashes", "precomputed_mm_inputs")
    return released(**{**named, **{name: named[name][::-1] for name in turned}})[::-1]


@SERVER.broken("get_and_update", until=COUNTING)
def server_keeps_nothing(released: Any, server: Any, inputs: Any, keys: Any) -> Any:
    """P1 does not keep the last item of a request."""
    got = released(inputs, keys)
    server.mm_cache.pop(keys[-1])
    return got


@SERVER.broken("get_and_update", until=COUNTING)
def first_data_stays(released: Any, server: Any, inputs: Any, keys: Any) -> Any:
    """P1 keeps the old item when another is sent under the same key."""
    return released([None if key in server.mm_cache else one for one, key in zip(inputs, keys, strict=True)], keys)


@SERVER.broken("get_and_update", until=COUNTING)
def server_has_room_for_one_more(released: Any, server: Any, inputs: Any, keys: Any) -> Any:
    """P1 keeps one entry more than P0."""
    if not hasattr(server, "grown"):
        server.grown = True
        server.mm_cache.capacity += 1
    return released(inputs, keys)
