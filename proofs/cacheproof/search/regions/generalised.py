"""A scope for any numbers: one region after the other, until they cover every configuration."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from cacheproof.foundation.console import Show
from cacheproof.foundation.interruption import Interruption, heard
from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.trace import Violation
from cacheproof.search.path import Graph, violation_of
from cacheproof.search.regions.covering import Covering, UndecidedError
from cacheproof.search.regions.decisions import Decisions
from cacheproof.search.regions.region import Region, RegionSearch
from cacheproof.search.regions.unknowns import Unknown, configurations_by_identity, configured, lifted
from cacheproof.search.result import Ending
from cachespec.kernel import Operation, Safety, Step

StateOrStep = Safety[Any, Any] | Step[Any, Any]

STATES = 20_000
"""Default of the limit on the states of one region."""


BETWEEN_LOOKS = 64
"""States between two looks at the clock, each with a word on how far it is."""


class Extent(Enum):
    """How far the regions reach."""

    COVERED = "covered"
    """Every configuration is in a region that was explored to its end, or to the depth of the scope."""
    STATES = "states"
    """A region has more states than the limit."""
    REGIONS = "regions"
    """The limit of regions was reached."""
    SECONDS = "seconds"
    """The limit of time was reached."""
    UNDECIDED = "undecided"
    """The solver does not know whether a configuration is left."""
    INTERRUPTED = "interrupted"
    """The user ended it."""


class Limits(NamedTuple):
    """When to stop; None: never."""

    states: int = STATES
    regions: int | None = None
    seconds: float | None = None


NO_OTHER = Limits()


@dataclass(slots=True)
class Broken:
    """A property that does not hold for every configuration."""

    violation: Violation
    """A shortest counterexample in the first configuration that shows it."""
    regions: int = 1
    """How many regions show it."""


@dataclass(slots=True)
class Generalised:
    """What is known of a variant in a scope, for any of these numbers."""

    component: str
    variant: str
    scope: str
    unknowns: tuple[Unknown, ...]
    extent: Extent = Extent.COVERED
    regions: int = 0
    refused: int = 0
    """Regions of configurations that the component refuses; they are not among `regions`."""
    states: int = 0
    transitions: int = 0
    largest: int = 0
    """The most states of a region."""
    depth: int | None = None
    """The depth that ended the search in some region; None if every one was exhausted, or broke a property."""
    broken: dict[str, Broken] = field(default_factory=dict)
    witnessed: set[str] = field(default_factory=set)
    held_to: tuple[str, ...] = ()
    """The properties of states and steps that the variant is held to."""
    seconds: float = 0.0

    @property
    def unreached(self) -> tuple[str, ...]:
        """Properties that no region puts to the test."""
        return tuple(name for name in self.held_to if name not in self.witnessed)

    @property
    def confirmed(self) -> tuple[str, ...]:
        """Properties that hold in every region, and are put to the test in some; none if something is left open."""
        if self.extent is not Extent.COVERED or self.broken:
            return ()
        return tuple(name for name in self.held_to if name in self.witnessed)


class Generalisation:
    """The search through all regions of one variant in one scope.

    Symmetry and liveness of the plan play no part: names are kept apart, and properties of progress are not judged.
    """

    def __init__(
        self,
        component: AnyComponent,
        variant: AnyVariant,
        config: Any,
        plan: Plan,
        unknowns: Sequence[Unknown],
        scope: str = "",
        limits: Limits = NO_OTHER,
        tell: Show = lambda _: None,
    ) -> None:
        self.component, self.variant, self.config, self.plan = component, variant, config, plan
        self.limits, self.tell = limits, tell
        self.rules: tuple[StateOrStep, ...] = (*variant.held_to(component.safety), *variant.held_to(component.steps))
        names = tuple(rule.name for rule in self.rules)
        self.made = Generalised(component.name, variant.tag, scope, tuple(unknowns), held_to=names)
        self.begun = time.monotonic()
        self.turns = 0

    def run(self) -> Generalised:
        """Explore region by region. Interrupting it ends it with what is known so far.

        Raises `RefusedError` if the specification does something with an unknown that cannot be followed.
        """
        try:
            with heard() as interruption, configurations_by_identity():
                self.made.extent = self._cover(interruption)
        except KeyboardInterrupt:
            self.made.extent = Extent.INTERRUPTED
        except TimeoutError:
            self.made.extent = Extent.SECONDS
        except UndecidedError:
            self.made.extent = Extent.UNDECIDED
        self.made.seconds = time.monotonic() - self.begun
        return self.made

    def _cover(self, interruption: Interruption) -> Extent:
        covering = Covering(self.made.unknowns)
        while (values := covering.uncovered()) is not None:
            if self.made.regions == self.limits.regions:
                return Extent.REGIONS
            decisions = Decisions()
            unknown = lifted(self.config, self.made.unknowns, values, decisions)
            if self.component.invalid(configured(self.config, self.made.unknowns, values)) is not None:
                self.component.invalid(unknown)
                self.made.refused += 1
            else:
                region = self._explored(unknown, decisions, interruption)
                self._add(region, configured(self.config, self.made.unknowns, values))
                if region.ending is Ending.STATES:
                    return Extent.STATES
            covering.cover(decisions)
        return Extent.COVERED

    def _explored(self, unknown: Any, decisions: Decisions, interruption: Interruption) -> Region:
        made, region = self.made, Region()

        def go_on(states: int) -> None:
            interruption.raise_if_any()
            self.turns += 1
            if self.turns % BETWEEN_LOOKS:
                return
            self.tell(f"{self}: {made.regions} regions, {made.states + states:,} states")
            if self.limits.seconds is not None and time.monotonic() - self.begun > self.limits.seconds:
                raise TimeoutError

        search = RegionSearch(self.component, self.variant, self.plan, unknown, decisions, made.witnessed)
        search.run(region, self.limits.states, go_on)
        return region

    def __str__(self) -> str:
        return " ".join(filter(None, (self.made.component, self.made.variant, self.made.scope)))

    def _add(self, region: Region, config: Any) -> None:
        """Count a region in. What it breaks is executed again by the specification in its configuration."""
        made = self.made
        made.regions += 1
        made.states += region.states
        made.transitions += region.transitions
        made.largest = max(made.largest, region.states)
        if region.ending is Ending.DEPTH:
            made.depth = self.plan.depth
        for rule in self.rules:
            if rule.name in made.broken and rule.name in region.broken:
                made.broken[rule.name].regions += 1
            elif rule.name in region.broken:
                made.broken[rule.name] = Broken(self._executed(rule, config, region.broken[rule.name]))

    def _executed(self, rule: StateOrStep, config: Any, operations: Sequence[Operation]) -> Violation:
        """The counterexample as plain integers show it. Raises `UnsoundReductionError` if they do not show it."""
        graph = Graph(self.component, self.plan.explored(self.variant), config, self.plan, lambda state: state)
        return violation_of(graph, rule, operations)
