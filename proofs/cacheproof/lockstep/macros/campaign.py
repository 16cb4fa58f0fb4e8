"""Random macros on a target beside the specification, and the smallest run with what was found."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.macros.macro import Vocabulary
from cacheproof.lockstep.macros.playing import MacroFinding, play
from cacheproof.lockstep.macros.shrink import shrunk
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.shrink import SECONDS_TO_SHRINK
from cacheproof.lockstep.tally import Limit, Tally
from cacheproof.model.finding import Finding, Subject
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.target import Target

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
    finding: MacroFinding | None = None
    plain: Finding | None = None
    tried_plain: bool = False
    came_again: bool = True
    interrupted: bool = False
    seconds: float = 0.0


def campaign(
    component: AnyComponent,
    variant: AnyVariant,
    target: Target,
    loads: Loads,
    limit: Limit,
    seed: int,
    *,
    name: str = "target",
    seconds_to_shrink: float = SECONDS_TO_SHRINK,
    progress: Show | None = None,
) -> MacroCampaign:
    """Play macros for so many calls or seconds, and shrink the first finding. Ctrl-C ends it with what is known.

    The same arguments make the same macros; each episode has its own random source and its own load.
    """
    pair = Pair(Subject(component, variant, loads(component, _source(seed, 0))), target, name)
    tally = pair.tally
    done = MacroCampaign(seed, tally)

    def enough() -> bool:
        if progress is not None:
            progress(f"{tally.steps:,} calls in {tally.macros:,} macros, no difference")
        return limit.reached(tally)

    try:
        while done.finding is None and not enough():
            source = _source(seed, tally.episodes)
            config = loads(component, source)
            drawn = [loads.vocabulary.draw(config, source) for _ in range(MACROS_IN_EPISODE)]
            done.finding = play(pair, config, drawn, enough)
        if done.finding is not None:
            small = shrunk(pair, done.finding, seconds_to_shrink, progress)
            done.finding, done.came_again = small.finding, small.came_again
            done.plain, done.tried_plain = small.plain, small.tried_plain
    except KeyboardInterrupt:
        done.interrupted = True
    done.seconds = tally.seconds
    return done


def _source(seed: int, episode: int) -> random.Random:
    return random.Random(f"{seed}/{episode}")  # noqa: S311  # not a secret
