"""The component's properties, checked on the specification's side of a run, after every whole call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cacheproof.model.finding import Subject
from cachespec.kernel import Code, Operation, Outcome, Progress, Safety, Step

AnyProperty = Safety[Any, Any] | Step[Any, Any] | Progress[Any, Any]


Viewed = Callable[[Any], Any]
"""The view of a state; who asks for the same states again keeps them."""


def broken_in(subject: Subject, state: Any, viewed: Viewed | None = None) -> AnyProperty | None:
    """The first safety property that does not hold in the state, or None."""
    view = viewed(state) if viewed is not None else subject.variant.view(subject.config, state)
    rules = subject.variant.held_to(subject.component.safety)
    return next((one for one in rules if not one.holds(subject.config, view)), None)


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
    rules = subject.variant.held_to(subject.component.steps)
    broken = next((one for one in rules if not one.holds(config, old, operation, outcome, new)), None)
    return broken or broken_in(subject, after, viewed)


def all_broken_by_call(
    subject: Subject, before: Any, operation: Operation, outcome: Outcome, after: Any, viewed: Viewed
) -> list[AnyProperty]:
    """Every property that this very call breaks: one that did not hold before is no news.

    A call that never returns breaks every progress that is pending.
    """
    rules = subject.variant.held_to(subject.component.properties())
    return [one for one in rules if breaks(subject, one, before, operation, outcome, after, viewed)]


def breaks(
    subject: Subject, one: AnyProperty, before: Any, operation: Operation, outcome: Outcome, after: Any, viewed: Viewed
) -> bool:
    """Whether this very call breaks the property."""
    if isinstance(one, Progress):
        return outcome.code is Code.DIVERGED and one.pending(subject.config, viewed(after))
    if isinstance(one, Step):
        return not one.holds(subject.config, viewed(before), operation, outcome, viewed(after))
    return not one.holds(subject.config, viewed(after)) and one.holds(subject.config, viewed(before))
