"""What a generated pytest file calls: run the operations again and say what is wrong, or None.

The violation of a property is looked for in the trace as it was found: calls or single steps, to its end, with its
lasso. The files that call this are written by `cacheproof.present.show.pytest_file`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.pair import Pair
from cacheproof.model.finding import Breakdown, Difference, Subject
from cacheproof.model.registry import AnyComponent, component_named, variant_named
from cacheproof.model.wire import config_from_message, operation_from_message
from cacheproof.search.breaking import Run
from cacheproof.targets.factory import open_target
from cachespec.kernel import Operation


def difference(
    component: str,
    variant: str,
    config: Mapping[str, Any],
    target: str,
    operations: Sequence[Mapping[str, Any]],
) -> str | None:
    """What a target answers differently from the specification; None where they agree to the end.

    Raises TargetError where the target's driver fails: that is no verdict.
    """
    subject = _subject(component, variant, config)
    opened = open_target(target, subject.component, subject.variant)
    try:
        found = Pair(subject, opened, target).replay(_operations(subject.component, operations), only_offered=False)
    finally:
        opened.close()
    if isinstance(found, Breakdown):
        return f"the target failed: {found.reason}"
    if isinstance(found, Difference):
        after = f"after call {found.index + 1}" if found.operation is not None else "in the initial state"
        return f"{after}: " + "; ".join(found.statements)
    return None if found is None else f"{found.property} does not hold: {found.statement}"


def violation(
    component: str,
    variant: str,
    config: Mapping[str, Any],
    operations: Sequence[Mapping[str, Any]],
    broken: str,
    *,
    whole_calls: bool,
    cycle: int | None = None,
) -> str | None:
    """How a variant breaks the property in this run; None where the property holds in all of it."""
    subject = _subject(component, variant, config)
    rule = next((one for one in subject.component.properties() if one.name == broken), None)
    if rule is None:
        raise InputError(f"{component} has no property '{broken}'")
    made = _operations(subject.component, operations)
    run = Run(subject.component, subject.variant, subject.config, made, whole_calls=whole_calls)
    wrong = run.broken_after(rule, cycle)
    return None if wrong is None else f"{rule.name} does not hold after operation {wrong}: {rule.statement}"


def _subject(component: str, variant: str, config: Mapping[str, Any]) -> Subject:
    found = component_named(component)
    return Subject(found, variant_named(found, variant), config_from_message(found, config))


def _operations(component: AnyComponent, operations: Sequence[Mapping[str, Any]]) -> list[Operation]:
    return [operation_from_message(component.operations, message) for message in operations]
