"""The plug-in's schedulers under random loads, made from a release's own: `plugin_schedulers.py DRIVER SOURCE IMPL`.

It stands alone: the Python of a release's environment runs it. It prints what each mode came to as JSON.
"""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

MODES = {"Scheduler": "sync", "AsyncScheduler": "async"}
ERAS = {"0.11": "KV_2025_10", "0.20": "KV_2025_10", "0.33": "KV_2026_11"}
SEEDS = range(2)


def with_plugin(schedulers: Any, plugin: Any, rules: str | None) -> Any:
    """The driver's classes with the plug-in's schedulers in the place of the release's, and these rules."""

    def chosen(name: str) -> Any:
        kind = getattr(plugin, name)

        def make(vllm_config: Any, **named: Any) -> Any:
            vllm_config.additional_config = {} if rules is None else {"cacheimpl": {"rules": rules}}
            return kind(vllm_config=vllm_config, **named)

        make.__signature__ = inspect.signature(kind)  # type: ignore[attr-defined]  # the driver reads it
        return make

    def classes() -> Any:
        made = schedulers.Classes()
        made.scheduler, made.asynchronous = chosen("Scheduler"), chosen("AsyncScheduler")
        made._encoder_cache = importlib.import_module("cacheimpl.vllm.encoder").PlannedEncoderCacheManager
        return made

    return SimpleNamespace(Classes=classes, Settings=schedulers.Settings)


def main(driver: str, source: str, impl: str, version: str) -> None:
    """Print what the loads came to."""
    sys.path[:0] = [driver, impl, str(Path(__file__).parent)]
    answers, sys.stdout = sys.stdout, sys.stderr
    importlib.import_module("driver.stand_ins").install(Path(source))
    schedulers: Any = importlib.import_module("driver.schedulers")
    loads: Any = importlib.import_module("engine_load")
    ended: Any = importlib.import_module("random_loads").ended
    plugin: Any = importlib.import_module("cacheimpl.vllm")
    importlib.import_module("vllm.logger")  # it sets up logging, and would take the handler away
    lines = list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("vllm.plugins.cacheimpl").addHandler(handler)
    logging.getLogger("vllm.plugins.cacheimpl").setLevel(logging.INFO)
    report = dict[str, Any]()
    for name, mode in MODES.items():
        for rules in (None, next(era for known, era in ERAS.items() if version.startswith(known))):
            entry = report[f"{name}, {rules}"] = {"errors": list[str](), "same": 0, "hits": 0, "resumed": 0}
            for seed in SEEDS:
                _, released = ended(lambda: loads.Load(schedulers, mode, seed))  # noqa: B023
                chosen = with_plugin(schedulers, plugin, rules)
                error, load = ended(lambda: loads.Load(chosen, mode, seed))  # noqa: B023
                entry["errors"] += [error] if error else []
                entry["same"] += load.plans == released.plans
                entry["hits"] += load.hits
                entry["resumed"] += load.resumed
                entry["scheduler"] = f"{type(load.scheduler).__module__}.{type(load.scheduler).__name__}"
                entry["manager"] = type(load.scheduler.kv_cache_manager).__module__
    answers.write(json.dumps({"modes": report, "log": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
