"""Files that are written as a whole or not at all, and texts that come from files of others."""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cacheproof.foundation.errors import InputError


def replace_file(path: Path, text: str) -> None:
    """Put the text in the place of the file: a reader sees the old one or the new one, never half of one.

    The file keeps its permissions; a new one has those that this process gives to its files. A link stays a link. The
    text is written into a device or a pipe, which must not be replaced.
    """
    if is_stream(path):
        path.write_text(text, encoding="utf-8")
        return
    path = Path(os.path.realpath(path))  # `resolve` raises an error where links lead to one another
    permissions = _permissions(path)
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(unfinished).chmod(permissions)
        Path(unfinished).replace(path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise


def is_stream(path: Path) -> bool:
    """Whether this is a device, a pipe or the like: it is there, and neither a file nor a folder."""
    return path.exists() and not (path.is_file() or path.is_dir())


def replace_named_file(path: Path, text: str) -> None:
    """Put the text in the place of a file that a user named. Raises InputError if it cannot be written."""
    try:
        replace_file(path, text)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


T = TypeVar("T")


def kept_json(path: Path, kind: type[T], missing: str) -> T:
    """What a JSON file of this kind keeps. Raises InputError that says what is `missing` if there is no such file."""
    if not path.is_file():
        raise InputError(missing)
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{path}: {error}") from None


def keep_json(path: Path, value: object) -> None:
    """Put the value in the place of what the JSON file keeps, indented; its folder is made if there is none."""
    path.parent.mkdir(exist_ok=True)
    replace_file(path, msgspec.json.format(msgspec.json.encode(value), indent=1).decode() + "\n")


def append_to_file(path: Path, text: str, option: str) -> None:
    """Add the text at the end of the file that this option names; raises InputError where that fails."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"{option} {path}: cannot be written: {error.strerror}") from None


def _permissions(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        masked = os.umask(0)  # there is no other way to ask
        os.umask(masked)
        return 0o666 & ~masked


def file_to_write(path: Path | None, option: str) -> None:
    """Before long work: whether the file that this option names can be written at its end. None is no file."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{option} {path}: is a folder: name a file")
    if not path.parent.is_dir():
        raise InputError(f"{option} {path}: there is no folder {path.parent}: make it first")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{option} {path}: cannot be written: no permission")


def json_of(text: str | bytes) -> Any:
    """The value of a JSON text from outside. Raises ValueError if it is none, or is nested too deep for the parser."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def toml_of(text: str) -> dict[str, Any]:
    """The tables of a TOML text from outside. Raises TOMLDecodeError if it is none, or is too large to be read."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("nested too deep") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python reads no numbers of thousands of digits
        raise tomllib.TOMLDecodeError("a number has too many digits") from None


def text_of(path: Path) -> str:
    """The text of a file that a user named. Raises InputError if it cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}") from None
