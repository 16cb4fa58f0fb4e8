"""Scripts run in the environment of their release, and what they printed at the end."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cacheproof.foundation.errors import InconclusiveError
from cacheproof.targets.vllm.release import START, Release, needed, needed_environment

LAUNCH = Path(__file__).parent / "child" / "launch.py"
SECONDS_FOR_ONE = 10.0
SECONDS_TO_BEGIN = 120.0
VIOLATED, NOT_SHOWN, CANNOT_RUN = 1, 0, 2
"""Exit statuses of a script."""


@dataclass(frozen=True, slots=True)
class Performed:
    """How a script ended."""

    status: int
    printed: str

    @property
    def verdict(self) -> str:
        """Its last line."""
        lines = self.printed.strip().splitlines()
        return lines[-1] if lines else ""


class _Line(msgspec.Struct):
    """What the child says of a script."""

    script: str
    status: int
    printed: str


def performed(target: str, scripts: Sequence[Path], first: str = "") -> Mapping[Path, Performed]:
    """Every script on this release; `first` is another version of a dependency.

    Raises InputError where the release is not installed, InconclusiveError where no script could be begun.
    """
    if not scripts:
        return {}
    there, home = needed(Release.parsed(target)), needed_environment()
    other = ["--first", str(home.overlay(first))] if first else []
    command = [str(home.python), "-I", str(LAUNCH), str(START.parent), str(there.source), *other, *map(str, scripts)]
    patience = SECONDS_TO_BEGIN + SECONDS_FOR_ONE * len(scripts)
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience)  # noqa: S603  # our own script
    except subprocess.TimeoutExpired:
        raise InconclusiveError(f"the scripts of {target} did not end within {patience:g} s") from None
    try:
        lines = [msgspec.json.decode(line, type=_Line) for line in ended.stdout.splitlines()]
    except msgspec.DecodeError as error:
        raise InconclusiveError(f"the scripts of {target} could not be run: {error}") from None
    if ended.returncode != 0 or len(lines) != len(scripts):
        said = ended.stderr.strip().splitlines()
        raise InconclusiveError(f"the scripts of {target} could not be run: {said[-1] if said else 'no reason given'}")
    return {Path(line.script): Performed(line.status, line.printed) for line in lines}
