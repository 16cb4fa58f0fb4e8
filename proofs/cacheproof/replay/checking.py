"""What is checked while a workload is replayed: little after every call, everything at a stated rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from cacheproof.model.registry import AnyComponent, AnyVariant
from cachespec.kernel import DIVERGED, Check, Code, Observation, Operation, Outcome


class Counts(Protocol):
    """Where the inspector counts what it did."""

    constant_checks: int
    full_states: int
    full_steps: int


class Found(Exception):  # noqa: N818  # what the search is for, not an error
    """A property that does not hold."""

    def __init__(
        self, property_: str, statement: str, operation: Operation | None = None, outcome: Outcome | None = None
    ) -> None:
        super().__init__(f"{property_}: {statement}")
        self.property = property_
        self.statement = statement
        self.operation = operation
        self.outcome = outcome


FAILURES = {
    Code.FAILED: ("call", "the call fails inside the engine"),
    Code.DIVERGED: ("call", "the call never returns"),
}
"""Outcomes that are violations whatever the component says."""


class Inspector:
    """Steps one variant and checks it.

    With `in_full`, a call is taken apart into its steps, and every state and step that it goes through is held to all
    properties that apply to the variant. Otherwise the call runs at once and the constant-time checks follow.
    """

    def __init__(self, component: AnyComponent, variant: AnyVariant, config: Any, counts: Counts) -> None:
        self.in_full = False
        self._component = component
        self._variant = variant
        self._config = config
        self._counts = counts
        self._checks = constant_checks(component, variant)
        self._safety = variant.held_to(component.safety)
        self._steps = variant.held_to(component.steps)
        self._seen: tuple[Any, Any] | None = None
        self._progress = variant.held_to(component.progress)

    def call(self, state: Any, operation: Operation) -> tuple[Any, Outcome]:
        """One whole call.

        Raises:
            Found: something does not hold of it.
        """
        if not self.in_full:
            self._seen = None  # a state that is kept keeps every change since then
        move = self._call_in_full if self.in_full else self._variant.call
        after, outcome = move(self._config, state, operation)
        if outcome.code in FAILURES:
            raise Found(*FAILURES[outcome.code], operation, outcome)
        self._counts.constant_checks += len(self._checks)
        for check in self._checks:
            if not check.holds(self._config, after):
                raise Found(check.name, check.statement, operation, outcome)
        return after, outcome

    def observe(self, state: Any) -> Mapping[str, Observation]:
        """The observables of a state."""
        return self._component.observe(self._config, self._view(state))

    def inspect_end(self, state: Any) -> None:
        """Every safety property of the last state; and nothing that must come to an end is still pending."""
        view = self._view(state)
        self._inspect_state(view, None, None)
        for progress in self._progress:
            if progress.pending(self._config, view):
                raise Found(progress.name, f"{progress.statement}: still pending at the end")

    def _call_in_full(self, config: Any, state: Any, operation: Operation) -> tuple[Any, Outcome]:
        step: Operation | None = operation
        outcome, view = DIVERGED, self._view(state)
        visited: list[Any] = []
        while step is not None:
            if state in visited:
                return state, DIVERGED
            visited.append(state)
            state, outcome = self._variant.step(config, state, step)
            after = self._view(state)
            self._inspect_step(view, step, outcome, after)
            self._inspect_state(after, step, outcome)
            view, step = after, self._variant.continuation(config, state)
        return state, outcome

    def _view(self, state: Any) -> Any:
        """The view of a state; one call's last view is the next call's first."""
        if self._seen is None or self._seen[0] is not state:
            self._seen = (state, self._variant.view(self._config, state))
        return self._seen[1]

    def _inspect_state(self, view: Any, operation: Operation | None, outcome: Outcome | None) -> None:
        self._counts.full_states += 1
        for safety in self._safety:
            if not safety.holds(self._config, view):
                raise Found(safety.name, safety.statement, operation, outcome)

    def _inspect_step(self, before: Any, operation: Operation, outcome: Outcome, after: Any) -> None:
        self._counts.full_steps += 1
        for step in self._steps:
            if not step.holds(self._config, before, operation, outcome, after):
                raise Found(step.name, step.statement, operation, outcome)


def constant_checks(component: AnyComponent, variant: AnyVariant) -> tuple[Check, ...]:
    """The component's constant-time checks that apply: those of a variant with the normative sort of state."""
    if component.service is None or variant.state is not component.normative.state:
        return ()
    return tuple(variant.held_to(component.service.checks))
