"""The form of an attack: one trial after the other, each by a seed of its own, which repeats it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

Program = tuple[str, ...]
"""The beginning of a command line that runs `cacheproof`."""

PROGRAM: Program = (sys.executable, "-m", "cacheproof")
SECONDS_TO_END = 120.0
"""A call that takes longer hangs."""


class FellShortError(Exception):
    """What went wrong in a trial."""


@dataclass(frozen=True, slots=True)
class Attack:
    """`trial` takes its random source and an empty folder, and returns what it did. It raises `FellShortError`."""

    name: str
    about: str
    trial: Callable[[random.Random, Path], str]
    obstacle: Callable[[], str] = str
    """Why this machine cannot make it; empty if it can."""


@dataclass(slots=True)
class Result:
    """What came of an attack."""

    trials: int = 0
    did: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, str]] = field(default_factory=list)
    """The seed of each trial that fell short, and why."""


def attacked(attack: Attack, seed: int, seconds: float, *, trials: int | None = None) -> Result:
    """Trials until the time is over, at least one; a failed trial does not end the attack."""
    result, end = Result(), time.monotonic() + seconds
    while result.trials == 0 or (time.monotonic() < end if trials is None else result.trials < trials):
        trial = f"{seed}/{result.trials}"
        result.trials += 1
        try:
            result.did[repeated(attack, trial)] += 1
        except FellShortError as error:
            result.failures.append((trial, str(error)))
    return result


def repeated(attack: Attack, trial: str) -> str:
    """One trial, by its seed. Raises `FellShortError`."""
    source = random.Random(f"{attack.name}/{trial}")
    with TemporaryDirectory(prefix="cacheproof-attack-") as folder:
        return attack.trial(source, Path(folder))


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call of the command line ended."""

    call: Sequence[str]
    status: int
    out: str
    err: str

    def checked(self, *allowed: int) -> Ended:
        """Fails on another status, a traceback, or an error that is reported as a bug."""
        if self.status not in allowed:
            raise FellShortError(f"{self.said()}: status {self.status}, not {' or '.join(map(str, allowed))}")
        if "Traceback" in self.err or "bug in cacheproof" in self.err or "Exception ignored" in self.err:
            raise FellShortError(f"{self.said()}: a traceback")
        return self

    def said(self) -> str:
        """The call, and the end of what it wrote to standard error."""
        return f"cacheproof {' '.join(self.call)}: {self.err.strip()[-400:]!r}"


def called(program: Program, call: Sequence[str], folder: Path, *, given: bytes = b"", **variables: str) -> Ended:
    """The command line in a folder, with a store of its own. Raises `FellShortError` if it hangs."""
    environment = environment_in(folder) | variables
    with subprocess.Popen(
        (*program, *call),
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(given, timeout=SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            raise FellShortError(f"cacheproof {' '.join(call)}: still at work after {SECONDS_TO_END:.0f} s") from None
    return Ended(call, process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def environment_in(folder: Path) -> dict[str, str]:
    """The variables of a call: its store is in the folder."""
    return os.environ | {"CACHEPROOF_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}


def lines_of(result: Result) -> Iterator[str]:
    """What an attack did, most frequent first."""
    for did, count in result.did.most_common():
        yield f"  {count:6}  {did}"
