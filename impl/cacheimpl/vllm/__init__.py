"""A plug-in for vLLM: schedulers that use our `KVCacheManager` and `EncoderCacheManager` in the place of the release's.

`Scheduler`, `AsyncScheduler` and `BatchedScheduler` are for `--scheduler-cls`, `EncoderCacheManager` is for
`encoder_cache_manager_cls` of `--ec-manager-config`, and `register` is the entry point of `vllm.general_plugins`. vLLM
is imported when one of these names is first read, and not by this module. docs/vllm_plugin.md is the page of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cacheimpl.vllm.settings import VARIABLE, Switch, switch
from cacheimpl.vllm.unsupported import UnsupportedSettingError

if TYPE_CHECKING:
    from collections.abc import Callable

    Scheduler: Callable[..., Any]
    AsyncScheduler: Callable[..., Any]
    BatchedScheduler: Callable[..., Any]
    EncoderCacheManager: Callable[..., Any]

NAMES = ("Scheduler", "AsyncScheduler", "BatchedScheduler", "EncoderCacheManager")
"""Classes that are made when they are first asked for."""


def __getattr__(name: str) -> Any:
    """One of the classes: ours, or the release's own if `CACHEIMPL_VLLM` is 0."""
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    classes = importlib.import_module(f"{__name__}.classes")
    return classes.released(name) if switch() is Switch.OFF else classes.ours(name)


def register() -> None:
    """The entry point: with `CACHEIMPL_VLLM=1`, engines whose options name no scheduler get ours.

    vLLM calls it in every process, and may call it several times.
    """
    if switch() is Switch.EVERYWHERE:
        importlib.import_module(f"{__name__}.classes").choose()


__all__ = ["VARIABLE", "UnsupportedSettingError", "register"]
