"""Properties: what must hold, each with a witness that shows it is not vacuous."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cachespec.kernel.operation import Operation
from cachespec.kernel.outcome import Outcome

Config = TypeVar("Config")
View = TypeVar("View")


@dataclass(frozen=True, slots=True)
class Safety(Generic[Config, View]):
    """A property of every reachable state. `witness` is a state in which it says something."""

    name: str
    statement: str
    holds: Callable[[Config, View], bool]
    witness: Callable[[Config, View], bool]


@dataclass(frozen=True, slots=True)
class Step(Generic[Config, View]):
    """A property of every step (before, operation, outcome, after)."""

    name: str
    statement: str
    holds: Callable[[Config, View, Operation, Outcome, View], bool]
    witness: Callable[[Config, View, Operation, Outcome, View], bool]


@dataclass(frozen=True, slots=True)
class Progress(Generic[Config, View]):
    """A liveness property: once calls and faults stop, `pending` does not hold for ever.

    Fairness: every INTERNAL operation that stays enabled is taken eventually (weak fairness, per operation with its
    fields). A counterexample is a lasso: a stem, and a cycle of INTERNAL steps on which `pending` always holds; or a
    state in which `pending` holds and no INTERNAL step is enabled.
    """

    name: str
    statement: str
    pending: Callable[[Config, View], bool]


def lifted(
    properties: Iterable[Safety[Any, Any]],
    config: Callable[[Any], Any],
    view: Callable[[Any], Any],
    part: str = "",
) -> tuple[Safety[Any, Any], ...]:
    """The safety properties of a part, as properties of the whole: `config` and `view` give what the part sees.

    A property keeps its name, for it is the same one; where a whole has the same kind of part twice, `part` is set
    behind the name: `ENC-1@w0`.
    """
    return tuple(_lifted(rule, config, view, f"{rule.name}@{part}" if part else rule.name) for rule in properties)


def _lifted(
    rule: Safety[Any, Any], config: Callable[[Any], Any], view: Callable[[Any], Any], name: str
) -> Safety[Any, Any]:
    return Safety(
        name=name,
        statement=rule.statement,
        holds=lambda whole, state: rule.holds(config(whole), view(state)),
        witness=lambda whole, state: rule.witness(config(whole), view(state)),
    )


def lifted_steps(
    properties: Iterable[Step[Any, Any]], config: Callable[[Any], Any], view: Callable[[Any], Any]
) -> tuple[Step[Any, Any], ...]:
    """The step properties of a part, as properties of the whole. They hold of the whole's own operations too."""
    return tuple(_lifted_step(rule, config, view) for rule in properties)


def _lifted_step(rule: Step[Any, Any], config: Callable[[Any], Any], view: Callable[[Any], Any]) -> Step[Any, Any]:
    return Step(
        name=rule.name,
        statement=rule.statement,
        holds=lambda whole, b, op, outcome, a: rule.holds(config(whole), view(b), op, outcome, view(a)),
        witness=lambda whole, b, op, outcome, a: rule.witness(config(whole), view(b), op, outcome, view(a)),
    )


def lifted_progress(
    properties: Iterable[Progress[Any, Any]], config: Callable[[Any], Any], view: Callable[[Any], Any]
) -> tuple[Progress[Any, Any], ...]:
    """The liveness properties of a part, as properties of the whole: what is owed to the part is owed by the whole."""
    return tuple(_lifted_progress(rule, config, view) for rule in properties)


def _lifted_progress(
    rule: Progress[Any, Any], config: Callable[[Any], Any], view: Callable[[Any], Any]
) -> Progress[Any, Any]:
    return Progress(rule.name, rule.statement, lambda whole, state: rule.pending(config(whole), view(state)))
