"""Bursts: several calls that an implementation performs at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from cacheproof.model.target import Target
from cachespec.kernel import Code, Operation, Outcome

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

    def lacking(self, answered: Answered) -> str:
        """What is wrong with the choice of calls that were made; empty if nothing is.

        They are calls of the burst, each no more often than there; and as many as its extent says.
        """
        left, made = list(self.calls), [call for call, _ in answered]
        in_order = made == left[: len(made)]
        if not in_order and Counter(made) - Counter(left):  # a decode step makes a part of each of its halves
            return f"{self.sort}: calls were made that are not of the burst"
        if len(made) == len(left) or self.extent is Extent.ANY:
            return ""
        refused = bool(answered) and answered[-1][1].code is Code.REFUSED
        enough = {Extent.ALL: False, Extent.UNTIL_REFUSED: refused, Extent.SOME: bool(made)}[self.extent]
        return "" if enough else f"{self.sort}: {len(made)} of {len(left)} calls were made, and not {self.extent.value}"


@runtime_checkable
class BurstTarget(Target, Protocol):
    """A target that makes many calls at once."""

    def burst(self, together: Together) -> Answered:
        """Make calls of the burst: which were made, in which order, and how each ended."""
        ...

    def view(self) -> Mapping[str, Any]:
        """Fields of the specification's view of the state, as far as they are kept; none of a target of observables."""
        ...


def burst_of(target: Target, together: Together) -> Answered:
    """The burst; a target that has none makes the calls one after the other, up to the first that may end them."""
    if isinstance(target, BurstTarget):
        return target.burst(together)
    answered: Answered = []
    for call in together.calls:
        answered.append((call, target.apply(call)))
        if together.extent is not Extent.ALL and answered[-1][1].code is Code.REFUSED:
            break
    return answered


def view_of(target: Target) -> Mapping[str, Any]:
    """What a target with bursts keeps of the view of its state; nothing of another one."""
    return target.view() if isinstance(target, BurstTarget) else {}
