"""Events as a subscriber of a release decodes them. The structs below have its fields, types and encodings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.impl.interfaces.kv_requests import LaterRequest, adapter

from cacheimpl.kv_cache_manager import BlockRemoved, BlockStored, KVCacheManager, LaterKVCacheManager

Hash = bytes | int


class Batch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """What a publisher sends, in every release."""

    ts: float
    events: list[Any]
    data_parallel_rank: int | None = None


class Map(msgspec.Struct, omit_defaults=True, gc=False, tag=True): ...


class Array(msgspec.Struct, array_like=True, omit_defaults=True, gc=False, tag=True): ...


class StoredMap(Map, tag="BlockStored"):
    """0.33.0."""

    block_hashes: list[Hash]
    parent_block_hash: Hash | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list[tuple[Any, ...] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: str | None = None
    ownership: str | None = None
    session_id: str | None = None
    lookahead_token_ids: list[list[int]] | None = None


class RemovedMap(Map, tag="BlockRemoved"):
    block_hashes: list[Hash]
    medium: str | None
    group_idx: int | None = None
    locality: str | None = None
    ownership: str | None = None


class ClearedMap(Map, tag="AllBlocksCleared"): ...


class StoredArray(Array, tag="BlockStored"):
    """0.11.0 has the fields up to `medium`, 0.20.2 all of these."""

    block_hashes: list[Hash]
    parent_block_hash: Hash | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None = None
    extra_keys: list[tuple[Any, ...] | None] | None = None
    group_idx: int | None = None


class EarliestStoredArray(Array, tag="BlockStored"):
    block_hashes: list[Hash]
    parent_block_hash: Hash | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None


class RemovedArray(Array, tag="BlockRemoved"):
    block_hashes: list[Hash]
    medium: str | None


class ClearedArray(Array, tag="AllBlocksCleared"): ...


class Maps(Batch):
    events: list[StoredMap | RemovedMap | ClearedMap]


class Arrays(Batch):
    events: list[StoredArray | RemovedArray | ClearedArray]


class EarliestArrays(Batch):
    events: list[EarliestStoredArray | RemovedArray | ClearedArray]


NEWEST: dict[str, Any] = {"scheduler_block_size": 16, "hash_block_size": 16}
OLDER: dict[str, Any] = {}


def spec(name: str, **more: Any) -> Any:
    return SimpleNamespace(kv_cache_spec=type(name, (), {"block_size": 16, **more})())


def told(groups: list[Any], sizes: dict[str, Any]) -> list[Any]:
    """Two blocks are filled, one is evicted by number, and then all are gone."""
    made = KVCacheManager(
        SimpleNamespace(num_blocks=9, kv_cache_groups=groups), max_model_len=64, enable_kv_cache_events=True, **sizes
    )
    assert isinstance(made, LaterKVCacheManager)
    items = [SimpleNamespace(identifier="cat", mm_position=SimpleNamespace(offset=4, length=8))]
    request = LaterRequest("0", [7] * 33, items, cache_salt="salt", lora_request=adapter(7))
    request.session_id = "session"  # type: ignore[attr-defined]  # what some requests have
    made.allocate_slots(request, 33)
    request.num_computed_tokens = 33
    made.free(request)
    made.evict_blocks({2})
    assert made.reset_prefix_cache()
    return made.take_events()


def received(events: list[Any], kind: type[Batch]) -> Any:
    """As the publisher encodes, and a subscriber decodes."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(Batch(1.0, events, 0)), type=kind).events


@pytest.mark.parametrize(("sizes", "kind"), [(NEWEST, Maps), (OLDER, Arrays), (OLDER, EarliestArrays)])
def test_a_subscriber_decodes_every_event(sizes: dict[str, Any], kind: type[Batch]) -> None:
    events = told([spec("FullAttentionSpec")], sizes)
    got = received(events, kind)
    names = ["BlockStored", "BlockRemoved", "AllBlocksCleared"]
    assert [type(event).__name__ for event in events] == names
    assert [event.__struct_config__.tag for event in got] == names
    stored, removed, _ = got
    assert (len(stored.block_hashes), stored.token_ids, stored.block_size) == (2, [7] * 32, 16)
    assert (stored.parent_block_hash, stored.medium, stored.lora_id) == (None, "GPU", 7)
    assert removed.block_hashes == stored.block_hashes[1:]
    assert all(0 <= block_hash < 2**64 for block_hash in stored.block_hashes)


@pytest.mark.parametrize("sizes", [NEWEST, OLDER])
def test_a_subscriber_of_another_encoding_decodes_nothing(sizes: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        received(told([spec("FullAttentionSpec")], sizes), Arrays if sizes else Maps)


def test_what_a_block_depends_on() -> None:
    for sizes, kind in ((NEWEST, Maps), (OLDER, Arrays)):
        stored = received(told([spec("FullAttentionSpec")], sizes), kind)[0]
        assert stored.lora_name == "adapter 7"
        assert [*map(list, stored.extra_keys)] == [["adapter 7", ["cat", 4], "salt"], ["adapter 7"]]
        assert stored.group_idx == 0


def test_the_kind_of_each_group_and_the_session() -> None:
    groups = [spec("FullAttentionSpec"), spec("SlidingWindowSpec", sliding_window=32)]
    stored = [event for event in received(told(groups, NEWEST), Maps) if isinstance(event, StoredMap)]
    assert [(one.group_idx, one.kv_cache_spec_kind, one.kv_cache_spec_sliding_window) for one in stored] == [
        (0, "full_attention", None),
        (1, "sliding_window", 32),
    ]
    assert {one.session_id for one in stored} == {"session"}


def test_events_can_be_counted() -> None:
    """Aggregators over workers keep them in a mapping."""
    one, other = told([spec("FullAttentionSpec")], NEWEST), told([spec("FullAttentionSpec")], NEWEST)
    assert len({*one, *other}) == 3
    assert isinstance(one[0], BlockStored)
    assert isinstance(one[1], BlockRemoved)
    assert isinstance(told([spec("FullAttentionSpec")], OLDER)[0], BlockStored)
