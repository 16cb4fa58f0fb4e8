"""The component's properties, checked on the specification's side of a run, after every whole call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cacheproof.fuzz.difference import Subject
from cachespec.kernel import Code, Operation, Outcome, Progress, Safety, Step

AnyProperty = Safety[Any, Any] | Step[Any, Any] | Progress[Any, Any]


Viewed = Callable[[Any], Any]
"""The view of a state; who asks for the same states again keeps them."""


def broken_in(subject: Subject, state: Any, viewed: Viewed | None = None) -> AnyProperty | None:
    """The first safety property that does not hold in the state, or None."""
    view = viewed(state) if viewed is not None else subject.variant.view(subject.config, state)
    applicable = (one for one in subject.component.safety if not _exempt(subject, one))
    return next((one for one in applicable if not one.holds(subject.config, view)), None)


def broken_by_call(
    subject: Subject,
    before: Any,
    operation: Operation,
    outcome: Outcome,
    after: Any,
    viewed: Viewed | None = None,
) -> AnyProperty | None:
    """The first property that the call breaks, or None; one that never returns breaks the progress that is pending."""
    config = subject.config
    old, new = (
        viewed(state) if viewed is not None else subject.variant.view(config, state) for state in (before, after)
    )
    if outcome.code is Code.DIVERGED:
        return next((one for one in subject.component.progress if one.pending(config, new)), None)
    for one in subject.component.steps:
        if not _exempt(subject, one) and not one.holds(config, old, operation, outcome, new):
            return one
    return broken_in(subject, after, viewed)


def _exempt(subject: Subject, one: AnyProperty) -> bool:
    return one.name in subject.variant.exempt
