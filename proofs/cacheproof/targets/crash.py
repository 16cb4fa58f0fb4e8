"""What an implementation says of its own crash: the traceback of an exception, or the standard error of a child."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from traceback import FrameSummary

MOST_LINES = 25
"""How many lines of standard error or of a traceback a report shows."""
CAUSE = re.compile(
    r"panic: |fatal error: |thread '.*' .*panicked at |terminate called |.*: Assertion .* failed"
    r"|[\w.:]*(Error|Exception)(: |$)"
)
"""The line of a crash that says why, in Go, Rust, C, C++, Python, Java and JavaScript. Stacks may follow it."""
BEGINS = re.compile(r"Traceback \(most recent call last\):|" + CAUSE.pattern)
"""The first line of what a crash says."""
RUST = re.compile(r"thread '.*' .*panicked at ")
"""A panic in Rust has its message on the next line."""


def cause_in(lines: Sequence[str]) -> str | None:
    """The line of a crash that says why: the last one of a traceback of Python's, the first one of a panic."""
    causes = [number for number, line in enumerate(lines) if CAUSE.match(line)]
    if not causes:
        return None
    python = any(line.startswith("Traceback ") for line in lines)
    number = causes[-1] if python else causes[0]
    more = lines[number + 1].strip() if RUST.match(lines[number]) and number + 1 < len(lines) else ""
    return f"{lines[number].strip()} {more}".strip()


def crash_report(said: bytes) -> str:
    """What standard error says of a crash, from the line where that begins; or its last lines."""
    lines = said.decode("utf-8", "replace").rstrip().splitlines()
    begins = next((number for number, line in enumerate(lines) if BEGINS.match(line)), None)
    shown = lines[-MOST_LINES:] if begins is None else lines[begins : begins + MOST_LINES]
    return "\n".join(line.rstrip() for line in shown)


def frames_of(error: BaseException, own: str) -> list[FrameSummary]:
    """The frames of the implementation; those of the file `own`, which called it, are left out."""
    return [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != own]


def where(error: BaseException, own: str) -> str:
    """The line of the implementation that raised the error, as ` (cache.py, line 3)`; or empty."""
    frames = frames_of(error, own)
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def traceback_of(error: BaseException, own: str) -> str:
    """The traceback as Python prints it, with the last frames of the implementation only."""
    frames = traceback.format_list(frames_of(error, own))
    lines = [line for text in frames for line in text.splitlines()]
    head = ["Traceback (most recent call last):"]
    raised = "".join(traceback.format_exception_only(error)).splitlines()
    return "\n".join([*head, *lines[-MOST_LINES:], *raised])
