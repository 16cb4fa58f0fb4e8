"""How operations, outcomes, observables and findings are worded, the same in every picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from cacheproof.model.finding import Breakdown, Difference, Finding, said, shown
from cacheproof.model.trace import Trace
from cachespec.kernel import Observation, Operation, Outcome


def operation_text(operation: Operation) -> str:
    """`put(key=0, size=1)`."""
    arguments = ", ".join(f"{field.name}={shown(getattr(operation, field.name))}" for field in fields(operation))
    return f"{operation.wire_name()}({arguments})"


def outcome_text(outcome: Outcome) -> str:
    """`done`, or `done (1, 2)`."""
    return said(outcome)


def observation_texts(observations: Mapping[str, Observation]) -> tuple[str, ...]:
    """`order [0, 1]` for each observable."""
    return tuple(f"{name} {shown(value)}" for name, value in observations.items())


def changes(trace: Trace) -> list[tuple[str, ...]]:
    """For each step, the observables that it changed."""
    before, texts = trace.initial, []
    for step in trace.steps:
        changed = {name: value for name, value in step.observations.items() if before.get(name) != value}
        texts.append(observation_texts(changed))
        before = step.observations
    return texts


def title(finding: Finding) -> str:
    """What was run: component, variant, and the target where there is one."""
    against = "" if not isinstance(finding, Difference | Breakdown) else f" and {finding.target}"
    return f"{finding.trace.component}, {finding.trace.variant}{against}"


def remarks(finding: Finding) -> tuple[str, ...]:
    """What is wrong, one line each."""
    if isinstance(finding, Difference):
        return finding.statements
    if isinstance(finding, Breakdown):
        return (f"the target failed: {finding.reason}",)
    known = f" [{finding.catalogue}]" if finding.catalogue else ""
    return (f"{finding.property} does not hold: {finding.statement}{known}",)
