"""Operations: the field's own calls, one frozen dataclass each.

An operation is at once the explorer's edge, the fuzzer's alphabet, the unit of a trace and the message on the wire, so
it is declared once and everything else is derived. Fields are integers, or tuples of integers; none is negative.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar


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
    outcome with more values repeats them. It is empty if the values have several meanings. `setting` is the field of
    the configuration that allows the operation from the value `least` on; without one it is always allowed.
    """

    kind: ClassVar[Kind] = Kind.CALL
    lane: ClassVar[tuple[str, str]] = ("caller", "cache")
    returns: ClassVar[tuple[str, ...]] = ()
    setting: ClassVar[str] = ""
    least: ClassVar[int] = 1
    named: ClassVar[str] = ""
    """See `wire_name`. It is made once, with the class."""

    def __init_subclass__(cls) -> None:
        cls.named = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def ruled_out(cls, config: Any) -> str:
        """Why it cannot happen in this configuration, or nothing."""
        return unset(config, cls.setting, cls.least) if cls.setting != "" else ""

    @classmethod
    def wire_name(cls) -> str:
        """The operation's name in messages and traces: `CanAllocate` becomes `can_allocate`."""
        return cls.named


def unset(config: Any, setting: str, least: int = 1) -> str:
    """Says that a setting is off: its value, or each of its values, is less than `least`. Empty if it is on."""
    value = getattr(config, setting)
    greatest = max(value, default=0) if isinstance(value, tuple) else value
    return f"{setting} = {value}" if greatest < least else ""
