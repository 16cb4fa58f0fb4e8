"""Which caches there are, in which process, for which settings: the functions of the field, with one rule for all.

Frontends and engines are pairs, or the sending is not saved (X-5, C-MIR-13). Until 0.11 the registry is an argument and
says whether the model takes other inputs than text; later the model's configuration does. Each returns None where it
does not apply.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from cacheimpl.object_store.caches import ShmObjectStoreReceiverCache, ShmObjectStoreSenderCache
from cacheimpl.processor_cache.caches import (
    BaseMultiModalProcessorCache,
    BaseMultiModalReceiverCache,
    MultiModalProcessorOnlyCache,
    MultiModalProcessorSenderCache,
    MultiModalReceiverCache,
    capacity_of,
)
from cacheimpl.processor_cache.errors import InvalidSettingError


class CacheType(Enum):
    """What the settings come to."""

    NONE = "none"
    PROCESSOR_ONLY = "processor_only"
    LRU = "lru"
    SHM = "shm"


def processor_cache_from_config(
    vllm_config: Any, mm_registry: Any = None, *, balanced_outside: bool = False
) -> BaseMultiModalProcessorCache | ShmObjectStoreSenderCache | None:
    """The frontend's. `balanced_outside`: see `one_to_one`."""
    kind = cache_type(vllm_config, mm_registry, balanced_outside=balanced_outside)
    if kind is CacheType.PROCESSOR_ONLY:
        return MultiModalProcessorOnlyCache(vllm_config.model_config)
    if kind is CacheType.LRU:
        return MultiModalProcessorSenderCache(vllm_config.model_config)
    return ShmObjectStoreSenderCache(vllm_config) if kind is CacheType.SHM else None


def processor_only_cache_from_config(config: Any, mm_registry: Any = None) -> MultiModalProcessorOnlyCache | None:
    """Profiling's own (X-5/profile). `config`: the model's, or, as from 0.33 on, the whole one."""
    model_config = getattr(config, "model_config", config)
    return MultiModalProcessorOnlyCache(model_config) if is_enabled(model_config, mm_registry) else None


def engine_receiver_cache_from_config(
    vllm_config: Any, mm_registry: Any = None, *, balanced_outside: bool = False
) -> BaseMultiModalReceiverCache | None:
    """The engine core's."""
    kind = cache_type(vllm_config, mm_registry, balanced_outside=balanced_outside)
    return MultiModalReceiverCache(vllm_config.model_config) if kind is CacheType.LRU else None


def worker_receiver_cache_from_config(
    vllm_config: Any, *arguments: Any, balanced_outside: bool = False
) -> ShmObjectStoreReceiverCache | None:
    """A worker's: `(vllm_config, mm_registry, shared_worker_lock)`, or, later, without the registry.

    Raises `InvalidSettingError`, a ValueError, where the workers share a memory and there is no lock.
    """
    if not 1 <= len(arguments) <= 2:
        raise InvalidSettingError(f"arguments must be shared_worker_lock, or mm_registry before it, not {arguments!r}")
    mm_registry, lock = arguments if len(arguments) > 1 else (None, *arguments)
    if cache_type(vllm_config, mm_registry, balanced_outside=balanced_outside) is not CacheType.SHM:
        return None
    if lock is None:
        raise InvalidSettingError("mm_processor_cache_type 'shm' needs shared_worker_lock")
    return ShmObjectStoreReceiverCache(vllm_config, lock)


def cache_type(vllm_config: Any, mm_registry: Any = None, *, balanced_outside: bool = False) -> CacheType:
    """The rule. Raises `InvalidSettingError`, a ValueError, for a type that is not known."""
    try:
        if not is_enabled(vllm_config.model_config, mm_registry):
            return CacheType.NONE
        if not one_to_one(vllm_config.parallel_config, balanced_outside=balanced_outside):
            return CacheType.PROCESSOR_ONLY
        named = vllm_config.model_config.get_multimodal_config().mm_processor_cache_type
    except AttributeError as error:
        raise InvalidSettingError(f"vllm_config must have model_config and parallel_config, whole: {error}") from None
    if named not in (CacheType.LRU.value, CacheType.SHM.value):
        raise InvalidSettingError(f"mm_processor_cache_type must be 'lru' or 'shm', not {named!r}")
    return CacheType(named)


def is_enabled(model_config: Any, mm_registry: Any = None) -> bool:
    """Whether the model takes other inputs than text, and there is memory for a cache."""
    try:
        if mm_registry is not None:
            multimodal = mm_registry.supports_multimodal_inputs(model_config)
        else:
            multimodal = model_config.supports_multimodal_inputs
    except AttributeError as error:
        raise InvalidSettingError(f"the config of the model must say supports_multimodal_inputs: {error}") from None
    return bool(multimodal) and capacity_of(model_config) > 0


def one_to_one(parallel_config: Any, *, balanced_outside: bool = False) -> bool:
    """One frontend for the engine, whoever balances the load, and one engine for the frontend (C-MIR-13).

    `balanced_outside`: as 0.11.0 and 0.12 (`configuration` M1). Where a balancer outside spreads the load, nobody asks
    how many frontends send to one engine, and their records come apart.
    """
    if balanced_outside and parallel_config.data_parallel_external_lb:
        return True
    one_engine = parallel_config.data_parallel_external_lb or parallel_config.data_parallel_size == 1
    return bool(parallel_config._api_process_count == 1 and one_engine)  # noqa: SLF001  # the field's name for it
