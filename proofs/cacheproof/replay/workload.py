"""A workload: requests in the order of their arrival, each with the contents that it refers to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Arrival(NamedTuple):
    """One request, and where it was read."""

    contents: tuple[int, ...]
    """In the order of the prompt; each is an index into `Workload.sizes`."""
    path: Path
    line: int
    seconds: float | None = None
    """Since the start, where the workload has a clock."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What a reader makes of a trace.

    `sizes` are those of the contents, in `unit`. `composed` says that requests were drawn from distributions: such a
    workload is no recording, and whatever shows it says so. `seed` is None where nothing was drawn.
    """

    title: str
    unit: str
    sizes: tuple[int, ...]
    arrivals: tuple[Arrival, ...]
    composed: bool = False
    seed: int | None = None

    @property
    def references(self) -> int:
        """How many contents all requests refer to, each as often as it occurs."""
        return sum(len(arrival.contents) for arrival in self.arrivals)

    @property
    def infinite(self) -> int:
        """A capacity that holds every content at once."""
        return max(1, sum(self.sizes))
