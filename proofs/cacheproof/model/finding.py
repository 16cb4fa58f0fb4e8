"""What a run of a target beside the specification can find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cacheproof.model.observed import observed
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named
from cacheproof.model.target import Failure
from cacheproof.model.trace import Trace, Violation
from cachespec.kernel import NORMATIVE, Observation, Operation, Outcome


@dataclass(frozen=True, slots=True)
class Subject:
    """What the target is compared with: one variant of a component in one configuration."""

    component: AnyComponent
    variant: AnyVariant
    config: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """How one side answered: the outcome (None in the initial state) and the observables that it shows after it."""

    outcome: Outcome | None
    observations: Mapping[str, Observation]
    remark: str = field(default="", compare=False)
    """What the side says beside that, such as the exception of a call that failed; for people only."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The target and the specification part at the last step of the trace, or in the initial state if it is empty.

    The trace is what the specification says, whole calls from the initial state; `actual` is the target's last answer.
    """

    target: str
    trace: Trace
    expected: Answer
    actual: Answer

    @property
    def index(self) -> int:
        """The step at which they part; -1 in the initial state."""
        return len(self.trace.steps) - 1

    @property
    def operation(self) -> Operation | None:
        """The call that they answer differently; None in the initial state."""
        return self.trace.steps[-1].operation if self.trace.steps else None

    @property
    def statements(self) -> tuple[str, ...]:
        """What differs, one line each, the outcome first."""
        return tuple(differing(self.expected, self.actual, component_named(self.trace.component), self.trace.variant))


CRASHES = frozenset({Failure.RAISED, Failure.CRASHED})
"""Failures that are the implementation's own if they happen in a call."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The target did not answer the last operation: it crashed, or its driver failed."""

    target: str
    reason: str
    trace: Trace
    failure: Failure = Failure.DRIVER_FAILED
    details: str = field(default="", compare=False)
    """The traceback of the implementation, or its standard error: several lines, or empty."""

    @property
    def crash(self) -> bool:
        """Whether the implementation crashed in a call, a verdict on it; if not, nothing is known of it."""
        return self.failure in CRASHES and bool(self.trace.steps)

    @property
    def sort(self) -> str:
        """The reason without what the target said beside it, which may change from run to run."""
        return self.reason.partition(";")[0]


Finding = Difference | Violation | Breakdown


def differing(
    expected: Answer, actual: Answer, component: AnyComponent | None = None, variant: str = NORMATIVE
) -> list[str]:
    """What differs between two answers; observables that the target leaves out are not compared.

    The values are worded as the component groups them, and as bare sequences without one.
    """
    lines, model = [], "the specification" if variant == NORMATIVE else f"the era {variant}"

    def worded(name: str, value: Observation) -> str:
        return shown(value) if component is None else observed(component, name, value)

    if expected.outcome != actual.outcome:
        remark = f": {actual.remark.splitlines()[-1]}" if actual.remark else ""
        lines.append(f"outcome: {model} says {said(expected.outcome)}, the target {said(actual.outcome)}{remark}")
    for name, value in sorted(actual.observations.items()):
        if (known := expected.observations.get(name)) is None or known != value:
            has = "nothing" if known is None else worded(name, known)
            lines.append(f"{name}: {model} has {has}, the target {worded(name, value)}")
    return lines


def said(outcome: Outcome | None) -> str:
    """An outcome as people read it: `done`, or `done (1, 2)` where there are values."""
    if outcome is None:
        return "nothing"
    return outcome.code.value + (f" ({', '.join(map(str, outcome.values))})" if outcome.values else "")


def shown(value: Observation) -> str:
    """An observation as people read it: `3`, or `[0, 1]`."""
    return str(list(value)) if isinstance(value, tuple) else str(value)


LONGEST_SHOWN = 12
"""Of a longer observation only the first place that differs is shown."""


def parting(name: str, expected: Any, actual: Any) -> str:
    """How an observation differs; of a long one, where first."""
    if isinstance(expected, int) or isinstance(actual, int) or max(len(expected), len(actual)) <= LONGEST_SHOWN:
        return f"{name}: the specification has {expected}, the target {actual}"
    pairs = enumerate(zip(expected, actual, strict=False))
    shorter = min(len(expected), len(actual))
    place = next((place for place, (wanted, value) in pairs if wanted != value), shorter)
    ends = (list(values[place : place + LONGEST_SHOWN]) for values in (expected, actual))
    return "{}: from place {} on the specification has {}, the target {}".format(name, place, *ends)
