"""Fewer macros, then smaller counts, then plain calls if they show the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from cacheproof.foundation.console import Show
from cacheproof.foundation.minimise import Minimiser
from cacheproof.lockstep.macros.macro import Macro, vocabulary_of
from cacheproof.lockstep.macros.playing import MacroFinding, differ_call_by_call, play
from cacheproof.lockstep.pair import Pair, size_of
from cacheproof.lockstep.shrink import shrunk_calls
from cacheproof.lockstep.tally import uncounted
from cacheproof.model.finding import Finding

MOST_PLAIN_WORK = 200_000
"""Calls times what the configuration has: a longer run is not tried call by call, with whole states after each."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest run of macros that was reached, and the same as plain calls if they show it."""

    finding: MacroFinding
    came_again: bool = True
    plain: Finding | None = None
    tried_plain: bool = False


def shrunk(pair: Pair, finding: MacroFinding, seconds: float, progress: Show | None = None) -> Shrunk:
    """Make it smaller.

    At its end no macro can be left out, and none does with a count that halving the interval below it reaches.
    """
    return _Shrinker(pair, finding, seconds, progress).run()


class _Shrinker(Minimiser[Macro, MacroFinding]):
    def __init__(self, pair: Pair, finding: MacroFinding, seconds: float, progress: Show | None) -> None:
        super().__init__(
            finding,
            lambda finding: finding.macros,
            lambda macros: play(pair, finding.config, macros),
            MacroFinding.alike,
            seconds=seconds,
            noun="macros",
            progress=progress,
        )
        self.pair, self.progress = pair, progress
        self.kinds = tuple(vocabulary_of(pair.subject.component.name).weights)

    def run(self) -> Shrunk:
        with uncounted(self.pair):
            came_again = self.minimise(self.leave_out, self.count_less, self.choose_simpler)
            try:
                plain, tried = self.plain() if came_again and self.is_least else (None, False)
            except KeyboardInterrupt:
                plain, tried = None, False
        return Shrunk(self.best, came_again, plain, tried)

    def count_less(self) -> bool:
        """Whether some macro could do with a smaller count."""
        before, index = self.items, 0
        while index < len(self.items):
            smallest = 0
            while (count := self.items[index].count) - smallest > 1:
                middle = (smallest + count) // 2
                if not self.changed(index, count=middle):
                    smallest = middle
                if index >= len(self.items):
                    break
            index += 1
        return self.items != before

    def choose_simpler(self) -> bool:
        """Whether some macro could be of a sort that the vocabulary names earlier, or have one of the first seeds."""
        before = self.items
        for index in range(len(before)):
            for simpler in self.simpler(before[index]):
                macros = self.items
                if index < len(macros) and self.accept((*macros[:index], simpler, *macros[index + 1 :])):
                    break
        return self.items != before

    def simpler(self, macro: Macro) -> Iterator[Macro]:
        """Another sort with the same count, then another seed."""
        kinds = list(self.kinds)
        yield from (kind(macro.count, macro.seed) for kind in kinds[: kinds.index(type(macro))])
        yield from (replace(macro, seed=seed) for seed in range(min(3, macro.seed)))

    def changed(self, index: int, **change: int) -> bool:
        """Whether the finding is there with one macro changed."""
        macros = self.items
        return self.accept((*macros[:index], replace(macros[index], **change), *macros[index + 1 :]))

    def plain(self) -> tuple[Finding | None, bool]:
        """The same without bursts: its calls one after the other, shrunk like any run; and whether that was tried."""
        pair, config = self.pair, self.best.config
        calls = [call for call, _ in self.best.calls]
        if self.best.sort == "breakdown":
            return None, False
        if not differ_call_by_call(pair, config, calls):
            return None, True
        if len(calls) * size_of(config) > MOST_PLAIN_WORK:
            return None, False
        finding = pair.replay(calls, only_offered=False)
        left = self.deadline - time.monotonic()
        return None if finding is None else shrunk_calls(pair, finding, left, self.progress), True
