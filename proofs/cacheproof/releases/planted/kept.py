"""What a run found, kept so that a page can show it: `runs/vllm-X.json` for each release.

`runs/historic-vllm-X.json` has what was found of the historic bugs, with each seed that was kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from cacheproof.foundation.files import keep_json, kept_json
from cacheproof.releases.planted.historic import Judged
from cacheproof.releases.planted.trial import Fate
from cacheproof.targets.vllm.release import Release

FOLDER = Path(__file__).parent / "runs"


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One bug, or the release as it is where it has no name. `seconds` are processor time of both processes."""

    name: str
    era: str
    where: str
    says: str
    found: bool
    seen_in: str
    steps: int
    seconds: float
    length: int | None
    unseen: str = ""


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table of a release."""

    steps: int
    seed: int
    rows: tuple[Row, ...]


def write(release: Release, fates: Iterable[Fate], *, steps: int, seed: int) -> Path:
    """Keep a run in place of the one before."""
    run = Run(steps, seed, tuple(_row(fate) for fate in fates))
    path = path_of(release)
    keep_json(path, run)
    return path


def read(release: Release) -> Run:
    """The run that is kept of a release; raises InputError where there is none."""
    missing = f"no run is kept of {release.name}: cacheproof planted {release.name} --keep"
    return kept_json(path_of(release), Run, missing)


class Historic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tables of the historic bugs of a release, one for each seed."""

    steps: int
    violations: int
    rows: tuple[Judged, ...]

    @property
    def seeds(self) -> list[int]:
        """That were kept, ascending."""
        return sorted({row.seed for row in self.rows})

    @property
    def names(self) -> list[str]:
        """Of the bugs, in order."""
        return list(dict.fromkeys(row.name for row in self.rows))


def write_historic(release: Release, rows: Iterable[Judged], *, steps: int, violations: int) -> Path:
    """Keep a run beside those with other seeds and of the same bugs and budget, and in place of others."""
    rows = tuple(rows)
    path = historic_path_of(release)
    others: tuple[Judged, ...] = ()
    if path.is_file():
        before = read_historic(release)
        of_the_same = (before.steps, before.violations) == (steps, violations)
        if of_the_same and before.names == [row.name for row in rows]:
            others = tuple(row for row in before.rows if row.seed not in {one.seed for one in rows})
    every = sorted((*others, *rows), key=lambda row: row.seed)
    keep_json(path, Historic(steps, violations, tuple(every)))
    return path


def read_historic(release: Release) -> Historic:
    """The runs of historic bugs that are kept of a release; raises InputError where there is none."""
    missing = f"no run is kept of {release.name}: cacheproof planted {release.name} --historic --keep"
    return kept_json(historic_path_of(release), Historic, missing)


def historic_path_of(release: Release) -> Path:
    """Where the runs of the historic bugs of a release are kept."""
    return FOLDER / f"historic-vllm-{release.version}.json"


def path_of(release: Release) -> Path:
    """Where the run of a release is kept."""
    return FOLDER / f"vllm-{release.version}.json"


def _row(fate: Fate) -> Row:
    bug = fate.planted.bug
    return Row(
        name=fate.planted.name,
        era=fate.planted.era.variant,
        where=bug.where if bug is not None else fate.planted.component,
        says=bug.says if bug is not None else "nothing is planted",
        found=fate.found,
        seen_in=fate.seen_in,
        steps=fate.result.steps,
        seconds=round(fate.seconds, 1),
        length=fate.length,
        unseen=bug.unseen if bug is not None else "",
    )
