"""How many more calls a component gets in random configurations, after those in its listed ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """What is spent on random configurations: many of them, a few short episodes in each."""

    times: int
    """So many times as many calls as in the listed configurations."""
    steps_in_each: int
    """Calls in one configuration."""
    episode: int
    """Calls after which both sides begin again."""
    patience: int
    """They do so before if as many calls in a row show nothing new."""


RANDOM: Mapping[str, Budget] = {"scheduler": Budget(times=8, steps_in_each=100, episode=50, patience=8)}
"""By component; the others find their bugs in the listed configurations. Requests of a drawn scheduler have come and
gone within 50 calls, and what is new lies in the settings and not far behind them."""
