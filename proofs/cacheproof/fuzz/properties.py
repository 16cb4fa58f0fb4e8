"""The component's properties, checked on the specification's side of a run, step by step within each call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cacheproof.fuzz.difference import Subject
from cachespec.kernel import Operation, Outcome, Progress, Safety, Step

AnyProperty = Safety[Any, Any] | Step[Any, Any] | Progress[Any, Any]


def broken_at_start(subject: Subject) -> AnyProperty | None:
    """The first safety property that does not hold initially, or None."""
    return _broken_in(subject, subject.variant.start(subject.config))


def broken_by_call(subject: Subject, state: Any, operation: Operation) -> AnyProperty | None:
    """The first property that the whole call breaks, or None.

    Safety and step properties are checked at every turn of the call; a call that comes back to a state where it has
    been breaks the progress property that is pending there.
    """
    visited: list[Any] = []
    for before, step, outcome, after in _turns(subject, state, operation):
        if after in visited:
            return _pending_in(subject, after)
        visited.append(after)
        broken = _broken_by_turn(subject, before, step, outcome, after) or _broken_in(subject, after)
        if broken is not None:
            return broken
    return None


def _turns(subject: Subject, state: Any, operation: Operation) -> Iterator[tuple[Any, Operation, Outcome, Any]]:
    following: Operation | None = operation
    while following is not None:
        after, outcome = subject.variant.step(subject.config, state, following)
        yield state, following, outcome, after
        state, following = after, subject.variant.continuation(subject.config, after)


def _broken_in(subject: Subject, state: Any) -> AnyProperty | None:
    view = subject.variant.view(subject.config, state)
    applicable = (one for one in subject.component.safety if one.name not in subject.variant.exempt)
    return next((one for one in applicable if not one.holds(subject.config, view)), None)


def _broken_by_turn(
    subject: Subject, before: Any, operation: Operation, outcome: Outcome, after: Any
) -> AnyProperty | None:
    old, new = subject.variant.view(subject.config, before), subject.variant.view(subject.config, after)
    applicable = (one for one in subject.component.steps if one.name not in subject.variant.exempt)
    return next((one for one in applicable if not one.holds(subject.config, old, operation, outcome, new)), None)


def _pending_in(subject: Subject, state: Any) -> AnyProperty | None:
    view = subject.variant.view(subject.config, state)
    return next((one for one in subject.component.progress if one.pending(subject.config, view)), None)
