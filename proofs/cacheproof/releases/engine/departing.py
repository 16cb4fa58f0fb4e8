"""Where two recordings of the same load part: the first step in which anything that was recorded is not the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from cacheproof.logs.record.events import SUFFIX, recordings_in

OWN_SUFFIX = re.compile(r'"(\d+)-[0-9a-f]{8}"')
"""The engine adds random digits to the names of requests."""
DIGEST = re.compile(r"[0-9a-f]{32,}")
"""Keys of blocks and identifiers of images: only which are equal matters, so they count from the first one on."""
STEP = re.compile(r'"step":(\d+)')


class Departure(NamedTuple):
    """The first step that is not the same, and whose record shows it."""

    step: int
    component: str


def departure(clean: Path, other: Path) -> Departure | None:
    """The first difference of two recordings; None if there is none."""
    pairs = [_paths(folder) for folder in (clean, other)]
    found = []
    for component in sorted({*pairs[0], *pairs[1]}):
        step = _first(pairs[0].get(component), pairs[1].get(component))
        if step is not None:
            found.append(Departure(step, component))
    return min(found, default=None)


def _paths(folder: Path) -> dict[str, Path]:
    return {one.component: one.path for one in recordings_in(folder) if one.path.suffix == SUFFIX}


def _first(clean: Path | None, other: Path | None) -> int | None:
    """The step of the first line that differs; a line without a step belongs to the next one that has one."""
    both = [iter(()) if path is None else _lines(path) for path in (clean, other)]
    differs = False
    for one, two in zip_longest(*both, fillvalue=""):
        differs = differs or one != two
        steps = [int(found[1]) for line in (one, two) if (found := STEP.search(line))]
        if differs and steps:
            return min(steps)
    return 0 if differs else None


def _lines(path: Path) -> Iterator[str]:
    known: dict[str, str] = {}
    with path.open(encoding="utf-8") as file:
        for line in file:
            plain = OWN_SUFFIX.sub(r'"\1"', line)
            yield DIGEST.sub(lambda found: known.setdefault(found[0], str(len(known))), plain)
