"""The scripts of a record, run in the environment of their release: each has to print what was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cacheproof.results.pages import SCRIPTS
from cacheproof.results.record import Record
from cacheproof.results.scripts.performing import VIOLATED, performed


@dataclass(frozen=True, slots=True)
class Checked:
    """One script: what it printed at the end, its exit status, and what is recorded of it."""

    script: Path
    printed: str
    status: int
    recorded: str

    @property
    def agrees(self) -> bool:
        """Whether it showed the violation in the very words."""
        return self.status == VIOLATED and self.printed == self.recorded


def checked(record: Record, folder: Path) -> Iterator[Checked]:
    """Every script of the record that is there; one that is missing is told as one that could not run."""
    by_first: dict[str, dict[Path, str]] = {}
    for violation in record.violations:
        if violation.verdict:
            path = folder / SCRIPTS / record.name / violation.script
            by_first.setdefault(violation.first, {})[path] = violation.verdict
    for first, verdicts in by_first.items():
        there = [path for path in verdicts if path.is_file()]
        ended = performed(record.target, there, first)
        for path, recorded in verdicts.items():
            found = ended.get(path)
            yield Checked(
                path,
                found.verdict if found is not None else "there is no such file",
                found.status if found is not None else -1,
                recorded,
            )
