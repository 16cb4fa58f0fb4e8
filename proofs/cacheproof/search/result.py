"""What an exploration is asked to do, and what it found: one form for every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from cacheproof.model.finding import Difference
from cacheproof.model.trace import Violation


class Ending(Enum):
    """Why the search ended."""

    EXHAUSTED = "exhausted"
    """Every reachable state of the scope was explored."""
    FOUND = "found"
    """All properties that were to be refuted are; the level in which the last one fell was finished."""
    DEPTH = "depth"
    """Every state up to the depth that the plan names was explored."""
    STATES = "states"
    """The limit of states was reached."""
    SECONDS = "seconds"
    """The limit of time was reached."""
    DIFFERED = "differed"
    """An implementation was explored, and parted from the specification."""
    UNSOUND = "unsound"
    """A declared reduction merged states that behave differently, and no counterexample could be reconstructed."""
    INTERRUPTED = "interrupted"
    """The user ended it."""

    @property
    def conclusive(self) -> bool:
        """Whether the search did what it was asked to do."""
        return self in (Ending.EXHAUSTED, Ending.FOUND, Ending.DEPTH)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How far a search is: for display while it runs."""

    states: int
    transitions: int
    depth: int
    seconds: float
    resident_bytes: int

    @property
    def states_per_second(self) -> float:
        """States found, by the clock."""
        return self.states / self.seconds if self.seconds > 0 else 0.0


Watch = Callable[[Snapshot], None]
"""Called now and then while a search runs."""

Coverage = Mapping[str, Mapping[str, int]]
"""How often each operation (by its wire name) ended with each code; steps inside a call are counted too."""


@dataclass(frozen=True, slots=True)
class Parting:
    """Where an implementation that is explored parts from the specification, on a shortest way, and how."""

    difference: Difference
    sentence: str
    """Of states, it may be in what no observable shows."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """What was seen.

    `transitions` counts every pair of an expanded state and an operation of its alphabet that the variant has,
    whatever the outcome. `depth` is the greatest distance of a state from the initial one. `digest` is that of
    `cacheproof.search.digest` over all states found. `violations` has the shortest counterexample of each violated
    property, shortest first. `witnessed` names the properties whose witness was reached.
    `triples` says of an implementation how many of its steps were compared with the specification's; None where it is
    the specification that was explored.
    """

    component: str
    variant: str
    engine: str
    states: int
    transitions: int
    depth: int
    digest: str
    ending: Ending
    violations: tuple[Violation, ...] = ()
    witnessed: frozenset[str] = frozenset()
    coverage: Coverage = field(default_factory=lambda: MappingProxyType({}))
    seconds: float = 0.0
    peak_bytes: int = 0
    triples: int | None = None
    parting: Parting | None = None
