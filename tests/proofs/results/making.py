"""A violation, a record of it, and a package that has it: made up, so that no release is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cacheproof.model.registry import AnyComponent, AnyVariant, component_named, variant_named
from cacheproof.model.target import Target, TargetError
from cacheproof.model.wire import config_from_message, config_to_message
from cacheproof.releases.reproduce import running
from cacheproof.releases.results.record import Machine, Record, Row, Undriven, Violation
from cacheproof.targets.specification import SpecificationTarget
from cachespec.kernel import Operation, Outcome

Ends = Callable[..., int]
"""Arguments of the command line, and the exit status."""

STATEMENT = "the free slots and the sizes of the resident entries sum to the capacity"

MANAGER = """
class EncoderCacheManager:
    def __init__(self, cache_size):
        self.num_free_slots = self.num_freeable_slots = cache_size
        self.cached, self.freeable, self.freed = {}, {}, []
    def check_and_update_cache(self, request, input_id):
        return False
    def allocate(self, request, input_id):
        content = request.mm_features[input_id].identifier
        WHERE_PRESENT
        self.cached[content] = {request.request_id}
        self.num_free_slots -= request.get_num_encoder_embeds(input_id)
        self.num_freeable_slots = self.num_free_slots
"""


def charged_again(**changes: Any) -> Violation:
    """What is resident is charged a second time: two calls of a caller that does not look before."""
    call = {"op": "allocate", "request": 0, "input": 0}
    component = component_named("encoder_cache")
    given = {"capacity": 2, "sizes": [1, 1], "requests": [[0], [1]]}
    made = Violation(
        component="encoder_cache",
        variant="E2",
        target="vllm==0.33.0",
        property="ENC-2",
        statement=STATEMENT,
        config=dict(config_to_message(config_from_message(component, given))),
        operations=[call, call],
        outcomes=[{"code": "done"}, {"code": "done"}],
        reach="misuse",
        operation="allocate",
        catalogue=["C-ENC-2"],
        id="encoder_cache-E2-ENC-2-C-ENC-2",
        verdict="VIOLATED: after call 2, allocate(request=0, input=0) -> done, ENC-2 does not hold: " + STATEMENT,
    )
    return msgspec.structs.replace(made, **changes)


def record(*violations: Violation, **changes: Any) -> Record:
    made = Record(
        target="vllm==0.33.0",
        date="2026-01-31",
        seed=7,
        steps=100,
        specification="0123",
        version="9.9",
        machine=Machine("a processor", 2, "a system", "3.11"),
        rows=[Row("encoder_cache", "E2", 100, "agrees", agrees=True, states=8)],
        searched=[],
        violations=list(violations),
        undriven=[Undriven("mirror", "there is a reason")],
    )
    return msgspec.structs.replace(made, **changes)


def made_up(folder: Path, where_present: str) -> Path:
    """A package with the one class, that does this if an entry is there already, and what the package imports."""
    path = folder / "vllm" / "v1" / "core" / "encoder_cache_manager.py"
    path.parent.mkdir(parents=True)
    path.write_text(MANAGER.replace("WHERE_PRESENT", where_present))
    for imported in ("torch", "numpy", "cachetools", "msgspec"):
        (folder / f"{imported}.py").write_text("")
    return folder


def run_with(package: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Python with this package and nothing else, not even what is installed."""
    environment = {**os.environ, "PYTHONPATH": str(package)}
    return subprocess.run(
        [sys.executable, "-S", *command], capture_output=True, text=True, check=False, env=environment
    )


def on_the_era(component: str, variant: str) -> Target:
    """A release that does what the era says."""
    owner = component_named(component)
    return SpecificationTarget(owner, variant_named(owner, variant))


class Failing:
    """A release whose driver fails."""

    def reset(self, config: Any) -> None:
        raise TargetError("the driver does not fit")

    def apply(self, operation: Operation) -> Outcome:
        raise TargetError("the driver does not fit")

    def observe(self) -> Any:
        return {}

    def close(self) -> None:
        """Nothing is open."""


def pretend(monkeypatch: pytest.MonkeyPatch, opened: Callable[[AnyComponent, AnyVariant], Target]) -> None:
    """Every release is installed, and is this."""
    monkeypatch.setattr(running, "installed", lambda release: release)
    monkeypatch.setattr(running, "open_target", lambda name, component, variant, seconds: opened(component, variant))
