"""Random macros on a target beside the specification, and the smallest run with what was found."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.macros.macro import Vocabulary
from cacheproof.lockstep.macros.shrink import shrunk
from cacheproof.lockstep.macros.sides import MacroFinding, Sides
from cacheproof.lockstep.shrink import SECONDS_TO_SHRINK
from cacheproof.lockstep.tally import Limit, Tally
from cacheproof.model.burst import BurstTarget
from cacheproof.model.finding import Finding
from cacheproof.model.registry import AnyComponent, AnyVariant

MACROS_IN_EPISODE = 30
REQUESTS = 64
"""Of a load, where nothing is said."""


@dataclass(frozen=True, slots=True)
class Loads:
    """Which configurations are played: a fixed one, or for every episode another one of so many requests and blocks."""

    vocabulary: Vocabulary
    requests: int = REQUESTS
    blocks: int | None = None
    fixed: Any = None

    def __call__(self, component: AnyComponent, source: random.Random) -> Any:
        """The configuration of an episode."""
        config = self.vocabulary.load(self.requests, self.blocks, source) if self.fixed is None else self.fixed
        if (wrong := component.invalid(config)) is not None:
            raise InputError(f"{component.name}: {self.requests} requests and {self.blocks} blocks: {wrong}")
        return config


@dataclass(slots=True)
class MacroCampaign:
    """What a run did and found: `finding` in macros, and `plain` if it is there without bursts too."""

    seed: int
    tally: Tally
    macros: int = 0
    largest: int = 0
    """Calls of the largest burst."""
    finding: MacroFinding | None = None
    plain: Finding | None = None
    tried_plain: bool = False
    came_again: bool = True
    interrupted: bool = False
    seconds: float = 0.0


def campaign(
    component: AnyComponent,
    variant: AnyVariant,
    target: BurstTarget,
    loads: Loads,
    limit: Limit,
    seed: int,
    *,
    name: str = "target",
    seconds_to_shrink: float = SECONDS_TO_SHRINK,
    progress: Callable[[str], None] | None = None,
) -> MacroCampaign:
    """Play macros for so many calls or seconds, and shrink the first finding. Ctrl-C ends it with what is known.

    The same arguments make the same macros; each episode has its own random source and its own load.
    """
    sides = Sides(component, variant, target, name)
    done = MacroCampaign(seed, sides.tally)

    def enough() -> bool:
        if progress is not None:
            progress(f"{sides.tally.steps:,} calls in {sides.macros:,} macros, no difference")
        return limit.reached(sides.tally)

    try:
        while done.finding is None and not enough():
            source = random.Random(f"{seed}/{sides.tally.episodes}")  # noqa: S311  # not a secret
            config = loads(component, source)
            drawn = [loads.vocabulary.draw(config, source) for _ in range(MACROS_IN_EPISODE)]
            done.finding = sides.play(config, drawn, enough)
        done.seconds, done.macros, done.largest = sides.tally.seconds, sides.macros, sides.largest
        if done.finding is not None:
            small = shrunk(sides, done.finding, seconds_to_shrink, progress)
            done.finding, done.came_again = small.finding, small.came_again
            done.plain, done.tried_plain = small.plain, small.tried_plain
    except KeyboardInterrupt:
        done.interrupted = True
    done.seconds, done.macros = done.tally.seconds, done.macros or sides.macros
    done.largest = done.largest or sides.largest
    return done
