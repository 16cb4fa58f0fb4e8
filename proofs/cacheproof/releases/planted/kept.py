"""What a run found, kept so that a page can show it: one file for each release, `runs/vllm-X.json`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import replace_file
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
    path.parent.mkdir(exist_ok=True)
    replace_file(path, msgspec.json.format(msgspec.json.encode(run), indent=1).decode() + "\n")
    return path


def read(release: Release) -> Run:
    """The run that is kept of a release; raises InputError where there is none."""
    path = path_of(release)
    if not path.is_file():
        raise InputError(f"no run is kept of {release.name}: cacheproof planted {release.name} --keep")
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{path}: {error}") from None


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
