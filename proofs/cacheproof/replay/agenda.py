"""Requests in flight: what each has still to do, and when."""

from __future__ import annotations

import heapq
from typing import NamedTuple

from cachespec.kernel import Operation


class Due(NamedTuple):
    """Calls that are made at a time; of those at one time the ones that were entered first come first."""

    seconds: float
    order: int
    calls: tuple[Operation, ...]
    ends: bool
    """Whether the request is finished then."""


class Agenda:
    """What is to come, in the order of time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.in_flight = 0
        """Requests that are not finished."""
        self._dues: list[Due] = []
        self._entered = 0

    def enter(self, seconds: float, calls: tuple[Operation, ...], *, ends: bool = False) -> None:
        """So many seconds from now."""
        heapq.heappush(self._dues, Due(self.now + seconds, self._entered, calls, ends))
        self._entered += 1
        self.in_flight += ends

    def is_due(self, seconds: float) -> bool:
        """Whether anything is to come until this time."""
        return bool(self._dues) and self._dues[0].seconds <= seconds

    def next(self) -> Due:
        """The next event; the clock advances to it."""
        due = heapq.heappop(self._dues)
        self.now = max(self.now, due.seconds)
        self.in_flight -= due.ends
        return due
