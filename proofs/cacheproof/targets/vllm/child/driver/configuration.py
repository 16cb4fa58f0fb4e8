"""Which caches the release makes in which process."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .calls import DONE, Calls, Reply, integer, operations_of
from .configured import released
from .modules import module_if_there

CACHES = {
    "MultiModalProcessorOnlyCache": 1,
    "MultiModalProcessorSenderCache": 2,
    "LruKeyReplicatedSenderCache": 2,
    "MultiModalReceiverCache": 3,
    "LruKeyReplicatedReceiverCache": 3,
    "ShmObjectStoreSenderCache": 4,
    "ShmObjectStoreReceiverCache": 5,
}
"""The classes of all releases, and which cache each is. They are not made here: only which one would be."""

TYPES = ("lru", "shm")
FIELDS = ("multimodal", "gigabytes", "cache_type", "api_processes", "engines", "external")
REGISTRY = "vllm.multimodal.registry"


class ConfigurationDriver:
    """The functions that choose: of `multimodal.cache` in 0.11, of the registry in 0.20, of `factories` later."""

    def __init__(self, calls: Calls) -> None:
        self._choosing, self._owner = _choosing(calls)
        for name, number in CACHES.items():
            if hasattr(self._choosing, name):
                setattr(self._choosing, name, lambda *arguments, _number=number, **named: _number)
        self._shown = dict.fromkeys(("frontend", "engine", "worker", "private"), 0)
        self._started = False
        self.do_start(dict.fromkeys(FIELDS, 1))  # what is read once is not read in a call whose time is taken
        self.reset({})
        self.operations = operations_of(self, calls)

    def reset(self, config: Mapping[str, Any]) -> None:
        """Nothing runs."""
        self._shown = dict.fromkeys(self._shown, 0)
        self._started = False

    def observe(self) -> dict[str, Any]:
        """What each sort of process has."""
        return dict(self._shown)

    def do_start(self, message: Mapping[str, Any]) -> None:
        config, registry = _settings(message)
        call, lock = self._call, object()
        self._started = True
        self._shown = {
            "frontend": call("processor_cache_from_config", config, registry),
            "engine": call("engine_receiver_cache_from_config", config, registry),
            "worker": call("worker_receiver_cache_from_config", config, registry, lock),
            "private": call("processor_only_cache_from_config", config, registry),
        }

    def _call(self, name: str, config: Any, registry: Any, *more: Any) -> int:
        """0.11 takes the registry too, and for profiling the model's part of the configuration only."""
        if self._owner is not None:
            chooser = object.__new__(self._owner)
            chooser.supports_multimodal_inputs = registry.supports_multimodal_inputs
            return getattr(chooser, name)(config, *more) or 0
        chooses = getattr(self._choosing, name)
        if "mm_registry" not in chooses.__annotations__:
            return chooses(config, *more) or 0
        given = config.model_config if "model_config" in chooses.__annotations__ else config
        return chooses(given, registry, *more) or 0

    def do_profile(self) -> Reply:
        """The release's profiling is not run."""
        return DONE if self._started else Reply("refused")


def _choosing(calls: Calls) -> tuple[Any, Any]:
    """The module that chooses, and the class whose methods do, if that is so."""
    factories = module_if_there("vllm.multimodal.cache.factories")
    if factories is not None:
        return factories, None
    cache = module_if_there("vllm.multimodal.cache")
    if "processor_cache_from_config" in getattr(cache, "__dict__", ()):  # a package that is not run has any name
        return cache, None
    registry = _released_registry(calls)
    return registry, registry.MultiModalRegistry


def _released_registry(calls: Calls) -> Any:
    """The release's own registry, which other drivers need only by name."""
    path = Path(calls.source, *REGISTRY.split(".")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(REGISTRY, path)
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if spec is None or spec.loader is None or "def processor_cache_from_config" not in text:
        raise ModuleNotFoundError("nothing in the release chooses between caches", name=REGISTRY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[REGISTRY] = module
    return module


def _settings(message: Mapping[str, Any]) -> tuple[Any, Any]:
    """What the release reads of its configuration, and a registry that knows whether the model is multimodal."""
    multimodal = integer(message, "multimodal") > 0
    made = released()
    mm_config = made(
        "MultiModalConfig",
        mm_processor_cache_gb=integer(message, "gigabytes"),
        mm_processor_cache_type=TYPES[integer(message, "cache_type")],
    )
    model_config = made(
        "ModelConfig",
        supports_multimodal_inputs=multimodal,
        is_multimodal_model=multimodal,
        multimodal_config=mm_config,
        get_multimodal_config=lambda: mm_config,
    )
    parallel_config = made(
        "ParallelConfig",
        _api_process_count=integer(message, "api_processes"),
        data_parallel_size=integer(message, "engines"),
        data_parallel_external_lb=integer(message, "external") > 0,
    )
    config = made("VllmConfig", model_config=model_config, parallel_config=parallel_config)
    return config, SimpleNamespace(supports_multimodal_inputs=lambda model_config: multimodal)
