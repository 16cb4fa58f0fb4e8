"""The tables of a whole engine that pages show: what became of each planted bug, and the steps that were clean."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import replace_file
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
    path = path_of(name)
    if not path.is_file():
        raise InputError(f"no run is kept of {name} as a whole engine: cacheproof engine {name} --planted --keep")
    try:
        return msgspec.json.decode(path.read_bytes(), type=Runs)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{path}: {error}") from None


def write(name: str, *, planted: Iterable[Row] | None = None, clean: Iterable[Clean] | None = None) -> Path:
    """Keep one of the tables, or both; the other one stays as it is."""
    path = path_of(name)
    before = read(name) if path.is_file() else Runs()
    if planted is not None:
        before = msgspec.structs.replace(before, planted=tuple(planted))
    if clean is not None:
        before = msgspec.structs.replace(before, clean=tuple(clean))
    path.parent.mkdir(exist_ok=True)
    replace_file(path, msgspec.json.format(msgspec.json.encode(before), indent=1).decode() + "\n")
    return path
