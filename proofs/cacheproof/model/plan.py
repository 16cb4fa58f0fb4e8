"""How to explore one configuration: what a scope file asks of an exploration."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum


class Granularity(Enum):
    """What one edge of the graph is."""

    CALL = "call"
    """A whole call, as an implementation shows it."""
    STEP = "step"
    """One step; while a call is in progress, its continuation is the only successor."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to explore one configuration.

    `until` names the properties that are to be refuted: the search ends with the level in which the last of them fell.
    Where it is empty, the space is exhausted; with `first`, it ends with the level of the first violation.
    `depth` bounds the distance from the initial state and is part of what is asked; the limits are not: reaching one
    is inconclusive.
    """

    granularity: Granularity = Granularity.CALL
    symmetry: bool = True
    liveness: bool = False
    depth: int | None = None
    limit_states: int | None = None
    limit_seconds: float | None = None
    until: frozenset[str] = frozenset()
    first: bool = False

    @property
    def ends_early(self) -> bool:
        """Whether the search may end before the space is exhausted."""
        return self.first or bool(self.until)

    def is_done(self, broken: AbstractSet[str]) -> bool:
        """Whether all that was to be refuted is, where these properties are."""
        return bool(broken) if self.first else bool(self.until) and self.until <= broken
