"""The classes, made from those of the release that is installed. This module is imported inside an engine only."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial, wraps
from types import ModuleType
from typing import Any

from cacheimpl.kv_cache_manager import LaterKVCacheManager
from cacheimpl.vllm import hisparse
from cacheimpl.vllm.batched import batched
from cacheimpl.vllm.encoder import PlannedEncoderCacheManager
from cacheimpl.vllm.items import give_back_data
from cacheimpl.vllm.settings import RULES, VARIABLE, rules_of
from cacheimpl.vllm.unsupported import (
    BATCHED,
    UnsupportedSettingError,
    check_calls,
    check_connector,
    check_settings,
    check_version,
)

PLACES = {
    "Scheduler": "vllm.v1.core.sched.scheduler",
    "AsyncScheduler": "vllm.v1.core.sched.async_scheduler",
    "BatchedScheduler": "vllm.v1.core.sched.scheduler",
    "EncoderCacheManager": "vllm.v1.core.encoder_cache_manager",
}
"""The module of each class in the releases."""
RELEASED = {"BatchedScheduler": "Scheduler"}
"""The release's name of a class, if it is another one."""
MODULE = "cacheimpl.vllm"
CHOSEN = "_chosen_by_cacheimpl"
"""Marks a function that `choose` has put in the place of the release's."""


def released(name: str) -> type[Any]:
    """The release's own class of this name."""
    found: type[Any] = getattr(importlib.import_module(PLACES[name]), RELEASED.get(name, name))
    return found


@cache
def ours(name: str) -> type[Any]:
    """Our class of this name. Raises `UnsupportedSettingError` for a release that was never run with it."""
    check_version(version())
    if name == "EncoderCacheManager":
        return EncoderCacheManager
    if name == "BatchedScheduler":
        check_version(version(), BATCHED)
        made = batched(released(name))
    else:
        made = _scheduler(released(name))
    made.__name__ = made.__qualname__ = name
    made.__module__ = MODULE
    return made


def version() -> str:
    """The version of the release."""
    return str(importlib.import_module("vllm.version").__version__)


def log(message: str, *arguments: object) -> None:
    """One line in the engine's log."""
    importlib.import_module("vllm.logger").init_logger("vllm.plugins.cacheimpl").info(message, *arguments)


class EncoderCacheManager(PlannedEncoderCacheManager):
    """`EncoderCacheManager` as vLLM's own option makes it."""

    @classmethod
    def create_manager(cls, *, cache_size: int, vllm_config: Any = None) -> EncoderCacheManager:
        """A manager of this capacity, in embeddings. Raises `UnsupportedSettingError`."""
        if vllm_config is not None:
            check_settings(vllm_config)
        log("cacheimpl: %s.EncoderCacheManager for %d embeddings; %s=0 switches it off", MODULE, cache_size, VARIABLE)
        return cls(cache_size=cache_size)


def _scheduler(base: type[Any]) -> type[Any]:
    """The release's scheduler with our managers."""

    class WithOurManagers(base):  # type: ignore[misc]  # a class of the release
        """The release's scheduler with `KVCacheManager` and `EncoderCacheManager` of cacheimpl."""

        def __init__(self, vllm_config: Any, kv_cache_config: Any, *arguments: Any, **named: Any) -> None:
            check_settings(vllm_config)
            rules = rules_of(vllm_config)
            if hisparse.is_wanted(vllm_config):
                hisparse.choose()
            with _managers(partial(LaterKVCacheManager, rules=RULES[rules])):
                super().__init__(vllm_config, kv_cache_config, *arguments, **named)
            check_connector(getattr(self, "connector", None))
            managers = {name: getattr(self, name) for name in ("kv_cache_manager", "encoder_cache_manager")}
            check_calls(_modules(), managers)
            classes = {name: type(one).__module__ + "." + type(one).__name__ for name, one in managers.items()}
            log(
                "cacheimpl: %s (vLLM %s) uses %s with the rules %s, and %s; %s=0 switches it off",
                type(self).__name__,
                version(),
                classes["kv_cache_manager"],
                rules,
                classes["encoder_cache_manager"],
                VARIABLE,
            )

        def schedule(self, *arguments: Any, **named: Any) -> Any:
            """The release's plan. New requests keep the data of items that a hit covers, for the first model runner."""
            planned = super().schedule(*arguments, **named)
            if not getattr(self, "use_v2_model_runner", False):
                give_back_data(planned, self.requests)
            return planned

        def update_from_output(self, *arguments: Any, **named: Any) -> Any:
            """The same; the oldest step was executed, and the blocks that it has copied can be found."""
            self.kv_cache_manager.commit_step()
            return super().update_from_output(*arguments, **named)

    made: Any = WithOurManagers
    made.__init__ = wraps(base.__init__)(made.__init__)  # the signature of the release's
    return WithOurManagers


def _modules() -> tuple[ModuleType, ...]:
    return tuple(importlib.import_module(PLACES[name]) for name in ("Scheduler", "AsyncScheduler"))


@contextmanager
def _managers(manager: Any) -> Iterator[None]:
    """Schedulers that are constructed meanwhile have our managers."""
    module: Any = importlib.import_module(PLACES["Scheduler"])
    theirs = module.KVCacheManager, module.EncoderCacheManager
    module.KVCacheManager, module.EncoderCacheManager = manager, PlannedEncoderCacheManager
    try:
        yield
    finally:
        module.KVCacheManager, module.EncoderCacheManager = theirs


def choose() -> None:
    """Engines whose options name no scheduler get ours, from now on in this process.

    Raises `UnsupportedSettingError` before 0.20, where an engine always names its scheduler.
    """
    config: Any = importlib.import_module("vllm.config.scheduler").SchedulerConfig
    theirs = getattr(config, "get_scheduler_cls", None)
    if theirs is None:
        raise UnsupportedSettingError(f"{VARIABLE}=1 needs vLLM 0.20 or later: use --scheduler-cls {MODULE}.Scheduler")
    if getattr(theirs, CHOSEN, False):
        return

    def get_scheduler_cls(self: Any) -> type[Any]:
        if self.scheduler_cls is None:
            return ours("AsyncScheduler" if getattr(self, "async_scheduling", False) else "Scheduler")
        named: type[Any] = theirs(self)
        return named

    setattr(get_scheduler_cls, CHOSEN, True)
    config.get_scheduler_cls = get_scheduler_cls
