"""Many scopes for any numbers: which are run, how they are judged, and what is kept of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import ExitStatus, InconclusiveError, InputError
from cacheproof.foundation.workers import shared_out, stopped, tell
from cacheproof.model.registry import AnyComponent, component_named, variant_named
from cacheproof.model.scope import Scope, scope_named, scopes_of
from cacheproof.model.store import name_of, save
from cacheproof.model.trace_json import violation_to_message
from cacheproof.search.path import UnsoundReductionError
from cacheproof.search.regions.generalised import Extent, Generalisation, Generalised, Limits
from cacheproof.search.regions.number import RefusedError
from cacheproof.search.regions.unknowns import unknowns
from cacheproof.search.scope_edit import accept_numbers
from cachespec.kernel import NORMATIVE

__all__ = ["Extent", "Limits", "RegionRun", "RegionTask", "accept", "perform", "tasks_for"]

KIND = "regions"
COUNTS = ("regions", "states", "unreached")
"""What a scope file says of a run."""
SECONDS_TO_STOP = 5.0


@dataclass(frozen=True, slots=True)
class RegionTask:
    """One variant in one scope, for any of these numbers."""

    component: str
    variant: str
    scope: str
    numbers: tuple[str, ...]
    limits: Limits
    judged: bool
    """Whether the counts of the scope file are those of this run."""

    @property
    def kept_as(self) -> str:
        """The name under which the run is kept: a run for other numbers than the scope file's does not replace its."""
        own = scope_named(component_named(self.component), self.scope).numbers
        other = () if own is not None and own.any == self.numbers else self.numbers
        return name_of(self.component, self.variant, self.scope, *other)

    def __str__(self) -> str:
        return f"{self.component} {self.variant} {self.scope}"


@dataclass(slots=True)
class RegionRun:
    """A task and what it found."""

    task: RegionTask
    made: Generalised

    @property
    def scope(self) -> Scope:
        """The scope of the task."""
        return scope_named(component_named(self.task.component), self.task.scope)

    @property
    def drift(self) -> list[str]:
        """Counts that differ from the scope file."""
        numbers = self.scope.numbers
        if not self.task.judged or numbers is None or self.made.extent is not Extent.COVERED or self.made.broken:
            return []
        pairs = [(name, getattr(numbers, name), getattr(self.made, name)) for name in COUNTS]
        return [
            f"{name}: {found}; the scope file says {said}" for name, said, found in pairs if said not in (None, found)
        ]

    @property
    def status(self) -> ExitStatus:
        """A broken property or another count falls short; what is not covered is no answer."""
        if self.made.broken or self.drift:
            return ExitStatus.FELL_SHORT
        covered = self.made.extent is Extent.COVERED
        return ExitStatus.AS_EXPECTED if covered else ExitStatus.INCONCLUSIVE

    def record(self) -> dict[str, Any]:
        """As plain data, counterexamples included."""
        made = self.made
        return {
            "component": made.component,
            "variant": made.variant,
            "scope": made.scope,
            "any": [{"number": str(one), "low": one.low, "high": one.high} for one in made.unknowns],
            "extent": made.extent.value,
            "regions": made.regions,
            "refused": made.refused,
            "states": made.states,
            "transitions": made.transitions,
            "largest": made.largest,
            "depth": made.depth,
            "seconds": round(made.seconds, 3),
            "status": self.status.name.lower(),
            "confirmed": list(made.confirmed),
            "unreached": list(made.unreached),
            "broken": {
                name: {"regions": broken.regions, **violation_to_message(broken.violation)}
                for name, broken in made.broken.items()
            },
            "drift": self.drift,
        }


def tasks_for(
    chosen: Iterable[AnyComponent],
    variant: str,
    scope: str | None,
    sets: Sequence[str],
    numbers: Sequence[str] | None,
    limits: Limits,
) -> list[RegionTask]:
    """The tasks of these components. Raises `InputError` for what does not exist."""
    tasks = []
    for component in chosen:
        scopes = scopes_of(component) if scope is None else (scope_named(component, scope),)
        for each in scopes:
            texts = tuple(numbers or (each.numbers.any if each.numbers else ()))
            in_set = scope is not None or (each.numbers is not None and each.numbers.set in sets)
            if not texts or not in_set:
                continue
            unknowns(each.config, texts)
            tag = variant_named(component, variant).tag
            judged = not numbers and tag == NORMATIVE
            tasks.append(RegionTask(component.name, tag, each.name, texts, limits, judged))
    return tasks


def perform(tasks: Sequence[RegionTask], jobs: int, show: Show) -> Iterator[RegionRun]:
    """The runs as they end, in several processes if there is more than one task; each is kept."""
    if len(tasks) == 1 or jobs == 1:
        done: Iterable[RegionRun] = (performed(task, show) for task in tasks)
    else:
        done = shared_out(performed_in_worker, tasks, min(jobs, len(tasks)), show=show, patience=SECONDS_TO_STOP)
    for run in done:
        save(KIND, run.task.kept_as, run.record())
        yield run


def performed_in_worker(task: RegionTask) -> RegionRun:
    """In a worker process, which is told when to stop."""

    def go_on(line: str) -> None:
        tell(line)
        if stopped():
            raise KeyboardInterrupt

    return performed(task, go_on)


def performed(task: RegionTask, show: Show) -> RegionRun:
    """One task.

    Raises `InputError` if the specification asks for the type of one of the numbers, and `InconclusiveError` if a
    counterexample is none with the plain integers of its configuration.
    """
    component = component_named(task.component)
    scope, variant = scope_named(component, task.scope), variant_named(component, task.variant)
    numbers = unknowns(scope.config, task.numbers)
    try:
        made = Generalisation(
            component, variant, scope.config, scope.plan, numbers, task.scope, task.limits, show
        ).run()
    except RefusedError as error:
        raise InputError(f"{task}: {error}: take a number for it") from None
    except UnsoundReductionError as error:
        raise InconclusiveError(f"{task}: a counterexample is not confirmed: {error}") from None
    return RegionRun(task, made)


def accept(path: Path, runs: Sequence[RegionRun]) -> int:
    """Write the counts of these runs into the scope file, except of those that are open or broken; how many changed."""
    good = [run for run in runs if run.made.extent is Extent.COVERED and not run.made.broken]
    return accept_numbers(path, {run.task.scope: {name: getattr(run.made, name) for name in COUNTS} for run in good})
