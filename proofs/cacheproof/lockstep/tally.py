"""What a run did: without it, "no difference" could mean that nothing was tried."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from cachespec.kernel import Operation, Outcome


@dataclass(slots=True)
class Tally:
    """Counts of a run while it looks for something; replays while shrinking are not counted."""

    steps: int = 0
    """Whole calls on both sides."""
    episodes: int = 0
    """Runs from the initial state."""
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each operation ended with each code, by the specification."""
    offered: set[str] = field(default_factory=set)
    """The operations that could have been made at some time."""
    observables: set[str] = field(default_factory=set)
    """The observables that the target showed, and that were compared."""
    rules: set[str] = field(default_factory=set)
    """The rules of a mixture that some call has shown."""
    states: set[int] = field(default_factory=set)
    """Digests of all observables, after each call and at the start: how many states were told apart."""
    macros: int = 0
    """Macros that were begun."""
    largest: int = 0
    """Calls of the largest burst that was answered as the specification says."""
    renaming: str = ""
    """How the target's own names are compared; empty where they are the specification's."""
    started: float = field(default_factory=time.monotonic)

    def count(self, operation: Operation, outcome: Outcome) -> None:
        """One more call."""
        self.steps += 1
        self.outcomes[operation.wire_name(), outcome.code.value] += 1

    def add(self, other: Tally) -> None:
        """What another run did, as well."""
        self.steps += other.steps
        self.episodes += other.episodes
        self.outcomes += other.outcomes
        self.offered |= other.offered
        self.observables |= other.observables
        self.rules |= other.rules
        self.states |= other.states
        self.macros += other.macros
        self.largest = max(self.largest, other.largest)
        self.renaming = self.renaming or other.renaming

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.started

    def partial(self, operations: Iterable[str]) -> str:
        """Why the run says little of a target that is to have these operations; empty if it says something."""
        if self.steps == 0:
            return "nothing was tried"
        never = sorted(set(operations) - {operation for operation, _ in self.outcomes})
        if len(self.states) > 1 or not never:
            return ""
        return f"no call changed what is observed, and these were never called: {', '.join(never)}"

    def by_operation(self) -> dict[str, dict[str, int]]:
        """The outcomes of each operation, sorted."""
        table: dict[str, dict[str, int]] = {}
        for (operation, code), times in sorted(self.outcomes.items()):
            table.setdefault(operation, {})[code] = times
        return table


class Tallying(Protocol):
    """A driver that counts what it does."""

    tally: Tally


@contextmanager
def uncounted(driver: Tallying) -> Iterator[None]:
    """What the driver does in this block is not counted."""
    counted, driver.tally = driver.tally, Tally()
    try:
        yield
    finally:
        driver.tally = counted


class Counted(Protocol):
    """What a limit is compared with."""

    @property
    def steps(self) -> int:
        """Whole calls."""
        ...

    @property
    def seconds(self) -> float:
        """Since the start."""
        ...


@dataclass(frozen=True, slots=True)
class Limit:
    """How long to look for something; None where there is no limit of that sort."""

    steps: int | None = None
    seconds: float | None = None

    def reached(self, done: Counted) -> bool:
        """Whether it is enough."""
        return (self.steps is not None and done.steps >= self.steps) or (
            self.seconds is not None and done.seconds >= self.seconds
        )
