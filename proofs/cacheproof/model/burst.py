"""Bursts: several calls that an implementation performs at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from cacheproof.model.target import Target
from cachespec.kernel import Operation, Outcome

Answered = list[tuple[Operation, Outcome]]
"""The calls of a burst that were made, in their order, each with how it ended."""


class Extent(Enum):
    """How many calls of a burst have to be made before it may end."""

    ALL = "all"
    UNTIL_REFUSED = "all, or those up to the first that is refused"
    SOME = "at least the first"
    ANY = "as many as go at once, or none"


@dataclass(frozen=True, slots=True)
class Together:
    """Calls that are made at once. `sort` says to a target with bursts which of its functions they are for."""

    sort: str
    calls: tuple[Operation, ...]
    extent: Extent = Extent.ALL


class BurstTarget(Target, Protocol):
    """A target that makes many calls at once."""

    def burst(self, together: Together) -> Answered:
        """Make calls of the burst: which were made, in which order, and how each ended."""
        ...

    def view(self) -> Mapping[str, Any]:
        """Fields of the specification's view of the state, as far as they are kept; none of a target of observables."""
        ...
