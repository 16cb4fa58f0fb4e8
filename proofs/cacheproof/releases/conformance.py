"""Lockstep of a release and its eras, with the deviations that are listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.lockstep.campaign import RESTART_EVERY, Campaign, lockstep
from cacheproof.lockstep.pair import PATIENCE, Pair
from cacheproof.lockstep.plan import not_there
from cacheproof.lockstep.retracing import retrace
from cacheproof.lockstep.shrink import SECONDS_TO_SHRINK
from cacheproof.lockstep.situations import Operations
from cacheproof.model.configurations import configurations
from cacheproof.model.finding import Breakdown, Difference, Finding, Subject
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.scope import random_configuration
from cacheproof.model.target import Target
from cacheproof.releases.budget import RANDOM, STEPS_IN_EACH
from cacheproof.releases.exploring import Exploration
from cacheproof.targets.factory import open_target
from cacheproof.targets.vllm.eras import Deviation, Era, Table
from cacheproof.targets.vllm.opening import READERS_APART

Opener = Callable[[Era], Target]
SECONDS_TO_ANSWER = 60.0
"""Of the clock, for a driver that limits the processor time of each call by itself."""


@dataclass(slots=True)
class EraResult:
    """One line of the table, run.

    `finding` is the first that is not listed; `vanished` are the deviations that are listed and did not occur.
    """

    era: Era
    seed: int
    steps: int = 0
    seconds: float = 0.0
    operations: dict[str, dict[str, int]] = field(default_factory=dict)
    observables: set[str] = field(default_factory=set)
    states: int = 0
    """As far as observables tell them apart, added up over the configurations."""
    finding: Finding | None = None
    known: list[Deviation] = field(default_factory=list)
    vanished: list[Deviation] = field(default_factory=list)
    interrupted: bool = False

    @property
    def agrees(self) -> bool:
        """Whether something was compared and nothing unexpected was seen."""
        return self.steps > 0 and self.finding is None and not self.vanished and not self.interrupted

    @property
    def broke_down(self) -> bool:
        """The driver failed: nothing is known of the release."""
        return isinstance(self.finding, Breakdown)


def open_released(era: Era) -> Target:
    """The release of the line."""
    return _opened(era, era.release.name)


def open_with_readers_apart(era: Era) -> Target:
    """The same, where each reader of a shared memory is a process of its own."""
    return _opened(era, era.release.name + READERS_APART)


def _opened(era: Era, name: str) -> Target:
    component = component_named(era.component)
    return open_target(name, component, variant_named(component, era.variant), SECONDS_TO_ANSWER)


@dataclass(frozen=True, slots=True)
class Trial:
    """One line of the table, its configurations, and how the release is driven."""

    era: Era
    configurations: tuple[Any, ...]
    deviations: tuple[Deviation, ...]
    steps: int
    """In all: they are shared out among the configurations."""
    seed: int
    progress: Show | None = None
    seconds_to_shrink: float = SECONDS_TO_SHRINK
    drawn: tuple[Any, ...] = ()
    """Random configurations, run after the listed ones with the component's budget of their own."""
    ways: tuple[tuple[Any, tuple[Operations, ...]], ...] = ()
    """Calls that led to new situations when the era was explored, by configuration: made before the random ones."""

    @classmethod
    def of(cls, table: Table, era: Era, *, steps: int, seed: int, progress: Show | None = None) -> Trial:
        """What the table says about a line."""
        listed = tuple(deviation for deviation in table.deviations if deviation.belongs_to(era))
        configurations = tuple(config for config in table.configurations[era.component] if era.has(config))
        return cls(era, configurations, listed, steps, seed, progress)

    def in_random_configurations(self) -> Trial:
        """The same in random ones that the release has the settings of: a few episodes in each."""
        component = component_named(self.era.component)
        numbers = range(-(-self.steps // STEPS_IN_EACH))
        made = (random_configuration(component, self.seed, number, self.era.has) for number in numbers)
        return replace(self, configurations=tuple(made))

    def with_random_configurations(self) -> Trial:
        """The same, and then the component's budget for random configurations, if it has one."""
        budget = RANDOM.get(self.era.component)
        if budget is None:
            return self
        component = component_named(self.era.component)
        number = -(-self.steps * budget.times // budget.steps_in_each)
        return replace(self, drawn=tuple(islice(configurations(component, self.seed, self.era.has), number)))

    def repeating(self, explored: Exploration | None) -> Trial:
        """The same, and what an exploration of the era has shown."""
        return self if explored is None else replace(self, ways=explored.ways)

    def perform(self, opener: Opener | None = None) -> EraResult:
        """The run without what is listed, then each listed deviation anew. The target is closed whatever happens."""
        result = EraResult(self.era, self.seed)
        target = (opener or open_released)(self.era)
        try:
            for campaign in self._campaigns(target, self._listed()):
                _add(result, campaign)
                if campaign.finding is not None or campaign.interrupted:
                    return result
            for deviation in self.deviations:
                self._look_for(deviation, target, result)
                if result.finding is not None or result.interrupted:
                    return result
        finally:
            target.close()
        return result

    def _listed(self) -> frozenset[str]:
        return frozenset(deviation.operation for deviation in self.deviations)

    def _look_for(self, deviation: Deviation, target: Target, result: EraResult) -> None:
        """Whether the operation, made again, is where the release and the era part: it is known, or has vanished.

        A driver that fails, and Ctrl-C, say neither.
        """
        for campaign in self._campaigns(target, self._listed() - {deviation.operation}):
            finding = campaign.finding
            if isinstance(finding, Difference):
                parted = finding.operation
                occurs = parted is not None and parted.wire_name() == deviation.operation
                (result.known if occurs else result.vanished).append(deviation)
                return
            if finding is not None or campaign.interrupted:
                result.finding, result.interrupted = finding, campaign.interrupted
                return
        result.vanished.append(deviation)

    def _campaigns(self, target: Target, left_out: frozenset[str]) -> Iterator[Campaign]:
        """One for each configuration, with its part of the steps, rounded up; without calls that the release lacks."""
        left_out |= not_there(component_named(self.era.component), target)
        for config in self.configurations:
            part = -(-self.steps // len(self.configurations))
            yield self._campaign(target, left_out, config, part, RESTART_EVERY, PATIENCE)
        for config, ways in self.ways:
            yield self._retraced(target, left_out, config, ways)
        for config in self.drawn:
            budget = RANDOM[self.era.component]
            yield self._campaign(target, left_out, config, budget.steps_in_each, budget.episode, budget.patience)

    def _campaign(
        self, target: Target, left_out: frozenset[str], config: Any, steps: int, restart_every: int, patience: int
    ) -> Campaign:
        component = component_named(self.era.component)
        return lockstep(
            component,
            variant_named(component, self.era.variant),
            config,
            target,
            steps=steps,
            seed=self.seed,
            restart_every=restart_every,
            name=self.era.release.name,
            left_out=left_out,
            patience=patience,
            seconds_to_shrink=self.seconds_to_shrink,
            progress=self.progress,
        )

    def _retraced(
        self, target: Target, left_out: frozenset[str], config: Any, ways: tuple[Operations, ...]
    ) -> Campaign:
        component = component_named(self.era.component)
        subject = Subject(component, variant_named(component, self.era.variant), config)
        pair = Pair(subject, target, self.era.release.name, left_out)
        return retrace(pair, ways, self.seed, seconds_to_shrink=self.seconds_to_shrink, progress=self.progress)


def _add(result: EraResult, campaign: Campaign) -> None:
    result.steps += campaign.tally.steps
    result.seconds += campaign.seconds
    result.observables |= campaign.tally.observables
    result.states += len(campaign.tally.states)
    result.finding = campaign.finding
    result.interrupted = campaign.interrupted
    for operation, codes in campaign.tally.by_operation().items():
        counts = result.operations.setdefault(operation, {})
        for code, times in codes.items():
            counts[code] = counts.get(code, 0) + times
