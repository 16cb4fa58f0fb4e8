"""Runs a release's own tests in its environment, with its own classes or with ours."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.impl.interfaces.release_tests.ledger import Outcome, Outcomes
from tests.impl.interfaces.release_tests.suites import CHILD, Suite

import cacheimpl
from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InconclusiveError

SECONDS_FOR_A_TEST = 120
DONE = re.compile(r"\[ *(\d+)%\]")
FINISHED = (0, 1)
"""What pytest returns if all tests ran."""


class Place(NamedTuple):
    """What `sources.ensured` has made."""

    python: Path
    source: Path
    models: Path


def outcomes(place: Place, suite: Suite, files: Sequence[str], progress: Show, *, ours: bool) -> Outcomes:
    """How each test ended, with our classes or with the release's own.

    Raises InconclusiveError if the run ended early.
    """
    there = [file for file in files if (place.source / file).exists()]
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch, "outcomes.json")
        command = [str(place.python), "-m", "pytest", "-p", "ours", "-p", "no:cacheprovider", "--noconftest", "--tb=no"]
        command += [f"--timeout={SECONDS_FOR_A_TEST}", f"--rootdir={place.source}", *there]
        what = "with ours" if ours else "with the release's own classes"
        variables = environment(place, suite, result, ours=ours)
        status, lines = _followed(command, place, variables, what, progress)
        if status not in FINISHED or not result.exists():
            raise InconclusiveError(f"the tests {what} ended early: {lines[-1] if lines else f'status {status}'}")
        told = json.loads(result.read_text(encoding="utf-8"))
    return {test: Outcome(end["outcome"], end["reason"], tuple(end["used"])) for test, end in told.items()}


def environment(place: Place, suite: Suite, result: Path, *, ours: bool) -> dict[str, str]:
    """The variables that the tests run with. Without rules the release has its own classes."""
    older = (place.python.parents[1] / "older",) if suite.older else ()
    paths = (CHILD, place.source, *older, Path(cacheimpl.__file__).parents[1])
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONNOUSERSITE": "1",
        "HF_HOME": str(place.models),
        "HF_HUB_OFFLINE": "1",
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_NO_USAGE_STATS": "1",
        "CACHEPROOF_RULES": suite.rules if ours else "",
        "CACHEPROOF_STORE": suite.store if ours else "",
        "CACHEPROOF_OUTCOMES": str(result),
    }


def _followed(
    command: Sequence[str], place: Place, variables: dict[str, str], what: str, progress: Show
) -> tuple[int, list[str]]:
    """The exit status and the last lines of output, while what is done is shown."""
    lines: list[str] = []
    with subprocess.Popen(
        command, cwd=place.source, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines = [*lines[-20:], line.strip()] if line.strip() else lines
            done = DONE.search(line)
            if done:
                progress(f"{place.source.name} {what}: {done[1]} % of the tests")
    return process.returncode, lines
