"""A shorter and simpler run with the same finding, by leaving operations out and replacing them by simpler ones.

Every candidate is run anew on both sides, and only operations that the environment offers are tried: what comes out
is again a run of this scope. Nothing is changed where the finding does not come again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations

from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.tally import Tally
from cacheproof.model.finding import Breakdown, Finding
from cacheproof.model.naming import by_appearance
from cacheproof.model.trace import Violation
from cachespec.kernel import Operation

SECONDS_TO_SHRINK = 60.0
LONGEST_FOR_PAIRS = 40
"""Up to how many operations every two of them are tried to be left out together."""

Operations = tuple[Operation, ...]


class _Spent(Exception):  # noqa: N818  # not an error: the time is over
    """The time for shrinking is over; what was found until then stands."""


def shrunk(
    pair: Pair, finding: Finding, seconds: float = SECONDS_TO_SHRINK, progress: Callable[[str], None] | None = None
) -> tuple[Finding, bool]:
    """The smallest finding of the same sort that was reached, and whether the given one came again at all.

    At its end no operation can be left out, and in a short trace no two; there no neighbours can be replaced by one.
    None can be replaced by one that comes earlier in its alphabet. Interchangeable names are given out in the order of
    their appearance. This is a least run as far as these steps reach; a shorter one of another shape may exist.
    """
    if not finding.trace.steps:
        return finding, True
    return _Shrinker(pair, finding, time.monotonic() + seconds, progress).run()


def shrunk_calls(
    pair: Pair, finding: Finding, seconds: float, progress: Callable[[str], None] | None = None
) -> Finding:
    """The same for calls that no scope offers: operations are left out, and names given out anew, and nothing else."""
    if not finding.trace.steps:
        return finding
    return _Shrinker(pair, finding, time.monotonic() + seconds, progress, only_offered=False).run()[0]


def alike(finding: Finding, other: Finding | None) -> bool:
    """Whether both are the same sort of finding: a difference, the same property, the same breakdown."""
    if isinstance(finding, Violation):
        return isinstance(other, Violation) and finding.property == other.property
    if isinstance(finding, Breakdown):
        return isinstance(other, Breakdown) and finding.sort == other.sort
    return type(finding) is type(other)


class _Shrinker:
    def __init__(
        self,
        pair: Pair,
        finding: Finding,
        deadline: float,
        progress: Callable[[str], None] | None,
        *,
        only_offered: bool = True,
    ) -> None:
        self.pair = pair
        self.only_offered = only_offered
        self.best = finding
        self.deadline = deadline
        self.progress = progress
        self.tried: set[Operations] = set()

    def run(self) -> tuple[Finding, bool]:
        counted, self.pair.tally = self.pair.tally, Tally()
        try:
            if not self.accept(self.operations):
                return self.best, False
            while self.leave_out() or (self.only_offered and (self.merge() or self.replace())) or self.rename():
                pass
        except (_Spent, KeyboardInterrupt):
            pass
        finally:
            self.pair.tally = counted
        return self.best, True

    @property
    def operations(self) -> Operations:
        return self.best.trace.operations

    def accept(self, candidate: Operations) -> bool:
        """Take the candidate if it shows a finding of the same sort; where that comes early, the rest is cut off."""
        if candidate in self.tried:
            return False
        self.tried.add(candidate)
        if time.monotonic() > self.deadline:
            raise _Spent
        if self.progress is not None:
            self.progress(f"shrinking: {len(self.operations)} operations, {len(self.tried)} runs")
        finding = self.pair.replay(candidate, only_offered=self.only_offered)
        if finding is None or not alike(self.best, finding):
            return False
        self.best = finding
        return True

    def leave_out(self) -> bool:
        """Whether something could be left out: large pieces first, then single operations, then any two."""
        before = len(self.operations)
        size = max(before // 2, 1)
        while size >= 1:
            self.leave_out_pieces(size)
            size //= 2
        if len(self.operations) == before and before <= LONGEST_FOR_PAIRS:
            for one, other in combinations(range(before), 2):
                if self.accept(_without(self.operations, {one, other})):
                    break
        return len(self.operations) < before

    def leave_out_pieces(self, size: int) -> None:
        """From the end, where what happens matters least to what follows."""
        start = len(self.operations) - size
        while start > -size:
            piece = set(range(max(start, 0), start + size))
            self.accept(_without(self.operations, piece))
            start = min(start - size, len(self.operations) - size)

    def merge(self) -> bool:
        """Whether neighbours, two or more, could be replaced by one operation.

        A message that is lost at once, say; or a request that is rejected in place of one that lives to its end.
        """
        count = len(self.operations)
        if count > LONGEST_FOR_PAIRS:
            return False
        offered = [self.offered_at(place) for place in range(count)]
        for length in range(2, count + 1):
            for place in range(count - length + 1):
                for one in offered[place]:
                    if self.accept((*self.operations[:place], one, *self.operations[place + length :])):
                        return True
        return False

    def replace(self) -> bool:
        """Whether an operation could be replaced by one that its alphabet names earlier."""
        for place in range(len(self.operations)):
            offered = self.offered_at(place)
            for simpler in offered[: offered.index(self.operations[place])]:
                if self.accept((*self.operations[:place], simpler, *self.operations[place + 1 :])):
                    return True
        return False

    def rename(self) -> bool:
        """Whether interchangeable names could be given out in the order of their appearance."""
        subject = self.pair.subject
        renamed = by_appearance(subject.component, subject.config, self.operations)
        return renamed != self.operations and self.accept(renamed)

    def offered_at(self, place: int) -> list[Operation]:
        """The operations that are offered where the one at this place is, in the order of the alphabet."""
        subject = self.pair.subject
        state = subject.variant.start(subject.config)
        for operation in self.operations[:place]:
            state, _ = subject.variant.call(subject.config, state, operation)
        return list(subject.variant.alphabet(subject.config, state))


def _without(operations: Operations, places: set[int]) -> Operations:
    return tuple(operation for place, operation in enumerate(operations) if place not in places)
