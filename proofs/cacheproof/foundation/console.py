"""What the verbs share: a report as JSON or for people, progress on standard error, and how a call ends.

A verb is a module of this package with a function `command`, annotated for typer, that returns a `Report` (it then has
`--json` without declaring it) or, where it speaks a protocol of its own, an `ExitStatus`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from cacheproof.foundation.errors import ExitStatus

SECONDS_BETWEEN_LINES = 5.0
"""How often progress is written where standard error is not a terminal."""
SECONDS_BETWEEN_UPDATES = 0.1
"""How often it is written over where it is one."""
WIDTH_WITHOUT_TERMINAL = 160
"""Columns of a table that is written to a file or a pipe."""

Show = Callable[[str], object]
"""What long work calls with a line about what it is doing: `Progress`, or a function that sends the line on."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a verb found: `data` for a machine, `rendered` for a person, and the status that the process ends with.

    `data` holds what `msgspec` can encode (dataclasses, named tuples, enums, paths included); `ok` is added to it.
    A string in `rendered` is printed as it is; anything else is a rich renderable.
    `interrupted` makes the status INCONCLUSIVE: what is known so far is shown, and must not be read as green.
    """

    data: Mapping[str, Any]
    rendered: Sequence[Any] = ()
    status: ExitStatus = ExitStatus.AS_EXPECTED
    interrupted: bool = False

    @property
    def exit_status(self) -> ExitStatus:
        """The status that the process ends with."""
        return ExitStatus.INCONCLUSIVE if self.interrupted else self.status


def write(report: Report, *, as_json: bool) -> None:
    """Print the report on standard output: one JSON object and nothing else, or the rendering."""
    if as_json:
        ended = {"interrupted": True} if report.interrupted else {}
        write_object({"ok": report.exit_status is ExitStatus.AS_EXPECTED, **report.data, **ended})
        return
    for part in report.rendered:
        write_part(part)
    if report.interrupted:
        write_part("interrupted: this is what was known by then")


def write_object(data: Mapping[str, Any]) -> None:
    """One JSON object on standard output: on one line, or indented where a person reads it."""
    encoded = msgspec.json.encode(data, enc_hook=_encode_path)
    indented = msgspec.json.format(encoded, indent=2) if sys.stdout.isatty() else encoded
    sys.stdout.write(indented.decode() + "\n")
    sys.stdout.flush()


def write_part(part: Any) -> None:
    """A string as it is, a rich renderable as wide as the terminal or, without one, wide enough for a table."""
    if isinstance(part, str):
        sys.stdout.write(part + "\n")
    else:
        from rich.console import Console  # noqa: PLC0415  # a verb asked for JSON does without it

        # without markup, which would swallow the brackets of `cache[key]`
        Console(width=None if sys.stdout.isatty() else _columns(), markup=False, highlight=False).print(part)
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class Fitting:
    """One rich renderable where there are `columns` columns, and another where there are fewer."""

    wide: Any
    narrow: Any
    columns: int

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        """What rich is to print."""
        yield self.wide if options.max_width >= self.columns else self.narrow


def announce(line: str) -> None:
    """One line on standard error, at once: a seed, a limit, what is about to happen."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _standard_error_is_terminal() -> bool:
    return sys.stderr.isatty()


@dataclass(slots=True)
class Progress:
    """The latest line about work that is going on; cheap enough to call in a loop, every thousandth turn.

    On a terminal the line is written over; elsewhere one line appears every few seconds, and none for short work.
    """

    terminal: bool = field(default_factory=_standard_error_is_terminal)
    written: float = field(default_factory=time.monotonic)
    visible: bool = False

    def __call__(self, line: str) -> None:
        """Show the line, unless another was shown a moment ago."""
        now = time.monotonic()
        if now - self.written < (SECONDS_BETWEEN_UPDATES if self.terminal else SECONDS_BETWEEN_LINES):
            return
        self.written = now
        if self.terminal:
            self.visible = True
            sys.stderr.write(f"\r\x1b[2K{line}")
            sys.stderr.flush()
        else:
            announce(line)

    def clear(self) -> None:
        """Take the line away, so that what is printed next stands alone."""
        if self.visible:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self.visible = False


@contextmanager
def progress() -> Iterator[Progress]:
    """A line for the length of a block.

    As in `with progress() as show: show("12,000 states")`.
    """
    line = Progress()
    try:
        yield line
    finally:
        line.clear()


def within(show: Show, part: str) -> Show:
    """Shows the name of a part of the work, and gives what shows the part's own lines after this name."""
    show(part)
    return lambda line: show(f"{part}: {line}")


@dataclass(slots=True)
class Interruption:
    """Whether Ctrl-C came."""

    happened: bool = False


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Ends the block at Ctrl-C and lets the verb report what it has: `Report(..., interrupted=stop.happened)`."""
    stop = Interruption()
    try:
        yield stop
    except KeyboardInterrupt:
        stop.happened = True


def run(verb: Callable[[], Report | ExitStatus], *, as_json: bool) -> ExitStatus:
    """Call the verb and print its report; the reader of a pipe may leave early without changing the status."""
    result = verb()
    if not isinstance(result, Report):
        return ExitStatus(result)
    try:
        write(result, as_json=as_json)
    except BrokenPipeError:
        ignore_standard_output()
    return result.exit_status


def ignore_standard_output() -> None:
    """Nobody reads it any more: what the interpreter still flushes at its end goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _columns() -> int:
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdigit() and int(given) > 0 else WIDTH_WITHOUT_TERMINAL


def _encode_path(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not something that a report holds")
