"""One owner's part of one level on disk: a line for each state, for each step that matters to liveness, each label.

s NUMBER WHERE PENDING ENCODING     a state, the first step to it, what is pending in it
l LABEL MESSAGE                     an operation
o SOURCE MOVE LABEL TARGET          a step that is owed
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import replace_file


class StateLine(NamedTuple):
    """A state of the level."""

    number: int
    at: int
    pending: int
    encoded: bytes


class LabelLine(NamedTuple):
    """An operation that steps are labelled with."""

    label: int
    message: dict[str, Any]


class StepLine(NamedTuple):
    """A step that the system owes."""

    source: int
    move: int
    label: int
    target: int


Line = StateLine | LabelLine | StepLine


def write(path: Path, lines: Iterable[Line]) -> str:
    """Write the file whole or not at all; its SHA-256."""
    text = "".join(f"{_line(line)}\n" for line in lines)
    replace_file(path, text)
    return sha256(text.encode("ascii")).hexdigest()


def read(path: Path) -> Iterator[Line]:
    """The lines of a file that was written here."""
    with path.open(encoding="ascii") as file:
        for count, line in enumerate(file, 1):
            try:
                yield _parsed(line)
            except ValueError:
                raise InputError(f"{path}:{count}: not a line of a checkpoint") from None


def _line(line: Line) -> str:
    if isinstance(line, StateLine):
        return f"s {line.number} {line.at} {line.pending} {line.encoded.decode('ascii')}"
    if isinstance(line, LabelLine):
        return f"l {line.label} {json.dumps(line.message)}"
    return f"o {line.source} {line.move} {line.label} {line.target}"


def _parsed(line: str) -> Line:
    kind, _, rest = line.rstrip("\n").partition(" ")
    if kind == "s":
        number, at, pending, encoded = rest.split(" ", 3)
        return StateLine(int(number), int(at), int(pending), encoded.encode("ascii"))
    if kind == "l":
        label, message = rest.split(" ", 1)
        return LabelLine(int(label), json.loads(message))
    if kind == "o":
        source, move, label, target = rest.split(" ")
        return StepLine(int(source), int(move), int(label), int(target))
    raise ValueError(kind)
