"""Calls of a scheduler one after the other, for tests of what a variant does with them."""

from __future__ import annotations

from typing import NamedTuple

from cachespec.kernel import Operation, Outcome
from cachespec.scheduler import COMPONENT, Config, View


class Called(NamedTuple):
    """What the calls have led to."""

    outcomes: tuple[Outcome, ...]
    """Of each call."""
    views: tuple[View, ...]
    """Behind each call."""

    @property
    def outcome(self) -> Outcome:
        """Of the last call."""
        return self.outcomes[-1]

    @property
    def view(self) -> View:
        """Behind the last call."""
        return self.views[-1]


def called(tag: str, config: Config, *calls: Operation) -> Called:
    """These calls, made by a variant of the scheduler in its first state."""
    variant = COMPONENT.variants[tag]
    state = variant.start(config)
    outcomes, views = list[Outcome](), list[View]()
    for call in calls:
        state, outcome = variant.call(config, state, call)
        outcomes.append(outcome)
        views.append(variant.view(config, state))
    return Called(tuple(outcomes), tuple(views))
