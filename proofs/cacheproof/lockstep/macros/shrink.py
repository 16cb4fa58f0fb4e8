"""Fewer macros, then smaller counts, then plain calls if they show the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from cacheproof.lockstep.macros.macro import Macro, vocabulary_of
from cacheproof.lockstep.macros.sides import MacroFinding, Sides
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.shrink import shrunk_calls
from cacheproof.lockstep.tally import Tally
from cacheproof.model.finding import Finding, Subject

MOST_PLAIN_WORK = 200_000
"""Calls times what the configuration has: a longer run is not tried call by call, with whole states after each."""


class _Spent(Exception):  # noqa: N818  # not an error: the time is over
    """The time for shrinking is over; what was found until then stands."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest run of macros that was reached, and the same as plain calls if they show it."""

    finding: MacroFinding
    came_again: bool = True
    plain: Finding | None = None
    tried_plain: bool = False


def shrunk(
    sides: Sides, finding: MacroFinding, seconds: float, progress: Callable[[str], None] | None = None
) -> Shrunk:
    """Make it smaller.

    At its end no macro can be left out, and none does with a count that halving the interval below it reaches.
    """
    return _Shrinker(sides, finding, time.monotonic() + seconds, progress).run()


class _Shrinker:
    def __init__(
        self, sides: Sides, finding: MacroFinding, deadline: float, progress: Callable[[str], None] | None
    ) -> None:
        self.sides, self.best, self.deadline, self.progress = sides, finding, deadline, progress
        self.kinds = tuple(vocabulary_of(sides.component.name).weights)
        self.tried: set[tuple[Macro, ...]] = set()

    def run(self) -> Shrunk:
        counted, self.sides.tally = self.sides.tally, Tally()
        try:
            if not self.accept(self.best.macros):
                return Shrunk(self.best, came_again=False)
            while self.leave_out() or self.count_less() or self.choose_simpler():
                pass
            plain, tried = self.plain()
            return Shrunk(self.best, plain=plain, tried_plain=tried)
        except (_Spent, KeyboardInterrupt):
            return Shrunk(self.best)
        finally:
            self.sides.tally = counted

    def accept(self, candidate: tuple[Macro, ...]) -> bool:
        """Take the candidate if it shows the same sort of finding."""
        if candidate in self.tried:
            return False
        self.tried.add(candidate)
        if time.monotonic() > self.deadline:
            raise _Spent
        if self.progress is not None:
            self.progress(f"shrinking: {len(self.best.macros)} macros, {len(self.tried)} runs")
        found = self.sides.play(self.best.config, candidate)
        if found is None or not self.best.alike(found):
            return False
        self.best = found
        return True

    def leave_out(self) -> bool:
        """Whether macros could be left out: large pieces first, from the end."""
        before, size = len(self.best.macros), max(1, len(self.best.macros) // 2)
        while size >= 1:
            start = len(self.best.macros) - size
            while start > -size:
                kept = self.best.macros
                self.accept((*kept[: max(start, 0)], *kept[start + size :]))
                start = min(start - size, len(self.best.macros) - size)
            size //= 2
        return len(self.best.macros) < before

    def count_less(self) -> bool:
        """Whether some macro could do with a smaller count."""
        before, place = self.best.macros, 0
        while place < len(self.best.macros):
            smallest = 0
            while (count := self.best.macros[place].count) - smallest > 1:
                middle = (smallest + count) // 2
                if not self.changed(place, count=middle):
                    smallest = middle
                if place >= len(self.best.macros):
                    break
            place += 1
        return self.best.macros != before

    def choose_simpler(self) -> bool:
        """Whether some macro could be of a sort that the vocabulary names earlier, or have one of the first seeds."""
        before = self.best.macros
        for place in range(len(before)):
            for simpler in self.simpler(before[place]):
                macros = self.best.macros
                if place < len(macros) and self.accept((*macros[:place], simpler, *macros[place + 1 :])):
                    break
        return self.best.macros != before

    def simpler(self, macro: Macro) -> Iterator[Macro]:
        """Another sort with the same count, then another seed."""
        kinds = list(self.kinds)
        yield from (kind(macro.count, macro.seed) for kind in kinds[: kinds.index(type(macro))])
        yield from (replace(macro, seed=seed) for seed in range(min(3, macro.seed)))

    def changed(self, place: int, **change: int) -> bool:
        """Whether the finding is there with one macro changed."""
        macros = self.best.macros
        return self.accept((*macros[:place], replace(macros[place], **change), *macros[place + 1 :]))

    def plain(self) -> tuple[Finding | None, bool]:
        """The same without bursts: its calls one after the other, shrunk like any run; and whether that was tried."""
        sides = self.sides
        calls = [call for call, _ in self.best.calls]
        if self.best.sort == "breakdown":
            return None, False
        if not sides.differ_call_by_call(self.best.config, calls):
            return None, True
        if len(calls) * sides.size > MOST_PLAIN_WORK:
            return None, False
        pair = Pair(Subject(sides.component, sides.variant, self.best.config), sides.target, sides.name)
        found = pair.replay(calls, only_offered=False)
        left = self.deadline - time.monotonic()
        return None if found is None else shrunk_calls(pair, found, left, self.progress), True
