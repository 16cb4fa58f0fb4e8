"""The properties of a search: which are broken, and where first; which witnesses were reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cacheproof.model.registry import AnyComponent, AnyVariant
from cachespec.kernel import Operation, Outcome

Where = int
"""A step of the explored graph: the number of the state that it starts from, and its place among that state's moves."""

MOVES = 1 << 16
INITIAL: Where = -1
"""The place of the initial state, which no step leads to."""


def where(number: int, move: int) -> Where:
    """Steps in the order in which one process would take them."""
    return number * MOVES + move


class Judge:
    """Applies every property that a variant is held to."""

    def __init__(self, component: AnyComponent, variant: AnyVariant, config: Any) -> None:
        self.config = config
        self.safety = variant.held_to(component.safety)
        self.steps = variant.held_to(component.steps)
        self.progress = variant.held_to(component.progress)
        self._holds_in_state = [(rule.name, rule.holds) for rule in self.safety]
        self._holds_in_step = [(rule.name, rule.holds) for rule in self.steps]
        self._unseen = [
            *((rule.name, rule.witness) for rule in self.safety),
            *((rule.name, rule.pending) for rule in self.progress),
        ]
        self._unseen_steps = [(rule.name, rule.witness) for rule in self.steps]
        self.witnessed: set[str] = set()
        self.broken: dict[str, Where] = {}
        """For each violated property, the first step that shows it."""

    def knows(self, witnessed: Sequence[str]) -> None:
        """These witnesses were reached already: they are not asked again."""
        self.witnessed.update(witnessed)
        self._unseen = [rule for rule in self._unseen if rule[0] not in self.witnessed]
        self._unseen_steps = [rule for rule in self._unseen_steps if rule[0] not in self.witnessed]

    def step(self, at: Where, before: Any, operation: Operation, outcome: Outcome, after: Any) -> None:
        """The step properties, and those of their witnesses that were not seen yet."""
        config = self.config
        for name, holds in self._holds_in_step:
            if not holds(config, before, operation, outcome, after):
                self.note(name, at)
        for name, witness in self._unseen_steps:
            if witness(config, before, operation, outcome, after):
                self.knows([name])

    def state(self, at: Where, view: Any) -> None:
        """The safety properties of a new state, and those witnesses that were not seen yet."""
        config = self.config
        for name, holds in self._holds_in_state:
            if not holds(config, view):
                self.note(name, at)
        for name, witness in self._unseen:
            if witness(config, view):
                self.knows([name])

    def note(self, name: str, at: Where) -> None:
        """The property is broken here; where it was broken at an earlier step, that stands."""
        self.broken[name] = min(at, self.broken.get(name, at))

    def pending(self, view: Any) -> int:
        """The progress properties that are pending, one bit each."""
        return sum(1 << bit for bit, rule in enumerate(self.progress) if rule.pending(self.config, view))
