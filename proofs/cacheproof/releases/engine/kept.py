"""The tables of a whole engine that pages show: what became of each planted bug, and the steps that were clean."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from cacheproof.foundation.files import keep_json, kept_json
from cacheproof.releases.engine.blame import Clean, Row

FOLDER = Path(__file__).parent / "runs"


class Runs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of one engine."""

    planted: tuple[Row, ...] = ()
    clean: tuple[Clean, ...] = ()


def path_of(name: str) -> Path:
    """Where the tables of `vllm==X` are kept."""
    return FOLDER / f"{name.replace('==', '-')}.json"


def read(name: str) -> Runs:
    """The tables that are kept. Raises InputError if there are none."""
    missing = f"no run is kept of {name} as a whole engine: cacheproof engine {name} --planted --keep"
    return kept_json(path_of(name), Runs, missing)


def write(name: str, *, planted: Iterable[Row] | None = None, clean: Iterable[Clean] | None = None) -> Path:
    """Keep one of the tables, or both; the other one stays as it is."""
    path = path_of(name)
    before = read(name) if path.is_file() else Runs()
    if planted is not None:
        before = msgspec.structs.replace(before, planted=tuple(planted))
    if clean is not None:
        before = msgspec.structs.replace(before, clean=tuple(clean))
    keep_json(path, before)
    return path
