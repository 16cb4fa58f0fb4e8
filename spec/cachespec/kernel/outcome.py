"""How an operation ended: a closed vocabulary shared by traces, vectors and targets."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Code(Enum):
    """The ways in which an operation can end. Programs compare codes, never texts."""

    DONE = "done"
    """The operation took effect."""
    HIT = "hit"
    """The requested entry was present."""
    MISS = "miss"
    """The requested entry was not present; a normal answer."""
    REFUSED = "refused"
    """There is no room, or a guarantee cannot be given; nothing was admitted."""
    TOO_LARGE = "too_large"
    """It can never fit; nothing changed."""
    ABSENT = "absent"
    """The operation names something that does not exist; nothing changed."""
    PRESENT = "present"
    """The operation would create something that already exists; nothing changed."""
    STALE = "stale"
    """The operation belongs to an earlier epoch; nothing was read or changed."""
    RETRY = "retry"
    """The sender must send again; the values name the missing contents."""
    UNSUPPORTED = "unsupported"
    """This variant does not have the operation; nothing changed."""
    FAILED = "failed"
    """An assertion failed, or an unexpected error occurred, inside the engine."""
    DIVERGED = "diverged"
    """The call never returns."""


class Outcome(NamedTuple):
    """A code and the integers that the call returned, in the operation's documented order."""

    code: Code
    values: tuple[int, ...] = ()


DONE = Outcome(Code.DONE)
HIT = Outcome(Code.HIT)
MISS = Outcome(Code.MISS)
REFUSED = Outcome(Code.REFUSED)
TOO_LARGE = Outcome(Code.TOO_LARGE)
ABSENT = Outcome(Code.ABSENT)
PRESENT = Outcome(Code.PRESENT)
STALE = Outcome(Code.STALE)
UNSUPPORTED = Outcome(Code.UNSUPPORTED)
FAILED = Outcome(Code.FAILED)
DIVERGED = Outcome(Code.DIVERGED)
