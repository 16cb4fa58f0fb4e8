"""Everything that is recorded of a release, made again there: each case has to end as is recorded."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cacheproof.foundation.console import Show
from cacheproof.releases.reproduce.case import Case
from cacheproof.releases.reproduce.judge import Ending
from cacheproof.releases.reproduce.running import on_release
from cacheproof.releases.results.findings.finding import Finding
from cacheproof.targets.vllm.release import START, Release, needed, needed_environment

MISSING = -1
"""Stands for the exit status of a script that is not there."""
SECONDS_FOR_A_SCRIPT = 120.0
LAUNCH = """\
import runpy, sys
from pathlib import Path
child, source, script = sys.argv[1:]
sys.path.insert(0, child)
from driver import stand_ins
sys.path.remove(child)
stand_ins.install(Path(source))
runpy.run_path(script, run_name="__main__")
"""
"""Runs a script on the modules that are kept of a release, with the driver's stand-ins for the others."""


@dataclass(frozen=True, slots=True)
class Checked:
    """How a case or a script ended, and how it had to end; without a recorded line, the status alone counts."""

    name: str
    status: int
    printed: str
    wanted: int
    recorded: str

    @property
    def agrees(self) -> bool:
        """Whether it ended as is recorded."""
        return self.status == self.wanted and self.recorded in ("", self.printed)


def of_cases(cases: Iterable[Case], progress: Show | None = None) -> Iterator[Checked]:
    """Cases of which the ending is recorded."""
    for made in on_release((case for case in cases if case.recorded is not None), progress):
        recorded = made.case.recorded
        assert recorded is not None
        yield Checked(made.case.id, made.ending, made.last_line, recorded, made.case.printed)


def of_scripts(known: Iterable[Finding], target: str, folder: Path) -> Iterator[Checked]:
    """The scripts of those findings of which it is recorded how they end on this release, seen or not."""
    for finding in known:
        ending = finding.ends.get(target)
        if ending is None:
            continue
        path = folder / f"{finding.name}.py"
        status, printed = run(path, target) if path.is_file() else (MISSING, "there is no such file")
        yield Checked(str(path), status, printed, ending.status, ending.prints)


def run(script: Path, target: str) -> tuple[int, str]:
    """The exit status of a script on a release, and its last line. Raises InputError if that is not installed."""
    there, home = needed(Release.parsed(target)), needed_environment()
    command = [str(home.python), "-I", "-c", LAUNCH, str(START.parent), str(there.source), str(script)]
    try:
        ended = subprocess.run(  # noqa: S603  # a script of this repository
            command, capture_output=True, text=True, check=False, timeout=SECONDS_FOR_A_SCRIPT
        )
    except subprocess.TimeoutExpired:
        return Ending.CANNOT_RUN, f"no end within {SECONDS_FOR_A_SCRIPT:g} s"
    lines = (ended.stdout.strip() or ended.stderr.strip()).splitlines()
    return ended.returncode, lines[-1] if lines else ""
