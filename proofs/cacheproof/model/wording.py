"""How operations, outcomes, observables and findings are worded, the same in every picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from cacheproof.model.finding import Breakdown, Difference, Finding, said, shown
from cacheproof.model.observed import observation_texts
from cacheproof.model.registry import component_named
from cacheproof.model.trace import Trace
from cacheproof.model.wire import plain
from cachespec.kernel import Operation, Outcome


def operation_text(operation: Operation) -> str:
    """`put(key=0, size=1)`."""
    arguments = ", ".join(f"{field.name}={shown(getattr(operation, field.name))}" for field in fields(operation))
    return f"{operation.wire_name()}({arguments})"


def outcome_text(outcome: Outcome) -> str:
    """`done`, or `done (1, 2)`."""
    return said(outcome)


def answer_text(kind: type[Operation], outcome: Outcome) -> str:
    """The outcome of such an operation with its values by name: `done: request 0, start 4, tokens 3; request 2`."""
    names, values = kind.returns, outcome.values
    if not values or not names or len(values) % len(names):
        return outcome_text(outcome)
    groups = (values[first : first + len(names)] for first in range(0, len(values), len(names)))
    each = (", ".join(f"{name} {value}" for name, value in zip(names, group, strict=True)) for group in groups)
    return f"{outcome.code.value}: {'; '.join(each)}"


def changes(trace: Trace) -> list[tuple[str, ...]]:
    """For each step, the observables that it changed."""
    component, before, texts = component_named(trace.component), trace.initial, []
    for step in trace.steps:
        changed = {name: value for name, value in step.observations.items() if before.get(name) != value}
        texts.append(observation_texts(component, changed))
        before = step.observations
    return texts


def title(finding: Finding) -> str:
    """What was run: component, variant, and the target where there is one."""
    against = "" if not isinstance(finding, Difference | Breakdown) else f" and {finding.target}"
    return f"{finding.trace.component}, {finding.trace.variant}{against}"


def count(number: int, noun: str) -> str:
    """`1 operation`, `2 operations`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def explaining(name: str) -> str:
    """The command that explains a property, an era or a catalogue entry."""
    return f"cacheproof explain {name}"


def unlike_defaults(kind: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a configuration, as messages hold it, that differ from the defaults of its class."""
    usual = {name: plain(value) for name, value in kind._field_defaults.items()}
    return {name: value for name, value in config.items() if name not in usual or usual[name] != value}


def not_plain(config: Any) -> tuple[str, ...]:
    """The settings that are not as they are by default."""
    return tuple(name for name, default in config._field_defaults.items() if getattr(config, name) != default)


def settings(kind: Any, config: Mapping[str, Any]) -> str:
    """The same values as a line."""
    unlike = unlike_defaults(kind, config)
    return ", ".join(f"{name} {value}" for name, value in unlike.items()) or "all values are defaults"


def remarks(finding: Finding) -> tuple[str, ...]:
    """What is wrong, one line each."""
    if isinstance(finding, Difference):
        return finding.statements
    if isinstance(finding, Breakdown):
        what = "the implementation crashed" if finding.crash else "the target failed"
        return (f"{what}: {finding.reason}",)
    known = f" [{finding.catalogue}]" if finding.catalogue else ""
    return (f"{finding.property} does not hold: {finding.statement}{known}",)
