"""What the classes refuse by name: each name has a call that is refused with it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.hisparse_engine import config_of as paged
from tests.impl.interfaces.kv_requests import later_request

from cacheimpl.kv_cache_manager import KV_2025_10, KVCacheBlocks, LaterKVCacheManager
from cacheimpl.kv_cache_manager.errors import UnsupportedError
from cacheimpl.kv_cache_manager.unsupported import Unsupported
from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.errors import UnsupportedError as SchedulerUnsupportedError
from cacheimpl.scheduler.settings import Settings
from cacheimpl.scheduler.unsupported import Unsupported as OfScheduler


def layers(name: str, size: int = 4, **more: Any) -> Any:
    """The spec of a group's layers, by the name of its class, which has the base of the releases."""
    made = type(name, (type("KVCacheSpec", (), {}),), {})()
    vars(made).update(block_size=size, **more)
    return made


FULL = layers("FullAttentionSpec")
WINDOW = layers("SlidingWindowSpec", sliding_window=8)
STATES = layers("MambaSpec", mamba_cache_mode="align")
SHARED = layers("FullAttentionSpec", dcp_sharded=True)


def manager_of(*specs: Any, role: str = "default", **settings: Any) -> LaterKVCacheManager:
    groups = [SimpleNamespace(kv_cache_spec=its, role=role) for its in specs]
    return LaterKVCacheManager(SimpleNamespace(num_blocks=24, kv_cache_groups=groups), 64, **settings)


def hisparse(**settings: Any) -> LaterKVCacheManager:
    return LaterKVCacheManager(paged(24, 20), 64, scheduler_block_size=4, **settings)


def slots(manager: LaterKVCacheManager, tokens: int = 4, *given: Any, **more: Any) -> object:
    request: Any = later_request("0", [1] * 8)
    return manager.allocate_slots(request, tokens, *given, **more)


def behind_a_hit() -> object:
    """Slots for tokens from outside, behind a hit of two of the four tokens of a block."""
    manager = manager_of(FULL, hash_block_size=1, scheduler_block_size=4, partial_hits=True)
    first: Any = later_request("0", [1, 2, 3])
    manager.new_step_starts()
    assert manager.allocate_slots(first, 2) is not None
    manager.commit(first, 2)
    second: Any = later_request("1", [1, 2, 3])
    hits, tokens, _ = manager.get_computed_blocks(second)
    assert tokens == 2
    return manager.allocate_slots(second, 0, tokens, hits, num_external_computed_tokens=1)


def alone() -> object:
    return manager_of(WINDOW, hash_block_size=4).coordinator.find_longest_cache_hit_per_group([], 4)


CASES: dict[Unsupported, Callable[[], object]] = {
    Unsupported.NO_GROUP: manager_of,
    Unsupported.UNKNOWN_KIND: lambda: manager_of(layers("NewSpec")),
    Unsupported.ENCODER_ONLY: lambda: manager_of(FULL, layers("EncoderOnlyAttentionSpec")),
    Unsupported.SINKS: lambda: manager_of(layers("SinkFullAttentionSpec")),
    Unsupported.REFERENCE_WINDOWS: lambda: manager_of(layers("RSWASpec")),
    Unsupported.CIRCULAR: lambda: manager_of(layers("CircularBufferSpec")),
    Unsupported.NOT_CACHEABLE: lambda: manager_of(layers("FullAttentionSpec", prefix_cacheable=False)),
    Unsupported.STATES_OF_ALL_BLOCKS: lambda: manager_of(layers("MambaSpec", mamba_cache_mode="all")),
    Unsupported.STATES_OF_EARLY_RULES: lambda: manager_of(STATES, rules=KV_2025_10),
    Unsupported.STATES_BEHIND_BLOCKS: lambda: manager_of(STATES, hash_block_size=2, partial_hits=False),
    Unsupported.SHARED_STATES: lambda: manager_of(FULL, enable_mamba_shared_prefix_checkpoint=True),
    Unsupported.MIXED_GROUP: lambda: manager_of(
        layers("UniformTypeKVCacheSpecs", kv_cache_specs={"a": FULL, "b": WINDOW})
    ),
    Unsupported.ROLE: lambda: manager_of(FULL, role="unheard_of"),
    Unsupported.OTHER_GROUPS: lambda: slots(manager_of(FULL), 4, 0, KVCacheBlocks(([], []))),
    Unsupported.SCHEDULER_BLOCK_SIZE: lambda: manager_of(FULL, scheduler_block_size=6),
    Unsupported.HASH_BLOCK_SIZE: lambda: manager_of(FULL, hash_block_size=3),
    Unsupported.LARGE_BLOCKS_BESIDE_PARTIAL_HITS: lambda: manager_of(WINDOW, STATES, hash_block_size=2),
    Unsupported.EAGLE_WITH_PARTIAL_HITS: lambda: manager_of(FULL, use_eagle=True, num_hash_lookahead_tokens=1),
    Unsupported.PREFILL_LOOKAHEAD: lambda: manager_of(FULL, num_prefill_lookahead=1),
    Unsupported.EXTERNAL_BEHIND_PARTIAL_HIT: behind_a_hit,
    Unsupported.GROUP_ALONE_BY_HASH: alone,
    Unsupported.ENCODER_TOKENS: lambda: slots(manager_of(FULL), num_encoder_tokens=1),
    Unsupported.DRAFTS_OF_STATES: lambda: slots(manager_of(STATES), num_lookahead_tokens=1),
    Unsupported.SHARED_GROUP: lambda: manager_of(FULL, WINDOW, dcp_world_size=2),
    Unsupported.STATES_IN_PARALLEL: lambda: manager_of(
        SHARED, layers("MambaSpec", mamba_cache_mode="align", dcp_sharded=False), pcp_world_size=2
    ),
    Unsupported.HISPARSE_IN_PARALLEL: lambda: LaterKVCacheManager(replicated(), 64, dcp_world_size=2),
    Unsupported.HISPARSE_WITHIN_BLOCKS: lambda: hisparse(num_hash_lookahead_tokens=1),
    Unsupported.HISPARSE_HASH_BLOCKS: lambda: hisparse(hash_block_size=2),
}


def replicated() -> Any:
    """Groups with pages, none of which is shared among ranks."""
    config = paged(24, 20)
    for group in config.kv_cache_groups:
        group.kv_cache_spec.dcp_sharded = False
    return config


SETTINGS = Settings(
    block_size=4, num_gpu_blocks=8, max_num_batched_tokens=8, max_num_seqs=2, max_model_len=16, max_requests=4
)


def ask(**attributes: Any) -> None:
    """A request with these attributes, in a scheduler without the settings for them."""
    request: Any = SimpleNamespace(request_id="0", prompt_token_ids=[1, 2], max_tokens=2, **attributes)
    Scheduler(SETTINGS).add_request(request)


OF_THE_SCHEDULER: dict[OfScheduler, dict[str, Any]] = {
    OfScheduler.ADAPTERS: {"lora_request": "an adapter"},
    OfScheduler.EXTERNAL_KV: {"kv_transfer_params": {}},
    OfScheduler.POOLING: {"pooling_params": object()},
    OfScheduler.EMBEDDINGS: {"prompt_embeds": object()},
}
"""Two more are not of a request: `ENCODER_CONNECTOR`, and `KERNELS` (see `test_kernels_rounds`)."""


def test_encoder_outputs_from_elsewhere_are_refused_by_name() -> None:
    with pytest.raises(SchedulerUnsupportedError) as refused:
        Scheduler(SETTINGS).expect_output("an item")
    assert refused.value.what is OfScheduler.ENCODER_CONNECTOR


@pytest.mark.parametrize("what", OF_THE_SCHEDULER, ids=lambda what: what.name)
def test_each_is_refused_of_a_request_by_its_name(what: OfScheduler) -> None:
    with pytest.raises(SchedulerUnsupportedError) as refused:
        ask(**OF_THE_SCHEDULER[what])
    assert refused.value.what is what
    assert str(refused.value) == refused.value.args[1]


@pytest.mark.parametrize("what", Unsupported, ids=lambda what: what.name)
def test_each_is_refused_by_its_name(what: Unsupported) -> None:
    with pytest.raises(UnsupportedError) as refused:
        CASES[what]()
    assert refused.value.what is what
    assert str(refused.value) == refused.value.args[1]
