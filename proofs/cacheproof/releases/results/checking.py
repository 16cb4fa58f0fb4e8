"""Scripts run in the environment of a release: each has to end as is recorded of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cacheproof.releases.results.findings.finding import Finding
from cacheproof.releases.results.record import SCRIPTS, Record
from cacheproof.releases.results.scripts.performing import VIOLATED, performed

MISSING = -1
"""In the place of the exit status of a script that is not there."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a script has to end: its exit status and its last line. `first` is another version of a dependency."""

    script: Path
    status: int
    printed: str
    first: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """One script: how it ended, and how it had to."""

    script: Path
    printed: str
    status: int
    recorded: str
    wanted: int

    @property
    def agrees(self) -> bool:
        """Whether it ended with that status and in the very words."""
        return (self.status, self.printed) == (self.wanted, self.recorded)


def of_record(record: Record, folder: Path) -> Iterator[Wanted]:
    """The scripts of a record: each shows its violation."""
    for violation in record.violations:
        if violation.verdict:
            path = folder / SCRIPTS / record.name / violation.script
            yield Wanted(path, VIOLATED, violation.verdict, violation.first)


def of_findings(known: Iterable[Finding], target: str, folder: Path) -> Iterator[Wanted]:
    """The scripts of those findings of which it is said how they end on this release, seen or not."""
    for finding in known:
        if target in finding.ends:
            ending = finding.ends[target]
            yield Wanted(folder / f"{finding.name}.py", ending.status, ending.prints)


def checked(target: str, scripts: Iterable[Wanted]) -> Iterator[Checked]:
    """Every script, run on this release; one that is missing is told as one that could not run."""
    by_first: dict[str, list[Wanted]] = {}
    for one in scripts:
        by_first.setdefault(one.first, []).append(one)
    for first, together in by_first.items():
        ended = performed(target, [one.script for one in together if one.script.is_file()], first)
        for one in together:
            found = ended.get(one.script)
            printed, status = (found.verdict, found.status) if found is not None else ("there is no such file", MISSING)
            yield Checked(one.script, printed, status, one.printed, one.status)
