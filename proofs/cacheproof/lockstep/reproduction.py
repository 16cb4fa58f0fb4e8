"""What a generated pytest file calls: run the operations again and say what is wrong, or None.

The violation of a property is looked for in the trace as it was found: calls or single steps, to its end, with its
lasso. The files that call this are written by `cacheproof.present.show.pytest_file`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.pair import Pair
from cacheproof.model.finding import Breakdown, Difference, Subject
from cacheproof.model.registry import AnyComponent, component_named, variant_named
from cacheproof.model.wire import config_from_message, operation_from_message
from cacheproof.search.canonical import Canonical, canonical
from cacheproof.targets.factory import open_target
from cachespec.kernel import Kind, Operation, Outcome, Progress, Safety

Run = Sequence[tuple[Any, Operation, Outcome, Any]]
"""(state before, operation, outcome, state after), from the initial state."""


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
    run = list(_states(subject, _operations(subject.component, operations), whole_calls=whole_calls))
    if isinstance(rule, Progress):
        wrong = _stuck(subject, rule, run, cycle)
    else:
        wrong = next((number for number, turn in enumerate(run, 1) if not _holds(subject, rule, turn)), None)
        if isinstance(rule, Safety) and not rule.holds(subject.config, _view(subject, _start(subject))):
            wrong = 0
    return None if wrong is None else f"{rule.name} does not hold after operation {wrong}: {rule.statement}"


def _subject(component: str, variant: str, config: Mapping[str, Any]) -> Subject:
    found = component_named(component)
    return Subject(found, variant_named(found, variant), config_from_message(found, config))


def _operations(component: AnyComponent, operations: Sequence[Mapping[str, Any]]) -> list[Operation]:
    return [operation_from_message(component.operations, message) for message in operations]


def _start(subject: Subject) -> Any:
    return subject.variant.start(subject.config)


def _view(subject: Subject, state: Any) -> Any:
    return subject.variant.view(subject.config, state)


def _states(
    subject: Subject, operations: Sequence[Operation], *, whole_calls: bool
) -> Iterator[tuple[Any, Operation, Outcome, Any]]:
    """While a call is in progress, its next turn is a step of its own, as in the explored graph."""
    config, variant, state = subject.config, subject.variant, _start(subject)
    for operation in operations:
        before = state
        in_progress = variant.continuation(config, before) is not None
        move = variant.call if whole_calls and not in_progress else variant.step
        state, outcome = move(config, before, operation)
        yield before, operation, outcome, state


def _holds(subject: Subject, rule: Any, turn: tuple[Any, Operation, Outcome, Any]) -> bool:
    before, operation, outcome, after = turn
    if isinstance(rule, Safety):
        return rule.holds(subject.config, _view(subject, after))
    held: bool = rule.holds(subject.config, _view(subject, before), operation, outcome, _view(subject, after))
    return held


def _stuck(subject: Subject, rule: Progress[Any, Any], run: Run, cycle: int | None) -> int | None:
    """The length of the run if it shows that what is pending stays so: a fair lasso, or an end without a way on."""
    form = canonical(subject.component, subject.variant, subject.config, symmetry=False)
    last = run[-1][3] if run else _start(subject)
    if cycle is None:
        return len(run) if not _enabled(subject, form, last) and _pending(subject, rule, last) else None
    turns = run[cycle:]
    states = [after for _, _, _, after in turns]
    always = frozenset.intersection(*(_enabled(subject, form, state) for state in states))
    is_fair = always <= {operation for _, operation, _, _ in turns}
    returns = form(states[-1]) == form(turns[0][0])
    lasts = returns and is_fair and all(_pending(subject, rule, state) for state in states)
    return len(run) if lasts else None


def _pending(subject: Subject, rule: Progress[Any, Any], state: Any) -> bool:
    return rule.pending(subject.config, _view(subject, state))


def _enabled(subject: Subject, form: Canonical, state: Any) -> frozenset[Operation]:
    """The steps that the system owes in this state: those that change it."""
    config, variant = subject.config, subject.variant
    following = variant.continuation(config, state)
    owed = [following] if following is not None else variant.alphabet(config, state)
    steps = ((one, variant.step(config, state, one)[0]) for one in owed if one.kind is Kind.INTERNAL)
    return frozenset(one for one, after in steps if form(after) != form(state))
