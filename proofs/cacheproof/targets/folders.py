"""Where releases are kept, and what tells a finished folder from a half-made one.

Everything is below `targets/` of the user's cache folder: `CACHEPROOF_CACHE`, or `cacheproof` in `XDG_CACHE_HOME`, or
`~/.cache/cacheproof`. A folder counts only when it has its `complete.json`, which is written last. What is made under a
temporary name and moved is never seen half-made; what cannot be moved (a virtual environment knows its own path) is
made in place and removed if its mark is missing.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cacheproof.foundation.cache_folder import CACHE_VARIABLE, cache_folder
from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.foundation.files import json_of
from cacheproof.foundation.locks import locked_file

COMPLETE = "complete.json"
UNFINISHED = "unfinished-"
"""The beginning of the name of what is being made; whatever has it is rubbish when nobody holds the lock."""


def targets_folder() -> Path:
    """Where all releases are; it need not exist."""
    return cache_folder() / "targets"


def record_of(folder: Path) -> Mapping[str, Any] | None:
    """What `finish` wrote, or None where the folder is missing, half-made or damaged."""
    try:
        record = json_of((folder / COMPLETE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def mark_complete(folder: Path, record: Mapping[str, Any]) -> None:
    """The last thing written into a folder, at once or not at all."""
    temporary = folder / (COMPLETE + ".new")
    temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    temporary.replace(folder / COMPLETE)


def finish(made: Path, final: Path, record: Mapping[str, Any]) -> None:
    """Mark what was made under a temporary name as complete and give it its name."""
    mark_complete(made, record)
    remove(final)
    made.replace(final)


def remove(folder: Path) -> bool:
    """Remove a folder so that it is never seen half-removed; whether it was there."""
    if not folder.exists():
        return False
    doomed = folder.with_name(f"{UNFINISHED}{folder.name}-removed")
    shutil.rmtree(doomed, ignore_errors=True)
    folder.replace(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
    return True


def sweep(root: Path) -> None:
    """Remove what an interrupted run left. The caller holds the lock."""
    for left in root.glob(f"{UNFINISHED}*"):
        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """The folder exists and no other process changes it meanwhile; disk errors become one clear line.

    It waits for a process that is adding or removing something, and announces that. A signal ends the wait.
    """
    with clear_disk_errors(root):
        root.mkdir(parents=True, exist_ok=True)
        with locked_file(root / "lock", f"{root}: another run is adding or removing a target; waiting for its end"):
            yield


@contextmanager
def clear_disk_errors(root: Path) -> Iterator[None]:
    """What the disk refuses, in one line that says what can be done."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InconclusiveError(disk_is_full(root)) from None
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR):
            where = error.filename or root
            raise InputError(f"{where}: {error.strerror}; {CACHE_VARIABLE} chooses another folder") from None
        raise


def disk_is_full(root: Path) -> str:
    """The line for a full disk."""
    return f"{root}: no space left on the disk; {CACHE_VARIABLE} chooses another folder"


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder that may be changing."""
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(Path(parent) / name).st_size
            except OSError:
                continue
    return total
