"""A release with a bug in lockstep with its era, as `conform` would run it."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from cacheproof.foundation.console import Show
from cacheproof.model.finding import Difference, differing
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.target import Target
from cacheproof.releases.conformance import SECONDS_TO_ANSWER, EraResult, Trial
from cacheproof.releases.exploring import explored_of
from cacheproof.releases.planted.listing import Planted
from cacheproof.targets.child import ChildTarget
from cacheproof.targets.vllm.eras import Era, table
from cacheproof.targets.vllm.release import START, needed, needed_environment

START_WITH_A_BUG = Path(__file__).parent / "child" / "start.py"
SECONDS_TO_SHRINK = 10.0


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one bug. `seconds` are processor time of both processes: starting, searching and shrinking."""

    planted: Planted
    result: EraResult
    seconds: float

    @property
    def found(self) -> bool:
        """Whether the release and the era were seen to differ."""
        return isinstance(self.result.finding, Difference)

    @property
    def length(self) -> int | None:
        """How many calls the shortest run has that shows it."""
        finding = self.result.finding
        return len(finding.trace.steps) if isinstance(finding, Difference) else None

    @property
    def seen_in(self) -> str:
        """The call and what differed after it: the outcome, or observables by name."""
        finding = self.result.finding
        if not isinstance(finding, Difference):
            return ""
        what = [line.partition(":")[0] for line in differing(finding.expected, finding.actual)]
        where = finding.operation.wire_name() if finding.operation is not None else "start"
        return f"{where}: {', '.join(what)}"


def perform(
    planted: Planted,
    *,
    steps: int,
    seed: int,
    seconds_to_shrink: float = SECONDS_TO_SHRINK,
    progress: Show | None = None,
) -> Fate:
    """Look for the bug in the listed configurations for `steps` calls, and then in random ones, as `conform` does."""
    before = sum(os.times()[:4])
    trial = Trial.of(table(), planted.era, steps=steps, seed=seed, progress=progress)
    trial = trial.with_random_configurations().repeating(explored_of(planted.era, progress))
    trial = replace(trial, seconds_to_shrink=seconds_to_shrink)
    result = trial.perform(lambda era: open_with_a_bug(era, planted.name))
    return Fate(planted, result, sum(os.times()[:4]) - before)


def open_with_a_bug(era: Era, bug: str, window: int = 0) -> Target:
    """The release of the line with the bug of this name in its process; with none, the release as it is.

    `window`: the tokens that a layer of the scheduler looks back, which no era has.
    """
    component = component_named(era.component)
    there, home = needed(era.release), needed_environment()
    first = home.overlay(era.first) if era.first else None
    command = with_a_bug(there.command(home.python, first, window=window), bug)
    return ChildTarget(command, component, variant_named(component, era.variant), seconds=SECONDS_TO_ANSWER)


def with_a_bug(command: str, bug: str) -> str:
    """The command of a driver, `PYTHON -I START ARGUMENTS...`, with the bug of this name in its process."""
    python, isolated, *driver = shlex.split(command)
    return shlex.join([python, isolated, str(START_WITH_A_BUG), str(START.parent), bug, *driver])
