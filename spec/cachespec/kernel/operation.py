"""Operations: the field's own calls, one frozen dataclass each.

An operation is at once the explorer's edge, the fuzzer's alphabet, the unit of a trace and the message on the wire, so
it is declared once and everything else is derived. Fields are integers, or tuples of integers; none is negative.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar


class Kind(Enum):
    """The cause of an operation."""

    CALL = "call"
    """The environment asks for something; it may stop asking at any time."""
    INTERNAL = "internal"
    """A step the system itself owes: it happens eventually (weak fairness)."""
    FAULT = "fault"
    """Something goes wrong; it happens only finitely often."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Base of every operation.

    `lane` names sender and receiver, for sequence diagrams. `returns` names the values of an outcome in their order; an
    outcome with more values repeats them. It is empty if the values have several meanings.
    """

    kind: ClassVar[Kind] = Kind.CALL
    lane: ClassVar[tuple[str, str]] = ("caller", "cache")
    returns: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def wire_name(cls) -> str:
        """The operation's name in messages and traces: `CanAllocate` becomes `can_allocate`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
