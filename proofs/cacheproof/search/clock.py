"""How long a search takes: its limits, and when it is shown how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable

from cacheproof.model.plan import Plan
from cacheproof.search.result import Ending, Snapshot, Watch

BETWEEN_SNAPSHOTS = 0.5
"""Seconds."""


class SearchClock:
    """The clock of one search, from when it is made."""

    def __init__(self, plan: Plan, watch: Watch | None) -> None:
        self.earlier = 0.0
        """Seconds that came before a checkpoint; limits are those of one run."""
        self._plan, self._watch = plan, watch
        self._started = self._shown = time.monotonic()

    def seconds(self) -> float:
        """How long the search has taken, with what came before a checkpoint."""
        return time.monotonic() - self._started + self.earlier

    def limit_reached(self, states: Callable[[], int]) -> Ending | None:
        """The limit that ends the search here, if any."""
        plan = self._plan
        if plan.limit_states is not None and states() >= plan.limit_states:
            return Ending.STATES
        if plan.limit_seconds is not None and time.monotonic() - self._started >= plan.limit_seconds:
            return Ending.SECONDS
        return None

    def show(self, snapshot: Callable[[], Snapshot]) -> None:
        """Now and then, report the progress."""
        now = time.monotonic()
        if self._watch is not None and now - self._shown > BETWEEN_SNAPSHOTS:
            self._shown = now
            self._watch(snapshot())
