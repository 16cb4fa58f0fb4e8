"""A release searched for the properties that it breaks: in which configurations, and what was done."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.lockstep.stalls import Sort, Stall
from cacheproof.lockstep.stalls import search as search_for_stalls
from cacheproof.lockstep.tally import Limit
from cacheproof.lockstep.violations import Hunt, hunt
from cacheproof.lockstep.violations_nearest import Seen
from cacheproof.model.configurations import drawn
from cacheproof.model.declaration import declared_by
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.target import Target, TargetError
from cacheproof.releases import conformance
from cacheproof.releases.conformance import SECONDS_TO_ANSWER, Opener
from cacheproof.releases.exploring import Exploration, configurations_in
from cacheproof.targets.factory import open_target
from cacheproof.targets.vllm.eras import Era, Table
from cacheproof.targets.vllm.release import Release, needed

SEARCHED = Path(__file__).parent / "searched.toml"
SCHEDULER = "scheduler"
CALLS_ALONE = 8
"""So many times as many calls are made where the scheduler is driven alone, as it is quicker and stalls are rarer."""


@dataclass(frozen=True, slots=True)
class Searched:
    """The whole file."""

    configurations: Mapping[str, tuple[Any, ...]]
    """Of each component."""
    kept: Mapping[str, frozenset[str]]
    """Settings of a component that a release is made with."""


@cache
def searched(path: Path = SEARCHED) -> Searched:
    """The file, read and checked."""
    with path.open("rb") as file:
        content = tomllib.load(file)
    kept = {name: frozenset(settings) for name, settings in content["kept"].items()}
    return Searched(configurations_in(content["configuration"], path), kept)


@dataclass(slots=True)
class EraSearch:
    """One line of the table of eras, searched. For a scheduler that no era describes, the variant is empty."""

    era: Era
    seed: int
    hunt: Hunt
    stalls: dict[Sort, tuple[Stall, int]] = field(default_factory=dict)
    """The shortest of each sort that the scheduler alone has shown, and how many calls were made until then."""
    alone: int = 0
    """Calls of the scheduler alone."""
    failure: str = ""
    """Why nothing more is known: the driver failed."""
    seconds: float = 0.0
    hint: bool = False
    """Whether the release is not as the era, which only says where to look: that the two part is then no news."""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.hunt.interrupted


def without_era(table: Table, releases: Iterable[Release]) -> list[Era]:
    """A line for each scheduler of these releases that no era describes, and that can be driven."""
    described = {era.release for era in table.eras if era.component == SCHEDULER}
    alone = [Era(SCHEDULER, "", release) for release in releases if release not in described]
    return [era for era in alone if not needed(era.release).obstacle(SCHEDULER)]


def search(
    table: Table,
    era: Era,
    *,
    limit: Limit,
    seed: int,
    progress: Show | None = None,
    opener: Opener | None = None,
    alone: Opener | None = None,
    explored: Exploration | None = None,
) -> EraSearch:
    """What the release is seen to break. Targets are closed whatever happens; a driver that fails is no violation.

    `opener` opens the release beside its era, and `alone` the scheduler by itself; with the first only, it is left out.
    `explored`: what an exploration of the era has seen, which is repeated first.
    """
    done = EraSearch(era, seed, Hunt(seed))
    foreseen = () if explored is None else explored.broken
    try:
        if era.variant:
            _beside_the_era(done, table, limit, progress, opener or conformance.open_released, foreseen)
        if era.component == SCHEDULER and not done.interrupted and (opener is None or alone is not None):
            _alone(done, limit, progress, alone or _open_alone)
    except TargetError as error:
        done.failure = str(error)
    done.seconds = done.hunt.tally.seconds
    return done


def _beside_the_era(
    done: EraSearch,
    table: Table,
    limit: Limit,
    progress: Show | None,
    opener: Opener,
    foreseen: Iterable[tuple[Any, Seen]],
) -> None:
    era = done.era
    component = component_named(era.component)
    target = opener(era)
    try:
        done.hunt = hunt(
            component,
            variant_named(component, era.variant),
            configurations(table, era, done.seed),
            target,
            limit=limit,
            seed=done.seed,
            explored=small(era),
            foreseen=foreseen,
            name=era.release.name,
            left_out=declared_by(component, target).missing(component),
            kept=searched().kept.get(era.component, frozenset()),
            progress=progress,
        )
    finally:
        target.close()


def _open_alone(era: Era) -> Target:
    component = component_named(SCHEDULER)
    return open_target(era.release.name, component, component.normative, SECONDS_TO_ANSWER)


def _alone(done: EraSearch, limit: Limit, progress: Show | None, opener: Opener) -> None:
    """The scheduler and nothing beside it: half of the calls with plain loads, and half with rarer settings."""
    steps = None if limit.steps is None else -(-limit.steps * CALLS_ALONE // 2)
    half = Limit(steps, None if limit.seconds is None else limit.seconds / 2)
    target = opener(done.era)
    try:
        for wide in (False, True):
            _with_loads(done, target, half, progress, wide=wide)
    finally:
        target.close()


def _with_loads(done: EraSearch, target: Target, limit: Limit, progress: Show | None, *, wide: bool) -> None:
    """Search after search with another seed; of each sort the shortest is kept.

    Not every release has drafts in steps ahead of their output, so no load has both.
    """

    def suitable(config: Any) -> bool:
        return done.era.has(config) and (config.ahead == 1 or config.drafts == 0)

    left, seconds, number = limit.steps, limit.seconds, done.seed
    while not done.hunt.interrupted and (left is None or left > 0) and (seconds is None or seconds > 0):
        limits = Limit(left, seconds)
        found = search_for_stalls(target, limit=limits, seed=number, wide=wide, suitable=suitable, progress=progress)
        done.alone += found.tally.steps
        left = None if left is None else left - found.tally.steps
        seconds = None if seconds is None else seconds - found.seconds
        stall, number = found.finding, number + 1
        if stall is not None and _is_shorter(stall, done.stalls.get(stall.sort)):
            done.stalls[stall.sort] = (stall, done.alone)
        done.hunt.interrupted = found.interrupted


def _is_shorter(stall: Stall, known: tuple[Stall, int] | None) -> bool:
    return known is None or len(stall.calls) < len(known[0].calls)


def configurations(table: Table, era: Era, seed: int) -> Iterator[Any]:
    """Without end: a small one, a random one, one of the table of eras, a random one; the same for the same seed."""
    listed = [config for config in table.configurations[era.component] if era.has(config)]
    small_in_turn, listed_in_turn = cycle(small(era) or listed), cycle(listed)
    number = 0
    while True:
        yield next(small_in_turn)
        yield random(era, seed, number)
        yield next(listed_in_turn)
        yield random(era, seed, number + 1)
        number += 2


def small(era: Era) -> list[Any]:
    """The small configurations of the component that the release has all settings for."""
    return [config for config in searched().configurations.get(era.component, ()) if era.has(config)]


def random(era: Era, seed: int, number: int) -> Any:
    """The random configuration of this number that the release has all settings for."""
    return drawn(component_named(era.component), seed, number, era.has)
