"""A workload: requests in the order of their arrival, each with the contents that it refers to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cachespec.kernel import Demand, Engine, Tokens


class Arrival(NamedTuple):
    """One request, and where it was read."""

    contents: tuple[int, ...]
    """In the order of the prompt; each is an index into `Workload.sizes`."""
    path: Path
    line: int
    seconds: float | None = None
    """Since the start, where the workload has a clock."""
    tokens: Tokens | None = None
    """Where the workload is one of tokens."""
    computing: float = 0.0
    """Seconds from its admission until its prompt has been computed."""
    duration: float = 0.0
    """Seconds from its admission until it finishes."""


class Pace(NamedTuple):
    """How long a round takes, in seconds: assumed, for no trace says so."""

    round: float
    token: float
    """For each token that is scheduled in it."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What a reader makes of a trace.

    `sizes` are those of the contents, in `unit`. `composed` says that requests were drawn from distributions: such a
    workload is no recording, and whatever shows it says so. `seed` is None where nothing was drawn. `engine` and `pace`
    are there where it is served in rounds.
    """

    title: str
    unit: str
    sizes: tuple[int, ...]
    arrivals: tuple[Arrival, ...]
    composed: bool = False
    seed: int | None = None
    block_size: int = 1
    """Tokens in a content, where contents are blocks of tokens."""
    beside: int = 0
    """The room that all requests need beside their contents, in `unit`, if nothing is ever evicted."""
    spare: int = 0
    """What a component has beyond the capacity that is asked for, because each request needs it for a moment."""
    engine: Engine | None = None
    pace: Pace | None = None
    window: int = 0
    """Tokens of a sliding window in a second group of layers; 0: full attention only."""

    @property
    def references(self) -> int:
        """How many contents all requests refer to, each as often as it occurs."""
        return sum(len(arrival.contents) for arrival in self.arrivals)

    @property
    def infinite(self) -> int:
        """A capacity that holds every content at once."""
        return max(1, sum(self.sizes) + self.beside)

    @property
    def is_timed(self) -> bool:
        """Whether every request says when it came and how long it takes."""
        return all(arrival.seconds is not None and arrival.duration > 0 for arrival in self.arrivals)

    def demand(self, capacity: int) -> Demand:
        """What the workload asks of a component of this capacity."""
        return Demand(
            capacity=capacity + self.spare,
            sizes=self.sizes,
            requests=tuple(arrival.contents for arrival in self.arrivals),
            block_size=self.block_size,
            tokens=tuple(arrival.tokens for arrival in self.arrivals if arrival.tokens is not None),
            engine=self.engine,
            window=self.window,
        )
