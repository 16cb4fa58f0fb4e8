"""Which specification a run was of: a digest of its source, so that what an older one showed is not taken for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import cachespec


@cache
def specification_digest() -> str:
    """Sixteen hexadecimal digits over the source files of the specification, their places included."""
    return digest_of(map(Path, cachespec.__path__))


@cache
def explorer_digest() -> str:
    """The same over the explorer and all that it rests on: what a state is taken for depends on it."""
    return digest_of([Path(__file__).parents[1] / "search"])


@cache
def implementation_digest() -> str:
    """The same over the tensor implementation, without importing it."""
    found = find_spec("cacheimpl")
    return digest_of(map(Path, found.submodule_search_locations or ())) if found else ""


def digest_of(folders: Iterable[Path]) -> str:
    """The same over the source files in these folders."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
