"""Models and settings that our managers would serve wrongly, or that were never tried.

Each error names the setting. Kinds of layers are refused by the KV cache manager itself.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from types import ModuleType
from typing import Any

from cacheimpl.errors import CacheError

VERSIONS = ("0.11", "0.20", "0.32", "0.33")
"""Releases of vLLM with which this was run: all releases that begin so."""

BATCHED = ("0.33",)
"""Those with which `BatchedScheduler` was run."""


class UnsupportedSettingError(CacheError, ValueError):
    """The engine has a model or a setting that our classes do not serve. It does not start."""


REFUSED: Mapping[str, Callable[[Any], bool]] = {
    "an encoder-decoder model": lambda config: bool(config.model_config.is_encoder_decoder),
    "a diffusion model": lambda config: bool(getattr(config.model_config, "is_diffusion", False)),
    "--ec-transfer-config": lambda config: _given(config, "ec_transfer_config"),
    "manager_config of --ec-manager-config": lambda config: bool(
        getattr(getattr(config, "ec_manager_config", None), "manager_config", None)
    ),
    "--kv-cache-metrics": lambda config: bool(getattr(config.observability_config, "kv_cache_metrics", False)),
    "--decode-context-parallel-size above 1": lambda config: _size(config, "decode_context_parallel_size") > 1,
    "--prefill-context-parallel-size above 1": lambda config: _size(config, "prefill_context_parallel_size") > 1,
}
"""What is refused, and how an engine's configuration shows it."""

OTHER_VERSION = "a release that was never run with this class"
CONNECTOR = "a KV connector that reads the inside of the release's pool"

CONNECTOR_HOOKS = ("bind_gpu_block_pool", "bind_kv_cache_manager")
"""A connector that overrides one of these reads the inside of the release's pool."""
SERVED_CONNECTORS = ("HiSparseConnector",)
"""Those that do so, and get what they read of ours (`cacheimpl.vllm.hisparse`)."""

CALLS = re.compile(r"self\.(kv_cache_manager|encoder_cache_manager)((?:\.[a-z]\w*)+)")
INNER = ("coordinator", "block_pool")
"""Attributes of the manager whose own attributes a scheduler reads."""


def check_version(version: str, versions: Sequence[str] = VERSIONS) -> None:
    """Raises `UnsupportedSettingError` for a release that was never run with our classes.

    A build without a number is judged by `check_calls` alone.
    """
    if version[:1].isdigit() and not any(version.startswith(f"{known}.") for known in versions):
        raise UnsupportedSettingError(f"vLLM {version} was never run with this class; {', '.join(versions)} were")


def check_settings(vllm_config: Any) -> None:
    """Raises `UnsupportedSettingError` for an engine that our classes would serve wrongly."""
    for what, present in REFUSED.items():
        if present(vllm_config):
            raise UnsupportedSettingError(f"{what} is not supported by cacheimpl: use the release's own scheduler")


def check_connector(connector: Any) -> None:
    """Raises `UnsupportedSettingError` for a KV connector that reads the inside of the release's own pool."""
    served = connector is None or type(connector).__name__ in SERVED_CONNECTORS
    for name in () if served else CONNECTOR_HOOKS:
        defined = getattr(type(connector), name, None)
        base = next((one for one in type(connector).__mro__ if one.__name__ == "KVConnectorBase_V1"), None)
        if defined is not None and base is not None and defined is not getattr(base, name, None):
            raise UnsupportedSettingError(
                f"{type(connector).__name__} is {CONNECTOR}: it is not supported by cacheimpl"
            )


def check_calls(modules: tuple[ModuleType, ...], managers: Mapping[str, Any]) -> None:
    """Raises `UnsupportedSettingError` if the release's scheduler reads what one of our managers does not have."""
    for path in calls_of(modules):
        manager, _, rest = path.partition(".")
        try:
            attrgetter(rest)(managers[manager])
        except AttributeError:
            raise UnsupportedSettingError(
                f"the release's scheduler reads {path}, which cacheimpl does not have"
            ) from None


def calls_of(modules: tuple[ModuleType, ...]) -> list[str]:
    """What schedulers read of their managers, as in `kv_cache_manager.block_pool.free_blocks`."""
    found = set[str]()
    for module in modules:
        for manager, rest in CALLS.findall(inspect.getsource(module)):
            parts = rest.strip(".").split(".")
            found.add(".".join((manager, *parts[: 2 if parts[0] in INNER else 1])))
    return sorted(found)


def _given(config: Any, name: str) -> bool:
    return getattr(config, name, None) is not None


def _size(config: Any, name: str) -> int:
    return int(getattr(config.parallel_config, name, 1))
