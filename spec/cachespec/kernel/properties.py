"""Properties: what must hold, each with a witness that shows it is not vacuous."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

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
