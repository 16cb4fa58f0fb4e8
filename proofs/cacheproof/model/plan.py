"""How to explore one configuration: what a scope file asks of an exploration."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum

from cacheproof.model.registry import AnyVariant


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
    is inconclusive. Without `normal_form`, states are not brought into the variant's normal form, which hides a bug in
    the transitions that the form relies on.
    """

    granularity: Granularity = Granularity.CALL
    symmetry: bool = True
    normal_form: bool = True
    liveness: bool = False
    depth: int | None = None
    limit_states: int | None = None
    limit_seconds: float | None = None
    until: frozenset[str] = frozenset()
    first: bool = False

    def explored(self, variant: AnyVariant) -> AnyVariant:
        """The variant as it is explored: with its normal form, or without."""
        return variant if self.normal_form else _without_normal_form(variant)

    @property
    def ends_early(self) -> bool:
        """Whether the search may end before the space is exhausted."""
        return self.first or bool(self.until)

    def is_done(self, broken: AbstractSet[str]) -> bool:
        """Whether all that was to be refuted is, where these properties are."""
        return bool(broken) if self.first else bool(self.until) and self.until <= broken


_PLAIN: dict[int, tuple[AnyVariant, AnyVariant]] = {}
"""Variants by identity, each with itself without a normal form: compiled libraries are known by the object."""


def _without_normal_form(variant: AnyVariant) -> AnyVariant:
    return _PLAIN.setdefault(id(variant), (variant, replace(variant, normal=None)))[1]
