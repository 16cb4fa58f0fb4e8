"""`CACHEIMPL_VLLM` in a whole engine: which scheduler an engine gets, and what the names of the plug-in stand for."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from cacheproof.releases.engine.campaign import surroundings
from cacheproof.releases.engine.installing import BUILDS, installed

SCRIPT = """
import json
from cacheimpl import vllm as plugin
from vllm.config import SchedulerConfig

plugin.register()
plugin.register()  # as vLLM may do
found = {}
for ahead in (False, True):
    config = SchedulerConfig.default_factory()
    config.async_scheduling = ahead
    found["async" if ahead else "sync"] = config.get_scheduler_cls()
    config.scheduler_cls = "cacheimpl.vllm.AsyncScheduler"
    found["named"] = config.get_scheduler_cls()
found["encoder"] = plugin.EncoderCacheManager
print(json.dumps({name: f"{kind.__module__}.{kind.__name__}" for name, kind in found.items()}))
"""
THEIRS = {
    "sync": "vllm.v1.core.sched.scheduler.Scheduler",
    "async": "vllm.v1.core.sched.async_scheduler.AsyncScheduler",
    "named": "vllm.v1.core.sched.async_scheduler.AsyncScheduler",
    "encoder": "vllm.v1.core.encoder_cache_manager.EncoderCacheManager",
}
NAMED = {"named": "cacheimpl.vllm.AsyncScheduler", "encoder": "cacheimpl.vllm.classes.EncoderCacheManager"}
EVERYWHERE = {"sync": "cacheimpl.vllm.Scheduler", "async": "cacheimpl.vllm.AsyncScheduler"}


@pytest.mark.nightly
@pytest.mark.timeout(200)
@pytest.mark.parametrize("version", BUILDS)
@pytest.mark.parametrize(("value", "ours"), [("0", {}), ("", NAMED), ("1", {**NAMED, **EVERYWHERE})])
def test_the_switch(version: str, value: str, ours: dict[str, Any]) -> None:
    engine = installed(version)
    if engine is None:
        pytest.skip(f"there is no whole engine: cacheproof target add vllm=={version} --engine")
    environment = {**surroundings(engine), "CACHEIMPL_VLLM": value}
    command = [str(engine.python), "-c", SCRIPT]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=180)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert json.loads(ended.stdout.splitlines()[-1]) == {**THEIRS, **ours}
