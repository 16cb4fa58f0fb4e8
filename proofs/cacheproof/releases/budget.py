"""How many more calls a component gets in random configurations, after those in its listed ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

STEPS_IN_EACH = 200
"""Calls that are made in a random configuration: two episodes of the plain driver, then the next one."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What is spent on random configurations: many of them, a few short episodes in each."""

    times: int
    """The calls in random configurations, as a multiple of the calls in the listed ones."""
    steps_in_each: int
    """Calls in one configuration."""
    episode: int
    """Calls after which both sides begin again."""
    patience: int
    """They do so before if as many calls in a row show nothing new."""


RANDOM: Mapping[str, Budget] = {"scheduler": Budget(times=8, steps_in_each=100, episode=50, patience=8)}
"""By component. Other components find their bugs in the listed configurations. In a random configuration of the
scheduler all requests end within about 50 calls, so more configurations find more than longer episodes do."""
