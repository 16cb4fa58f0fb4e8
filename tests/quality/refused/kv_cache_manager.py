"""Wrong calls of `KVCacheManager`, in both of its shapes: mypy refuses each line that is marked, and no other."""

from __future__ import annotations

from cacheimpl import KVCacheManager
from cacheimpl.kv_cache_manager import EarlyKVCacheManager, LaterKVCacheManager
from cacheimpl.kv_cache_manager.protocols import KVCacheConfig
from cacheimpl.request import ComputedRequest


def right_calls(config: KVCacheConfig, request: ComputedRequest) -> tuple[EarlyKVCacheManager, LaterKVCacheManager]:
    early = KVCacheManager(16, 8, 32, num_preallocate_tokens=0)
    early.append_slots(request, 1)
    later = KVCacheManager(config, 32, log_stats=True, max_num_batched_tokens=64)
    later.get_blocks("0")
    later.get_num_common_prefix_blocks("0")
    managers: list[KVCacheManager] = [early, later]
    managers[0].free(request)
    return early, later


def wrong_constructors(config: KVCacheConfig) -> None:
    KVCacheManager(config, 32, no_such_setting=1)  # refused: call-overload
    KVCacheManager(16, 8)  # refused: call-overload
    KVCacheManager(16, 8, "long")  # refused: call-overload
    KVCacheManager(object(), 32)  # refused: call-overload
    KVCacheManager(config, 32, watermark="high")  # refused: call-overload
    LaterKVCacheManager(config, 32, no_such_setting=1)  # refused: call-arg
    LaterKVCacheManager(config, 32, dcp_world_size="1")  # refused: arg-type
    EarlyKVCacheManager(16, 8, 32, num_preallocated_tokens=0)  # refused: call-arg


def wrong_calls(config: KVCacheConfig, request: ComputedRequest) -> None:
    early, later = KVCacheManager(16, 8, 32), KVCacheManager(config, 32)
    early.get_blocks("0")  # refused: attr-defined
    early.get_num_common_prefix_blocks("0", 1)  # refused: arg-type
    later.append_slots(request, 1)  # refused: attr-defined
    later.allocate_slots("0", 1)  # refused: arg-type
    later.allocate_slots(request, 1, new_computed_blocks=[])  # refused: arg-type
    later.free(config)  # refused: arg-type
    later.commit(request, "4")  # refused: arg-type
