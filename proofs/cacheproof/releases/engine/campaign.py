"""Random loads in a whole engine with the release's own managers and with ours: are the tokens the same?"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InconclusiveError
from cacheproof.releases.engine.installing import CHILD, Engine

RELEASED = "the release"
RULES = ("NORMATIVE", "KV_2026_11", "KV_2025_10")
"""The rules of our KV cache manager that can be compared."""
BATCHED = "BatchedScheduler"
"""In the place of rules: our scheduler on tensors, which has no managers."""
BATCHED_MODES = ("text", "text-async", "text-drafts", "text-priority", "images", "images-async", "images-drafts")
"""The modes that it serves."""
BLOCKS = 14
"""Usable blocks and the null block of each pool: two requests of the greatest length fit."""
LINES_KEPT = 3


class Mode(NamedTuple):
    """A way in which the engine runs."""

    images: bool = False
    ahead: bool = False
    """Steps are scheduled ahead (`--async-scheduling`)."""
    drafts: int = 0
    priority: bool = False

    def settings(self) -> dict[str, Any]:
        """As `child/load.py` reads them."""
        return {"images": self.images, "async": self.ahead, "drafts": self.drafts, "priority": self.priority}


MODES: Mapping[str, Mode] = {
    "text": Mode(),
    "text-async": Mode(ahead=True),
    "text-drafts": Mode(drafts=2),
    "text-priority": Mode(priority=True),
    "images": Mode(images=True),
    "images-async": Mode(images=True, ahead=True),
    "images-drafts": Mode(images=True, drafts=2),
}
"""With images and priorities the release itself ends (C-ENC-26), so that is not among them."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One load in one engine."""

    manager: str
    """`the release`, the rules of ours, or `BatchedScheduler`."""
    error: str = ""
    scheduler: str = ""
    managers: tuple[str, ...] = ()
    tokens: list[list[int]] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Compared:
    """One load in the release and with ours."""

    mode: str
    seed: int
    released: Ran
    ours: Ran

    @property
    def differing(self) -> list[int]:
        """The requests whose tokens differ; none if an engine ended before it served all."""
        if self.released.error or self.ours.error:
            return []
        pairs = zip(self.released.tokens, self.ours.tokens, strict=True)
        return [number for number, (one, other) in enumerate(pairs) if one != other]

    @property
    def same(self) -> bool:
        """Whether both served the whole load with the same tokens."""
        return not self.released.error and not self.ours.error and not self.differing

    @property
    def served_alike(self) -> int:
        """How many requests have the same tokens."""
        return 0 if self.released.error or self.ours.error else len(self.released.tokens) - len(self.differing)

    def data(self) -> dict[str, Any]:
        """For a machine."""
        return {
            "mode": self.mode,
            "seed": self.seed,
            "same": self.same,
            "requests": len(self.released.tokens),
            "tokens": sum(map(len, self.released.tokens)),
            "differing": self.differing,
            "released": _told(self.released),
            "ours": _told(self.ours),
        }


def _told(ran: Ran) -> dict[str, Any]:
    return {
        "manager": ran.manager,
        "error": ran.error,
        "scheduler": ran.scheduler,
        "managers": ran.managers,
        **ran.counts,
    }


def compare(engine: Engine, name: str, rules: str, requests: int, seed: int, seconds: float, show: Show) -> Compared:
    """One load, with the release's managers and with ours. Each has `seconds`; then it raises InconclusiveError."""
    both = [run(engine, name, manager, requests, seed, seconds, show) for manager in (RELEASED, rules)]
    return Compared(name, seed, *both)


def run(engine: Engine, name: str, manager: str, requests: int, seed: int, seconds: float, show: Show) -> Ran:
    """One load in one engine, in a process of its own."""
    mode = MODES[name]
    settings = {
        **mode.settings(),
        "model": str(engine.model("images" if mode.images else "text")),
        "blocks": BLOCKS,
        "seed": seed,
        "requests": requests,
        "options": {} if manager == RELEASED else _options(mode, manager),
    }
    command = [str(engine.python), str(CHILD / "load.py"), json.dumps(settings)]
    what = f"{name} with {manager if manager == RELEASED else 'ours'}"
    with tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen(  # noqa: S603  # our own script
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=surroundings(engine)
        )
        limit = threading.Timer(seconds, process.kill)
        limit.start()
        try:
            last = _followed(process, what, requests, show)
        finally:
            late = not limit.is_alive()
            limit.cancel()
            process.kill()
            process.wait()
        log.seek(0)
        said = log.read().strip().splitlines()[-LINES_KEPT:]
    if late and last is None:
        raise InconclusiveError(f"{what}: no end within {seconds:g} seconds")
    if last is None:
        return Ran(manager, " / ".join(said) or f"ended with status {process.returncode}")
    if "error" in last:
        return Ran(manager, str(last["error"]))
    return Ran(manager, "", last["scheduler"], tuple(last["managers"]), last["tokens"], last["counts"])


def _followed(process: subprocess.Popen[str], what: str, requests: int, show: Show) -> dict[str, Any] | None:
    """Read what the load tells until it ends; its last line, if that has a result or an error."""
    show(f"{what}: the engine starts")
    last: dict[str, Any] = {}
    assert process.stdout is not None
    for line in process.stdout:
        last = json.loads(line)
        if "ended" in last:
            show(f"{what}: {last['ended']:,} of {requests:,} requests")
    process.wait()
    return last if "tokens" in last or "error" in last else None


def _options(mode: Mode, rules: str) -> dict[str, Any]:
    if rules == BATCHED:
        return {"scheduler_cls": f"cacheimpl.vllm.{BATCHED}"}
    name = "AsyncScheduler" if mode.ahead else "Scheduler"
    return {"scheduler_cls": f"cacheimpl.vllm.{name}", "additional_config": {"cacheimpl": {"rules": rules}}}


def surroundings(engine: Engine) -> dict[str, str]:
    """The environment variables of an engine's process: nothing is fetched, and one thread computes."""
    ours = importlib.util.find_spec("cacheimpl")
    assert ours is not None
    assert ours.origin is not None
    before = [str(engine.source)] if engine.source.is_dir() else []
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("VLLM_", "PYTHON"))},
        "PYTHONPATH": os.pathsep.join((*before, str(Path(ours.origin).parents[1]))),
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": str(engine.folder / "scratch"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": "1",
    }
