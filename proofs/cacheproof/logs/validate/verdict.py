"""The result of validation, and its report of an impossible line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from cacheproof.logs.validate.lines import Line, Pattern, agrees
from cachespec.kernel import Code, Observation, Operation, Outcome

SHOWN_INTEGERS = 12
"""Of a long array so many integers are shown, around the first that differs."""


class Sort(Enum):
    """Is the log one of a run of the specification?"""

    POSSIBLE = "possible"
    """All of it was consumed, and there is a run that shows all this."""
    IMPOSSIBLE = "impossible"
    """No run of the specification shows what this line says."""
    INCONCLUSIVE = "inconclusive"
    """Not known: more states were possible than are followed, or not all calls could be tried."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing in which a call of the specification differs from the line."""

    what: str
    """`code`, `values`, or the name of an observable."""
    expected: Any
    logged: Any
    unchanged: bool = False
    """It is not on the line, which says that it has not changed."""

    @property
    def statement(self) -> str:
        """One line for a person."""
        if isinstance(self.expected, tuple) and isinstance(self.logged, tuple):
            place, expected, logged = around(self.expected, self.logged)
        else:
            place, expected, logged = "", _shown(self.expected), _shown(self.logged)
        says = "left it unchanged, at" if self.unchanged else "says"
        return f"{self.what}{place}: the specification has {expected}, the log {says} {logged}"


@dataclass(frozen=True, slots=True)
class Tried:
    """A state that was possible before the line, a call in it, and where that differs from the line."""

    before: Mapping[str, Observation]
    """The observables of the state."""
    operation: Operation | None
    outcome: Outcome | None
    differences: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Impossible:
    """The first line that no run of the specification shows. `tried` has the attempts that differ least."""

    line: int
    text: str
    source: str
    reason: str
    states: int
    """How many states were possible before it, unlogged calls included."""
    tried: tuple[Tried, ...]


@dataclass(frozen=True, slots=True)
class Inconclusive:
    """Why it is not known whether the log is a run."""

    line: int
    """The line that is the reason; it may be earlier than the first line without an answer."""
    reason: str


def differences(
    line: Line, expected: Mapping[str, Pattern], outcome: Outcome | None, shown: Mapping[str, Observation]
) -> Iterable[Part]:
    """Where what the specification answers and shows is not what the line says; `expected` are the observables."""
    if outcome is not None:
        if line.code is not None and line.code is not outcome.code:
            yield Part("code", outcome.code.value, line.code.value)
        if not agrees(line.values, outcome.values):
            yield Part("values", outcome.values, line.values)
        if outcome.code is Code.DIVERGED:
            return
    for name, said in expected.items():
        if not agrees(said, shown[name]):
            yield Part(name, shown[name], said, unchanged=name not in line.observations)


def around(expected: tuple[Any, ...], logged: tuple[Any, ...]) -> tuple[str, str, str]:
    """Where two arrays part first, and both around that place; all of them where they are short."""
    pairs = zip(expected, logged, strict=False)
    at = next((place for place, (one, other) in enumerate(pairs) if other is not None and one != other), None)
    at = (0 if len(expected) == len(logged) else min(len(expected), len(logged))) if at is None else at
    if max(len(expected), len(logged)) <= SHOWN_INTEGERS:
        return "", _shown(expected), _shown(logged)
    first = max(0, at - SHOWN_INTEGERS // 2)
    part = slice(first, first + SHOWN_INTEGERS)
    lengths = f" ({len(expected):,} and {len(logged):,} integers, differing from {at:,} on)"
    return lengths, _shown(expected[part], first, len(expected)), _shown(logged[part], first, len(logged))


def _shown(value: Any, first: int = 0, length: int | None = None) -> str:
    if isinstance(value, tuple):
        listed = ["?" if each is None else str(each) for each in value]
        before = ["…"] if first else []
        after = ["…"] if length is not None and first + len(value) < length else []
        return f"[{', '.join([*before, *listed, *after])}]"
    return str(value)
