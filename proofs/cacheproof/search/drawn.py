"""Random configurations of the specification, each explored to its end or to a limit of states.

The scopes in the files are chosen by hand, and each has few settings. A drawn configuration has several at once, and
numbers that its author did not think of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple

from cacheproof.foundation.console import Show
from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named
from cacheproof.model.scope import drawn_name
from cacheproof.model.store import save
from cacheproof.model.trace import Violation
from cacheproof.search.campaign import Effort, Run, perform_all
from cacheproof.search.engines import engine_module
from cacheproof.search.plainest import plainest
from cacheproof.search.record import KIND, record_of
from cacheproof.search.result import Ending
from cacheproof.search.tasks import Task, run_name
from cacheproof.search.worker import NATIVE, REFERENCE

Suitable = Callable[[Any], bool]
Sorted = Callable[[Violation], str]
"""Which known faults cause a violation, or that none does. A property can be violated for several causes."""


class Sort(NamedTuple):
    """Violations that are shown as one."""

    property: str
    cause: str
    """What `Sorted` says; empty if nothing is known about any."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A property that some of the configurations violate, for one cause."""

    run: Run
    """The one with the shortest trace."""
    violation: Violation
    """As it was found, or in a plainer configuration."""
    configurations: int
    """In how many of them it is violated."""


@dataclass(slots=True)
class Drawn:
    """What the configurations of one variant have shown."""

    component: str
    variant: str
    suitable: Suitable = lambda config: True
    """Configurations in which violations are shown rather than in others."""
    sort: Sorted = lambda violation: ""
    configurations: int = 0
    exhausted: int = 0
    """Configurations of which every state was explored."""
    states: int = 0
    transitions: int = 0
    seconds: float = 0.0
    """Added up over the worker processes."""
    witnessed: set[str] = field(default_factory=set)
    """The properties that were put to the test."""
    unsound: dict[str, str] = field(default_factory=dict)
    """Scopes in which a reduction of the explorer is wrong: why, and what was done there."""
    broken: dict[Sort, Broken] = field(default_factory=dict)

    def add(self, run: Run) -> None:
        """One more configuration. It is kept for `show` if it violates a property."""
        found = run.exploration
        self.configurations += 1
        self.exhausted += found.ending is Ending.EXHAUSTED
        self.states, self.transitions = self.states + found.states, self.transitions + found.transitions
        self.seconds += found.seconds
        self.witnessed |= found.witnessed
        if run.unsound:
            self.unsound[run.scope.name] = run.unsound
        if found.violations:
            save(KIND, run_name(run.task), record_of(run))
        for violation in found.violations:
            sort = Sort(violation.property, self.sort(violation))
            known, this = self.broken.get(sort), Broken(run, violation, 1)
            self.broken[sort] = this if known is None else self._better(known, this)

    def _better(self, known: Broken, other: Broken) -> Broken:
        """The suitable one, the one with the shorter trace, or the lower number: in whatever order they end."""
        best = min(known, other, key=self._rank)
        return replace(best, configurations=known.configurations + other.configurations)

    def _rank(self, one: Broken) -> tuple[bool, int, int]:
        scope = one.run.scope
        return not self.suitable(scope.config), len(one.violation.trace.steps), number_of(scope.name)

    def make_plainer(self, amount: Amount, show: Show) -> None:
        """Each violation in the plainest configuration. It is kept for `show` in the place of what was found."""
        component = component_named(self.component)
        variant = component.variants[self.variant]
        for sort, known in self.broken.items():
            engine, config = known.run.task.engine, known.run.scope.config
            suitable = self.suitable if self.suitable(config) else lambda config: True

            def alike(other: Violation, cause: str = sort.cause) -> bool:
                return self.sort(other) == cause

            plain = plainest(
                component, variant, engine, known.violation, amount.states, amount.shrinking, show, suitable, alike
            )
            self.broken[sort] = replace(known, violation=plain)
        for one in dict.fromkeys(broken.run.task for broken in self.broken.values()):
            self._keep(one)

    def _keep(self, task: Task) -> None:
        """The run of this task, with the violations for which it is shown as they are now."""
        shown = {sort.property: one for sort, one in self.broken.items() if one.run.task == task}
        run = next(iter(shown.values())).run
        violations = tuple(
            shown[one.property].violation if one.property in shown else one for one in run.exploration.violations
        )
        found = replace(run.exploration, violations=violations)
        save(KIND, run_name(task), record_of(replace(run, exploration=found)))


def number_of(scope: str) -> int:
    """The number of the configuration in the name of a drawn scope."""
    return int(scope.rpartition("-")[2])


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is explored."""

    configurations: int
    """Of each variant."""
    first: int
    """The number of the first one."""
    states: int
    """Where the exploration of a configuration ends."""
    seconds: float | None
    """After so long no other result is waited for."""
    shrinking: float
    """Seconds for which a plainer configuration is looked for, for each violated property."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of all variants; `whole` unless the time was over or the user ended it."""

    drawn: tuple[Drawn, ...]
    interrupted: bool
    whole: bool


def explore_drawn(
    subjects: Sequence[tuple[AnyComponent, AnyVariant]],
    seed: int,
    amount: Amount,
    jobs: int,
    show: Show,
    announce: Show,
    suitable: Callable[[AnyComponent, AnyVariant], Suitable] = lambda component, variant: lambda config: True,
    sorts: Callable[[AnyComponent, AnyVariant], Sorted] = lambda component, variant: lambda violation: "",
) -> Outcome:
    """Explore them in `jobs` processes, by compiled code where the machine has a compiler.

    The configurations of a seed and what is found in each do not depend on `jobs`. Of the configurations that violate
    a property, a `suitable` one is shown if there is one; one for each sort of violation that `sorts` tells apart.
    """
    results = {
        (component.name, variant.tag): Drawn(
            component.name, variant.tag, suitable(component, variant), sorts(component, variant)
        )
        for component, variant in subjects
    }
    engines = [_engine(component, variant, announce) for component, variant in subjects]
    tasks = [
        Task(component.name, variant.tag, drawn_name(seed, number), engine)
        for number in range(amount.first, amount.first + amount.configurations)
        for (component, variant), engine in zip(subjects, engines, strict=True)
    ]
    end = time.monotonic() + (inf if amount.seconds is None else amount.seconds)
    ended, interrupted, over, reported = 0, False, False, False
    with (
        suppress(KeyboardInterrupt),
        closing(perform_all(tasks, Effort(jobs=jobs, states=amount.states), show)) as runs,
    ):
        for run in runs:
            interrupted = interrupted or run.exploration.ending is Ending.INTERRUPTED
            results[run.task.component, run.task.variant].add(run)
            ended += 1
            show(f"{ended:,} of {len(tasks):,} configurations: {run.task}")
            if time.monotonic() > end:
                over = True
                break
        for one in results.values() if not interrupted else ():
            one.make_plainer(amount, show)
        reported = True
    whole = ended == len(tasks)
    return Outcome(tuple(results.values()), interrupted or not reported or not (whole or over), whole)


def _engine(component: AnyComponent, variant: AnyVariant, announce: Show) -> str:
    reason = engine_module(NATIVE).cannot(component, variant, Plan())
    if reason is None:
        return NATIVE
    announce(f"{reason}. The reference engine goes on")
    return REFERENCE
