"""A project that uses the installed packages is type-checked against them, strictly, and not against `Any`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONSUMER = """
from cacheproof import Suite, tests_for
from cacheproof.foundation.errors import ExitStatus
from cacheproof.implementation import Answer, Implementation
from cacheproof.model.registry import component_named
from cacheproof.model.trace import Trace, record
from cachespec.kernel import Operation, Outcome
from cachespec.lru import COMPONENT, Cache, Config, Put


class Mine:
    def __init__(self, config: Config) -> None:
        self.capacity = config.capacity

    def apply(self, operation: Operation) -> Answer:
        return "done", [1]

    def observe(self) -> dict[str, list[int]]:
        return {"order": []}


SUITE: Suite = tests_for("lru", Mine, without=["pin"])
MADE: Implementation = Mine(Config(2, (1, 1)))


def run(config: Config) -> tuple[Cache, Outcome]:
    variant = COMPONENT.normative
    return variant.step(config, variant.start(config), Put(0, 1))


def trace() -> Trace:
    return record(component_named("lru"), COMPONENT.normative, Config(2, (1, 1)), [Put(0, 1)], whole_calls=True)


def status() -> int:
    return ExitStatus.FELL_SHORT
"""

WRONG = """
from cacheimpl import EncoderCacheManager
from cacheproof.implementation import Implementation
from cacheproof.model.trace import TraceStep
from cachespec.lru import Config

capacity: str = Config(2, (1, 1)).capacity


def outcome(step: TraceStep) -> int:
    return step.outcome


def free(manager: EncoderCacheManager) -> bytes:
    return manager.num_free_slots


class Theirs:
    def apply(self, operation: str) -> float:
        return 0.5


MADE: Implementation = Theirs()
"""


def checked(python: Path, folder: Path, source: str) -> str:
    """What mypy says of a consumer's module against the packages of that environment."""
    (folder / "consumer.py").write_text(source)
    call = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--python-executable", str(python)]
    options = ["--config-file", "", "--cache-dir", str(folder.parent / "mypy-cache")]
    ended = subprocess.run([*call, *options, "consumer.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    return ended.stdout


@pytest.mark.parametrize("environment", ["base", "editable"])
def test_a_consumer_is_type_checked(request: pytest.FixtureRequest, tmp_path: Path, environment: str) -> None:
    python: Path = request.getfixturevalue(environment)
    assert checked(python, tmp_path, CONSUMER) == ""
    said = checked(python, tmp_path, WRONG)
    assert 'variable has type "str"' in said
    assert 'got "Outcome", expected "int"' in said
    assert 'expected "bytes"' in said
    assert 'variable has type "Implementation"' in said
