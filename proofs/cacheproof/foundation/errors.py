"""What the user did wrong, and the exit status that says so."""

from __future__ import annotations

from enum import IntEnum

LONGEST_TEXT = 300
"""Characters of an error's text: what was wrong is quoted, but not a megabyte of it."""


class ExitStatus(IntEnum):
    """The four answers that CI may act on."""

    AS_EXPECTED = 0
    FELL_SHORT = 1
    WRONG_INPUT = 2
    INCONCLUSIVE = 3


class InputError(Exception):
    """The call or the input was wrong. The message is one line: what was wrong, where, and what to do."""


class MissingExtraError(InputError):
    """An optional part of the package is not installed. The package is on no index: a path has to be named."""

    def __init__(self, extra: str, what: str) -> None:
        super().__init__(f"{what} needs the extra '{extra}': pip install 'CHECKOUT_OR_WHEEL[{extra}]'")


class NoCompilerError(InputError):
    """There is no C++ compiler on this machine."""


class InconclusiveError(Exception):
    """There is no answer: a limit was reached, or a driver failed. The message is one line; the exit status is 3."""


def shortened(text: str) -> str:
    """On one line, and not longer than an error's text may be."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TEXT else line[: LONGEST_TEXT - 3] + "..."
