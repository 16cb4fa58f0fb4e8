"""What is ours alone in `KVCacheManager`: clear errors, exact contents, and what the releases cannot be asked."""

from __future__ import annotations

import gc
import inspect
from types import SimpleNamespace
from typing import Any, get_overloads

import pytest
import torch
from tests.impl.interfaces.kv_requests import EarlyRequest, LaterRequest, kv_cache_config, later_manager, later_request
from tests.planting import Change, planted

from cacheimpl.kv_cache_manager import (
    NORMATIVE,
    EarlyKVCacheManager,
    KVCacheBlock,
    KVCacheBlocks,
    KVCacheManager,
    KVCacheManagerError,
    LaterKVCacheManager,
    Register,
    generate_block_hash_extra_keys,
)
from cacheimpl.kv_cache_manager.chains import Chains
from cacheimpl.kv_cache_manager.contents import Content, alike
from cacheimpl.kv_cache_manager.errors import (
    AlreadyAllocatedError,
    ForeignBlockError,
    InvalidCountError,
    NoFreeBlocksError,
    NotRunningError,
    RequestMismatchError,
    StaleBlocksError,
    StaleCountError,
    TooManyTokensError,
    UnknownRequestError,
    UnsupportedError,
)

torch.set_num_threads(1)


def manager_of(blocks: int, **named: Any) -> EarlyKVCacheManager:
    made = KVCacheManager(block_size=4, num_gpu_blocks=blocks, max_model_len=32, num_preallocate_tokens=0, **named)
    assert isinstance(made, EarlyKVCacheManager)
    return made


def state(manager: EarlyKVCacheManager) -> Any:
    return (
        [block.block_id for block in manager.free_block_queue.get_all_free_blocks()],
        [block.ref_cnt for block in manager.block_pool],
        [block.block_hash for block in manager.block_pool],
        {name: list(blocks) for name, blocks in manager.req_to_blocks.items()},
        {key: list(blocks) for key, blocks in manager.cached_block_hash_to_block.items()},
        manager.num_cached_block,
    )


@pytest.fixture
def used() -> EarlyKVCacheManager:
    """Eight blocks: `one` runs with three, of which two are written; two of `two`, which is over, can be found."""
    manager = manager_of(8)
    one, two = EarlyRequest("one", [1] * 12), EarlyRequest("two", [2] * 9)
    manager.allocate_slots(one, 12)
    manager.commit(one, 9)
    manager.allocate_slots(two, 9)
    two.num_computed_tokens = 9
    manager.free(two)
    return manager


def one(**named: Any) -> EarlyRequest:
    return EarlyRequest("one", [1] * 16, num_computed_tokens=9, **named)


@pytest.mark.parametrize(
    ("error", "misuse"),
    [
        (InvalidCountError, lambda m: m.allocate_slots(EarlyRequest("new", [3] * 4), 0)),
        (InvalidCountError, lambda m: m.allocate_slots(EarlyRequest("new", [3] * 4), -3)),
        (InvalidCountError, lambda m: m.allocate_slots(EarlyRequest("new", [3] * 4), 1.5)),
        (InvalidCountError, lambda m: m.allocate_slots(EarlyRequest("new", [3], num_computed_tokens=-1), 1)),
        (TooManyTokensError, lambda m: m.allocate_slots(EarlyRequest("new", [3] * 4), 33)),
        (StaleCountError, lambda m: m.allocate_slots(EarlyRequest("new", [3] * 9, num_computed_tokens=4), 4)),
        (StaleCountError, lambda m: m.append_slots(EarlyRequest("one", [1] * 16, num_computed_tokens=13), 1)),
        (StaleCountError, lambda m: m.append_slots(EarlyRequest("one", [1] * 16, num_computed_tokens=8), 1)),
        (StaleBlocksError, lambda m: m.allocate_slots(EarlyRequest("new", [3] * 9), 1, m.block_pool[:1])),
        (StaleBlocksError, lambda m: m.allocate_slots(EarlyRequest("new", [2] * 3), 1, m.block_pool[3:4])),
        (StaleBlocksError, lambda m: m.allocate_slots(EarlyRequest("new", [1] * 13), 1, m.req_to_blocks["one"])),
        (AlreadyAllocatedError, lambda m: m.allocate_slots(one(), 1, m.block_pool[:2])),
        (ForeignBlockError, lambda m: m.allocate_slots(EarlyRequest("new", [1] * 9), 1, [KVCacheBlock(0)])),
        (ForeignBlockError, lambda m: m.allocate_slots(EarlyRequest("new", [1] * 9), 1, [KVCacheBlock(99)])),
        (ForeignBlockError, lambda m: m.allocate_slots(EarlyRequest("new", [1] * 9), 1, [0])),
        (ForeignBlockError, lambda m: m.evict_blocks({0, 8})),
        (ForeignBlockError, lambda m: m.evict_blocks([0, -1])),
        (UnknownRequestError, lambda m: m.append_slots(EarlyRequest("new", [3] * 4), 1)),
        (KeyError, lambda m: m.append_slots(EarlyRequest("new", [3] * 4), 1)),
        (UnknownRequestError, lambda m: m.get_num_common_prefix_blocks(EarlyRequest("new", [3]), 1)),
        (InvalidCountError, lambda m: m.get_num_common_prefix_blocks(one(), 0)),
        (NotRunningError, lambda m: m.get_num_common_prefix_blocks(one(status=SimpleNamespace(name="WAITING")), 1)),
        (RequestMismatchError, lambda m: m.allocate_slots(EarlyRequest("one", [9] * 16, num_computed_tokens=9), 4)),
        (RequestMismatchError, lambda m: m.allocate_slots(EarlyRequest("one", [1] * 3), 3)),
        (RequestMismatchError, lambda m: m.free(EarlyRequest("one", [9] * 16))),
        (RequestMismatchError, lambda m: m.commit(EarlyRequest("one", [9] * 16), 12)),
        (UnknownRequestError, lambda m: m.commit(EarlyRequest("new", [3] * 4), 1)),
        (StaleCountError, lambda m: m.commit(one(), 13)),
        (StaleCountError, lambda m: m.commit(one(), 8)),
        (InvalidCountError, lambda m: m.commit(one(), -1)),
        (NoFreeBlocksError, lambda m: m.free_block_queue.popleft_n(6)),
        (NoFreeBlocksError, lambda m: m.free_block_queue.popleft_n(-1)),
    ],
)
def test_misuse_raises_and_changes_nothing(used: EarlyKVCacheManager, error: type[Exception], misuse: Any) -> None:
    before = state(used)
    with pytest.raises(error) as raised:
        misuse(used)
    assert isinstance(raised.value, KVCacheManagerError)
    assert state(used) == before
    assert before[0] == [5, 6, 7, 4, 3]
    assert before[5] == {"one": 2}


def test_without_room_nothing_is_registered_either(used: EarlyKVCacheManager) -> None:
    before = state(used)
    request = EarlyRequest("one", [1] * 32, num_computed_tokens=12)
    manager = used
    assert manager.allocate_slots(EarlyRequest("other", [4] * 20), 20) is not None
    held = state(manager)
    assert manager.append_slots(request, 20) is None
    assert state(manager) == held != before


@pytest.mark.parametrize("counts", [(0, 8, 32), (4, 0, 32), (4, 8, 0), (4, -1, 32), ("4", 8, 32), (4, 8, None)])
def test_a_manager_of_nothing(counts: Any) -> None:
    with pytest.raises(InvalidCountError):
        EarlyKVCacheManager(*counts)


# Exact contents -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["early", "later"])
def test_equal_hashes_cost_a_hit_and_nothing_else(shape: str) -> None:
    """Every two blocks have one hash; a hit is what it says."""
    manager: Any = manager_of(12, hash_function=lambda value: 7)
    request: Any = EarlyRequest
    if shape == "later":
        manager, request = later_manager(12, 64), later_request
        manager = KVCacheManager(kv_cache_config(12, 4), max_model_len=64, hash_function=lambda value: 7)
    for name, tokens in (("0", [1, 2, 3, 4, 5, 6, 7, 8]), ("1", [9, 2, 3, 4, 5, 6, 7, 8])):
        one = request(name, tokens)
        manager.allocate_slots(one, 8)
        one.num_computed_tokens = 8
        manager.free(one)
    for tokens in ([1, 2, 3, 4, 5, 6, 7, 8, 0], [9, 2, 3, 4, 5, 6, 7, 8, 0]):
        found = manager.get_computed_blocks(request("2", tokens))[0]
        blocks = found.blocks[0] if shape == "later" else found
        assert [block.content.token_ids for block in blocks] == [tuple(tokens[:4]), tuple(tokens[4:8])]
        assert blocks[1].content.parent is blocks[0].content


def test_keys_that_come_with_a_request_are_used_and_not_trusted() -> None:
    manager = KVCacheManager(kv_cache_config(8, 4), max_model_len=64)
    first: Any = later_request("0", [1] * 9)
    first.block_hashes = [b"a", b"b"]
    manager.allocate_slots(first, 9)
    manager.cache_blocks(first, 9)
    keys = {block_hash + bytes(4) for block_hash in (b"a", b"b")}  # they end with the number of the group
    assert set(manager.block_pool.cached_block_hash_to_block) == keys
    liar: Any = later_request("1", [2] * 9)
    liar.block_hashes = [b"a", b"b"]
    assert manager.get_computed_blocks(liar)[1] == 0
    with planted(Change(Chains._leading, "(packed($read) or b'').startswith($tokens)", "True")):
        assert manager.get_computed_blocks(liar)[1] == 8
    assert manager.block_pool.get_cached_block(b"a", [0]) == [manager.block_pool.blocks[1]]
    assert manager.block_pool.get_cached_block(b"z") is None


def test_a_block_behind_other_tokens_is_no_hit() -> None:
    """Its key and its own tokens are the same."""
    manager = KVCacheManager(kv_cache_config(8, 4), max_model_len=64)
    for name, tokens, keys in (("0", [9] * 4 + [1] * 4, [b"z", b"b"]), ("1", [1] * 4, [b"a"])):
        one: Any = later_request(name, tokens)
        one.block_hashes = keys
        manager.allocate_slots(one, len(tokens))
        manager.cache_blocks(one, len(tokens))
    third: Any = later_request("2", [1] * 9)
    third.block_hashes = [b"a", b"b"]
    assert manager.get_computed_blocks(third)[1] == 4
    with planted(Change(Chains._leading, "$parents == [None, *$contents[:-1]][:$count]", "True")):
        assert manager.get_computed_blocks(third)[1] == 8
    with planted(Change(Chains._leading, "not alike($its.parent, $parent)", "False")):
        assert manager.get_computed_blocks(third)[1] == 8


def contents_in_use() -> int:
    """How many contents there are."""
    gc.collect()
    return sum(type(one) is Content for one in gc.get_objects())


def chain(length: int, first: int = 0) -> Content:
    """The last of so many contents, each behind the other."""
    last = Content(None, (first,), None)
    for position in range(1, length):
        last = Content(last, (position,), None)
    return last


def test_contents_are_there_as_long_as_they_are_used() -> None:
    before, last = contents_in_use(), chain(50_000)
    assert contents_in_use() == before + 50_000
    del last
    assert contents_in_use() == before


def test_contents_are_compared_with_all_before_them() -> None:
    """However long the chains are; equal ones share what is before them afterwards."""
    one, other = chain(50_000), chain(50_000)
    assert alike(one, other)
    assert one is not other
    assert one.parent is other.parent
    assert not alike(one, one.parent)
    assert not alike(chain(5), chain(5, first=7))
    assert not alike(chain(1), None)
    assert not alike(chain(2), Content(chain(1), (1,), (("cache_salt", "a"),)))


def test_contents_of_a_manager_do_not_grow() -> None:
    manager, before = manager_of(4), contents_in_use()
    for number in range(50):
        request = EarlyRequest(str(number), [number] * 12)
        manager.allocate_slots(request, 12)
        request.num_computed_tokens = 12
        manager.free(request)
    assert contents_in_use() <= before + 4
    assert not manager.req_to_blocks


def test_equal_prompts_that_were_computed_at_once_are_found_by_either() -> None:
    """Two requests have copies of one prompt; a third finds the copies that are left, in a mixture of both."""
    manager = KVCacheManager(kv_cache_config(12, 4), max_model_len=64)
    pair: list[Any] = [later_request(name, [*range(16)]) for name in "01"]
    for one in pair:
        one.block_hashes = [b"a", b"b", b"c", b"d"]
        manager.allocate_slots(one, 16)
    tables = [[block.block_id for block in manager.get_blocks(one.request_id).blocks[0]] for one in pair]
    manager.cache_blocks(pair[0], 8)
    manager.evict_blocks(tables[0][:1])
    for one in reversed(pair):
        manager.cache_blocks(one, 16)
    third: Any = later_request("2", [*range(17)])
    third.block_hashes = pair[0].block_hashes
    found, tokens = manager.get_computed_blocks(third)
    assert (found.get_block_ids(), tokens) == ((tables[1],), 16)
    third.all_token_ids[5] = 99
    assert manager.get_computed_blocks(third)[1] == 4


def test_whatever_a_block_depends_on_is_named_with_its_sort() -> None:
    embeds = torch.arange(8, dtype=torch.bfloat16).reshape(4, 2)
    request = LaterRequest("0", [0] * 4, prompt_embeds=embeds, cache_salt="cat")
    keys, _ = generate_block_hash_extra_keys(request, 0, 2, 0)
    assert keys is not None
    assert [key[0] for key in keys] == ["cache_salt", "prompt_embeds"]
    changed = LaterRequest("1", [0] * 4, prompt_embeds=embeds + 1, cache_salt="cat")
    assert generate_block_hash_extra_keys(changed, 0, 2, 0)[0] != keys
    assert generate_block_hash_extra_keys(request, 2, 4, 0)[0] is not None
    with pytest.raises(ValueError, match="1 items, and 0 hashes"):
        generate_block_hash_extra_keys(EarlyRequest("2", [0] * 4, mm_positions=[{"offset": 0, "length": 1}]), 0, 4, 0)


# What a request is told ---------------------------------------------------------------------------------------------


class KeepingRequest(EarlyRequest):
    """A request that keeps the keys of its blocks, as in January 2025."""

    def __init__(self, request_id: str, all_token_ids: list[int]) -> None:
        super().__init__(request_id, all_token_ids)
        self.kv_block_hashes: list[Any] = []

    def set_kv_block_hashes(self, value: list[Any]) -> None:
        self.kv_block_hashes = value


def test_a_request_that_keeps_keys_is_told_them() -> None:
    manager, request = manager_of(8), KeepingRequest("0", [1] * 10)
    manager.get_computed_blocks(request)
    assert [key.token_ids for key in request.kv_block_hashes] == [(1,) * 4] * 2
    manager.allocate_slots(request, 10)
    request.num_computed_tokens = 10
    request.all_token_ids.extend([1] * 2)
    manager.append_slots(request, 2)
    assert len(request.kv_block_hashes) == 3
    assert [block.block_hash for block in manager.block_pool[:2]] == request.kv_block_hashes[:2]


def test_only_commit_counts_where_that_is_asked() -> None:
    manager = manager_of(8, rules=NORMATIVE._replace(register=Register.COMMITTED))
    request = EarlyRequest("0", [1] * 10)
    manager.allocate_slots(request, 9)
    request.num_computed_tokens = 9
    manager.append_slots(request, 1)
    assert manager.get_computed_blocks(EarlyRequest("1", [1] * 10)) == ([], 0)
    manager.commit(request, 9)
    assert manager.get_computed_blocks(EarlyRequest("1", [1] * 10))[1] == 8


def test_without_caching_nothing_is_hashed_or_registered() -> None:
    def never(value: Any) -> int:
        raise AssertionError("nothing is hashed")

    manager = manager_of(8, enable_caching=False, hash_function=never)
    request = EarlyRequest("0", [1] * 10)
    manager.allocate_slots(request, 9)
    request.num_computed_tokens = 9
    manager.append_slots(request, 1)
    manager.commit(request, 10)
    assert all(block.block_hash is None for block in manager.block_pool)
    with pytest.raises(StaleBlocksError):
        manager.allocate_slots(EarlyRequest("1", [1] * 10), 5, manager.block_pool[:1])
    manager.free(request)
    assert manager.free_block_queue.num_free_blocks == 8


def test_what_was_looked_up_is_counted() -> None:
    manager = manager_of(8)
    manager.get_computed_blocks(EarlyRequest("0", [1] * 9))
    stats = manager.make_prefix_cache_stats()
    assert stats is not None
    assert (stats.requests, stats.queries, stats.hits, stats.reset) == (1, 2, 0, False)
    manager.reset_prefix_cache()
    again = manager.make_prefix_cache_stats()
    assert again is not None
    assert (again.requests, again.reset) == (0, True)


# The later shape ----------------------------------------------------------------------------------------------------


def test_the_first_argument_tells_the_shape() -> None:
    assert isinstance(KVCacheManager(16, 10, 100), EarlyKVCacheManager)
    assert isinstance(KVCacheManager(kv_cache_config(10), 100), LaterKVCacheManager)
    assert KVCacheManager(16, 10, 100).num_preallocate_blocks == 4


def test_the_shape_of_0_33_says_a_third_thing() -> None:
    manager = KVCacheManager(kv_cache_config(10), 100, scheduler_block_size=16, hash_block_size=16)
    assert manager.get_computed_blocks(later_request("0", [1] * 20)) == (KVCacheBlocks(([],)), 0, 0)
    skipping = SimpleNamespace(request_id="1", all_token_ids=[1] * 20, skip_reading_prefix_cache=True)
    assert manager.get_computed_blocks(skipping)[1:] == (0, 0)


@pytest.mark.parametrize(
    ("error", "config", "settings"),
    [
        (UnsupportedError, kv_cache_config(8, groups=0), {"hash_block_size": 16}),
        (UnsupportedError, kv_cache_config(8), {"hash_block_size": 24}),
        (UnsupportedError, kv_cache_config(8), {"num_hash_lookahead_tokens": 1, "use_eagle": True}),
        (UnsupportedError, kv_cache_config(8), {"num_hash_lookahead_tokens": 2, "num_prefill_lookahead": 2}),
        (UnsupportedError, kv_cache_config(8, groups=2), {"pcp_world_size": 2}),
        (TypeError, kv_cache_config(8), {"no_such_setting": 1}),
        (InvalidCountError, kv_cache_config(8), {"watermark": -0.5}),
        (InvalidCountError, kv_cache_config(1), {}),
    ],
)
def test_what_a_later_manager_cannot_be(error: type[Exception], config: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(error):
        LaterKVCacheManager(config, 100, **settings)


def test_both_shapes_are_made_by_one_name() -> None:
    early, later = KVCacheManager(4, 8, 32), KVCacheManager(kv_cache_config(8), 32)
    assert (type(early), type(later)) == (EarlyKVCacheManager, LaterKVCacheManager)
    assert isinstance(early, KVCacheManager)
    assert isinstance(later, KVCacheManager)
    assert not isinstance(early, LaterKVCacheManager)

    class Own(LaterKVCacheManager):
        """An engine may derive its own."""

    assert isinstance(Own(kv_cache_config(8), 32), KVCacheManager)


def test_one_name_takes_what_the_shapes_take() -> None:
    """The overloads, by which type checkers judge a call, are the constructors."""
    overloads = [inspect.signature(overload) for overload in get_overloads(KVCacheManager.__new__)]
    shapes = [inspect.signature(shape.__init__) for shape in (EarlyKVCacheManager, LaterKVCacheManager)]

    def parameters(signature: inspect.Signature) -> list[tuple[Any, ...]]:
        return [
            (each.name, each.kind, each.default, each.annotation) for each in list(signature.parameters.values())[1:]
        ]

    assert [parameters(overload) for overload in overloads] == [parameters(shape) for shape in shapes]


def test_groups_of_layers_share_a_pool_and_nothing_else() -> None:
    manager = LaterKVCacheManager(kv_cache_config(12, 4, groups=2), 100)
    first = later_request("0", [1] * 9)
    given = manager.allocate_slots(first, 9)
    assert given is not None
    assert given.get_block_ids() == manager.get_block_ids("0") == ([1, 2, 3], [4, 5, 6])
    manager.cache_blocks(first, 9)
    full, window = manager.coordinator.single_type_managers
    assert full.req_to_blocks["0"] == manager.block_pool.blocks[1:4]
    keys = [block.block_hash for block in manager.block_pool.blocks[1:7]]
    assert keys[0][0] == keys[3][0]
    assert keys[0] != keys[3]
    assert manager.block_pool.get_cached_block(keys[0][0], [0, 1]) == [
        full.req_to_blocks["0"][0],
        window.req_to_blocks["0"][0],
    ]
    found, computed = manager.get_computed_blocks(later_request("1", [1] * 9))
    assert (found.get_block_ids(), computed) == (([1, 2], [4, 5]), 8)
    manager.evict_blocks({5})
    assert manager.get_computed_blocks(later_request("1", [1] * 9))[1] == 4
    swapped = KVCacheBlocks((found.blocks[1][:1], found.blocks[0][:1]))
    with pytest.raises(StaleBlocksError):
        manager.allocate_slots(later_request("1", [1] * 9), 5, 4, swapped)
    assert manager.allocate_slots(later_request("2", [2] * 12), 12) is None
    manager.free(first)
    assert manager.block_pool.get_num_free_blocks() == 11


def test_a_block_of_another_group_is_evicted_with_what_stands_behind_it() -> None:
    specs = [SimpleNamespace(kv_cache_spec=SimpleNamespace(block_size=4)) for _ in range(2)]
    config = SimpleNamespace(num_blocks=12, kv_cache_groups=specs)
    manager, first = KVCacheManager(config, max_model_len=64), later_request("0", [1] * 9)
    manager.allocate_slots(first, 9)
    manager.cache_blocks(first, 9)
    manager.evict_blocks({4})
    kept = [block.block_id for block in manager.block_pool.blocks if block.block_hash is not None]
    assert kept == [1, 2]


def test_room_that_must_be_left() -> None:
    manager = later_manager(6, 64, watermark=0.34)
    waiting = later_request("0", [1] * 33)
    waiting.status = SimpleNamespace(name="WAITING")
    assert manager.watermark_blocks == 2
    assert manager.allocate_slots(waiting, 33, reserved_blocks=1) is None
    larger = later_request("1", [1] * 49)
    larger.status = waiting.status
    assert manager.allocate_slots(larger, 16, full_sequence_must_fit=True) is None
    assert manager.allocate_slots(waiting, 16, full_sequence_must_fit=True, reserved_blocks=3) is None
    assert manager.allocate_slots(waiting, 16, has_scheduled_reqs=False, reserved_blocks=5) is None
    assert manager.allocate_slots(waiting, 33) is not None
    manager.free(waiting)
    assert manager.allocate_slots(waiting, 16, full_sequence_must_fit=True, reserved_blocks=2) is not None


def test_tokens_that_are_loaded_from_outside() -> None:
    manager = later_manager(6, 64)
    request = later_request("0", [1] * 40)
    loaded = manager.allocate_slots(request, 0, num_external_computed_tokens=32)
    assert loaded is not None
    assert loaded.get_block_ids() == ([1, 2],)
    manager.cache_blocks(request, 32)
    assert manager.get_computed_blocks(later_request("1", [1] * 40))[1] == 32
    request.num_computed_tokens = 32
    with pytest.raises(InvalidCountError):
        manager.allocate_slots(request, -1, num_external_computed_tokens=32)
    with pytest.raises(InvalidCountError):
        manager.allocate_slots(request, 1, num_new_computed_tokens=16)
    with pytest.raises(UnsupportedError):
        manager.allocate_slots(request, 1, num_encoder_tokens=4)
    with pytest.raises(UnsupportedError):
        manager.allocate_slots(request, 1, 0, KVCacheBlocks(((), ())))


def test_who_runs_can_be_said() -> None:
    manager = later_manager(12, 64)
    for name, tokens in (("0", [1] * 33), ("1", [1] * 33), ("2", [1] * 33)):
        request = later_request(name, tokens)
        blocks, computed = manager.get_computed_blocks(request)
        manager.allocate_slots(request, 33 - computed, computed, blocks)
        manager.cache_blocks(request, 33)
    other = later_request("3", [2] * 20)
    manager.allocate_slots(other, 20)
    assert manager.get_num_common_prefix_blocks("0") == [0]
    assert manager.get_num_common_prefix_blocks("0", running=["0", "1", "2"]) == [2]
    assert manager.get_num_common_prefix_blocks("0", 9) == [0]
    with pytest.raises(UnknownRequestError):
        manager.get_num_common_prefix_blocks("9")
