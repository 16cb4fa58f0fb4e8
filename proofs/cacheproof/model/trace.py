"""A trace: operations from the initial state, with what came of each. Every counterexample is one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cacheproof.model.registry import AnyComponent, AnyVariant
from cachespec.kernel import Observation, Operation, Outcome


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One operation, its outcome, and the observables after it."""

    operation: Operation
    outcome: Outcome
    observations: dict[str, Observation]


@dataclass(frozen=True, slots=True)
class Trace:
    """A run of one variant in one configuration.

    `cycle` is where a lasso returns to, an index into `steps`; None for a finite trace.
    """

    component: str
    variant: str
    config: Any
    initial: dict[str, Observation]
    steps: tuple[TraceStep, ...]
    cycle: int | None = None

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations alone, in order."""
        return tuple(step.operation for step in self.steps)


@dataclass(frozen=True, slots=True)
class Violation:
    """A property that does not hold, and the trace that shows it; `catalogue` names the known entry, if any."""

    property: str
    statement: str
    trace: Trace
    catalogue: str = ""


def record(
    component: AnyComponent,
    variant: AnyVariant,
    config: Any,
    operations: Iterable[Operation],
    *,
    whole_calls: bool,
    cycle: int | None = None,
) -> Trace:
    """Run the operations through the specification from the initial state, and keep what is seen.

    With `whole_calls`, every operation runs to its end as an implementation sees it; otherwise step by step.
    """
    state = variant.start(config)
    move = variant.call if whole_calls else variant.step

    def observed() -> dict[str, Observation]:
        return dict(component.observe(config, variant.view(config, state)))

    initial, steps = observed(), []
    for operation in operations:
        state, outcome = move(config, state, operation)
        steps.append(TraceStep(operation, outcome, observed()))
    return Trace(component.name, variant.tag, config, initial, tuple(steps), cycle)
