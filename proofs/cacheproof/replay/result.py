"""The input of a replay, its result, and its errors."""

from __future__ import annotations

from dataclasses import dataclass, field

from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.wire import Message
from cacheproof.model.wording import explaining
from cacheproof.replay.workload import Workload

CHECK_EVERY = 97
"""Of how many requests one is checked in full: coprime to the periods that recorded orders have."""

BY_CLOCK = 0


@dataclass(frozen=True, slots=True)
class Setting:
    """The input of a replay, and the depth of its checks."""

    component: AnyComponent
    variant: AnyVariant
    workload: Workload
    capacity: int
    """In the workload's unit."""
    check_every: int = CHECK_EVERY
    """Of how many requests one is checked in full; 0 for none but the end."""
    concurrency: int = 1
    """The most requests that hold their contents at the same time; `BY_CLOCK`: as the clock of the trace says."""


@dataclass(frozen=True, slots=True)
class Violation:
    """What went wrong, at which request, and where that request was read."""

    property: str
    statement: str
    request: int
    path: str
    line: int
    call: str = ""
    """In words: the call that showed it, and how it ended."""
    operation: Message | None = None
    outcome: Message | None = None

    def sentence(self) -> str:
        """One line for a person."""
        call = f" ({self.call})" if self.call else ""
        where = f"{self.path}, line {self.line}, request {self.request}"
        return f"{where}: {self.property}: {self.statement}{call} ({explaining(self.property)})"


@dataclass(slots=True)
class ReplayResult:
    """Counts of a replay; `violations` has at most one, because a replay stops at the first."""

    requests: int = 0
    references: int = 0
    hits: int = 0
    waited: int = 0
    """Requests that were admitted only after another one had finished."""
    rejected: int = 0
    """Requests that were not admitted although nothing else was running."""
    events: int = 0
    """Whole calls."""
    seconds: float = 0.0
    constant_checks: int = 0
    full_states: int = 0
    """States of which every safety property was evaluated."""
    full_steps: int = 0
    """Steps of which every step property was evaluated."""
    compared: int = 0
    """Outcomes of a target that were compared."""
    in_flight: int = 0
    """Requests that were admitted and not finished, at most."""
    longest_wait: float = 0.0
    """Seconds of the trace's clock from arrival to admission, or to the first round; 0 without a clock."""
    peaks: dict[str, int] = field(default_factory=dict)
    """The greatest value of each of the service's gauges."""
    rounds: int = 0
    """Rounds that scheduled something, where the workload is served in rounds."""
    tokens: int = 0
    """Tokens that they scheduled."""
    least: int = 0
    """The least number of tokens that was scheduled for a request in a round."""
    preempted: int = 0
    violations: list[Violation] = field(default_factory=list)

    @property
    def hit_ratio(self) -> float:
        """Of references; a request that had to wait counts with its first look-up."""
        return self.hits / self.references if self.references else 0.0

    @property
    def events_per_second(self) -> float:
        """Whole calls a second, the checks included."""
        return self.events / self.seconds if self.seconds else 0.0
