"""Which specification a run was of: a digest of its source, so that what an older one showed is not taken for it."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import cachespec


@cache
def specification_digest() -> str:
    """Sixteen hexadecimal digits over the source files of the specification, their places included."""
    digest = hashlib.sha256()
    for folder in map(Path, cachespec.__path__):
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
