"""Bugs in the choice of caches."""

from __future__ import annotations

import copy
from typing import Any

from .declaring import Place

FACTORIES = Place("vllm.multimodal.cache.factories", "vllm.multimodal.cache")
CHOSEN = "0.33.0"
"""From then on one function chooses and four make what it chose; in 0.11 three functions choose. In between, the class
that chooses is taken from its file by the driver, and nothing is planted in it."""


def with_parallel(config: Any, **changed: Any) -> Any:
    """The same configuration with other processes."""
    config = copy.copy(config)
    config.parallel_config = copy.copy(config.parallel_config)
    vars(config.parallel_config).update(changed)
    return config


@FACTORIES.broken("_get_cache_type", since=CHOSEN)
def frontends_are_not_counted(released: Any, config: Any) -> Any:
    """Several frontends share one receiver cache."""
    return released(with_parallel(config, _api_process_count=1))


@FACTORIES.broken("_get_cache_type", since=CHOSEN)
def engines_are_not_counted(released: Any, config: Any) -> Any:
    """Several engines are mirrored by one sender cache."""
    return released(with_parallel(config, data_parallel_size=1))


@FACTORIES.broken("_get_cache_type", since=CHOSEN)
def external_is_not_asked(released: Any, config: Any) -> Any:
    """Engines with a frontend each count as engines that share a frontend."""
    return released(with_parallel(config, data_parallel_external_lb=False))


@FACTORIES.broken("_get_cache_type", since=CHOSEN)
def off_is_on(released: Any, config: Any) -> Any:
    """A cache of size 0 is created."""
    return released(config) or ("lru" if config.model_config.supports_multimodal_inputs else None)


@FACTORIES.broken("_get_cache_type", since=CHOSEN)
def always_by_recency(released: Any, config: Any) -> Any:
    """Shared memory is configured, and the LRU cache is created."""
    return "lru" if released(config) == "shm" else released(config)


@FACTORIES.broken("engine_receiver_cache_from_config", since=CHOSEN)
def engine_has_one_too(released: Any, config: Any) -> Any:
    """The engine has a receiver cache beside the workers' cache in shared memory."""
    from_lru = copy.deepcopy(config.model_config.get_multimodal_config())
    if config.model_config.supports_multimodal_inputs and from_lru.mm_processor_cache_type == "shm":
        from_lru.mm_processor_cache_type = "lru"
        config = copy.copy(config)
        config.model_config = copy.copy(config.model_config)
        config.model_config.get_multimodal_config = lambda: from_lru
    return released(config)


@FACTORIES.broken("worker_receiver_cache_from_config", since=CHOSEN)
def workers_have_none(released: Any, config: Any, lock: Any) -> Any:
    """Items are in shared memory, and the workers have no cache."""
    return None


@FACTORIES.broken("processor_only_cache_from_config", since=CHOSEN)
def profiling_without_a_cache(released: Any, config: Any) -> Any:
    """Profiling has no cache of its own."""
    return None


@FACTORIES.broken("_enable_ipc_cache", until="0.11.0")
def mirrored_in_any_case(released: Any, config: Any) -> Any:
    """Several frontends and engines share one mirrored cache."""
    return True


@FACTORIES.broken("_enable_mm_input_shm_cache", until="0.11.0")
def never_in_shared_memory(released: Any, config: Any) -> Any:
    """Shared memory is configured, and the LRU cache is created."""
    return False


@FACTORIES.broken("_enable_processor_cache", until="0.11.0")
def without_room_too(released: Any, model: Any, registry: Any) -> Any:
    """A cache of size 0 is created."""
    return registry.supports_multimodal_inputs(model)


@FACTORIES.broken("processor_cache_from_config", until="0.11.0")
def frontend_without_a_cache(released: Any, *given: Any) -> Any:
    """The frontend has no cache."""
    return None
