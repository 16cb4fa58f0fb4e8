"""What past runs found, kept for `status`, `show` and `catalogue`: one JSON file a run, replaced as a whole.

The files are in `runs/` of the folder that `CACHEPROOF_HOME` names, or of `.cacheproof` in the working directory.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from cacheproof.foundation.console import announce
from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import json_of, replace_file
from cacheproof.foundation.locks import locked_file
from cacheproof.model.fingerprint import specification_digest

HOME_VARIABLE = "CACHEPROOF_HOME"
FORMAT, VERSION = "cacheproof-run", "0.1"

Record = Mapping[str, Any]
LONGEST_PART = 80
DIGITS = 8
"""Hexadecimal digits of the digest that stands for what a name has no room for."""


def home() -> Path:
    """The folder that is written to."""
    return Path(os.environ.get(HOME_VARIABLE) or ".cacheproof")


def save(kind: str, name: str, record: Record) -> Path | None:
    """Keep a run under its kind (`check`, `fuzz`, `prove` …) and name, in the place of an earlier run.

    The record holds what JSON can say; `source` is added: the digest of the specification that was run. The file is
    replaced as a whole. If it cannot be written, the first such failure is announced on standard error and the result
    is None: a verdict is worth more than its record.
    """
    path = _path(kind, name)
    head = {"format": FORMAT, "version": VERSION, "kind": kind, "name": name, "source": specification_digest()}
    text = json.dumps({**head, **record}, indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text + "\n")
    except OSError as error:
        _warn(home(), error.strerror or type(error).__name__)
        return None
    return path


@cache
def _warn(folder: Path, reason: str) -> None:
    """Said once for a folder: on a full disk every run of a long check fails in the same way."""
    announce(
        f"cacheproof: warning: runs are not kept: {folder} cannot be written: {reason}; "
        f"set {HOME_VARIABLE} to a folder that can"
    )


def name_of(*parts: str) -> str:
    """A name for a run, made of what it was of: a later run of the same has the same one. Empty parts are left out.

    A target or a file may be called anything: what no file can be called becomes `_`, and a long part ends in a digest.
    """
    plain = (re.sub(r"[^A-Za-z0-9.+=-]+", "_", part).strip("_.") for part in parts)
    return ".".join(_short(part) for part in plain if part)


def _short(part: str) -> str:
    if len(part) <= LONGEST_PART:
        return part
    return f"{part[: LONGEST_PART - DIGITS - 1]}.{sha256(part.encode()).hexdigest()[:DIGITS]}"


@contextmanager
def alone(kind: str, name: str, doing: str) -> Iterator[None]:
    """No other process makes the run of this kind and name meanwhile.

    If another process does, the caller waits for its end. The line that announces this has the words `doing`. If the
    folder cannot be written, the caller does not wait.
    """
    path = _path(kind, name)
    with ExitStack() as held:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            waiting = f"{path}: another run is {doing}; waiting for its end"
            held.enter_context(locked_file(path.with_suffix(".lock"), waiting))
        yield


def load(kind: str, name: str) -> Record:
    """The run of this kind and name."""
    path = _path(kind, name)
    if not path.is_file():
        known = ", ".join(record["name"] for record in load_all(kind)) or "none yet"
        raise InputError(f"there is no {kind} run '{name}': there are {known}")
    return _read(path)


def load_all(kind: str | None = None) -> Iterator[Record]:
    """All runs, or all of one kind, sorted by kind and name."""
    for path in sorted((home() / "runs").glob(f"{kind or '*'}/*.json")):
        yield _read(path)


def _path(kind: str, name: str) -> Path:
    if not name or any(character in name for character in '/\\:*?"<>|') or name.startswith("."):
        raise InputError(f"a run cannot be named {name!r}")
    return home() / "runs" / kind / f"{name}.json"


def _read(path: Path) -> Record:
    try:
        record = json_of(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a run that was kept here ({error}): remove it") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT or record.get("version") != VERSION:
        raise InputError(f"{path}: not of format {FORMAT} {VERSION}: remove it, and run again")
    return record
