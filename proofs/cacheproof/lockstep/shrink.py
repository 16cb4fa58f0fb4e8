"""A shorter and simpler run with the same finding, by leaving operations out and replacing them by simpler ones.

Every candidate is run anew on both sides, and only operations that the environment offers are tried: what comes out
is again a run of this scope. Nothing is changed where the finding does not come again.
"""

from __future__ import annotations

from functools import partial

from cacheproof.foundation.console import Show
from cacheproof.foundation.minimise import Minimiser
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.tally import uncounted
from cacheproof.model.finding import Breakdown, Finding
from cacheproof.model.naming import by_appearance
from cacheproof.model.trace import Violation
from cachespec.kernel import Operation

SECONDS_TO_SHRINK = 60.0
LONGEST_FOR_PAIRS = 40
"""Up to how many operations every two of them are tried to be left out together."""


def shrunk(
    pair: Pair, finding: Finding, seconds: float = SECONDS_TO_SHRINK, progress: Show | None = None
) -> tuple[Finding, bool]:
    """The smallest finding of the same sort that was reached, and whether the given one came again at all.

    At its end no operation can be left out, and in a short trace no two. No neighbours can be replaced by one, and no
    operation can be left out if later ones name something else. None can be replaced by one that comes earlier in its
    alphabet. Interchangeable names are given out in the order of their appearance. This is a least run as far as these
    steps reach; a shorter one of another shape may exist.
    """
    if not finding.trace.steps:
        return finding, True
    return _Shrinker(pair, finding, seconds, progress).run()


def shrunk_calls(pair: Pair, finding: Finding, seconds: float, progress: Show | None = None) -> Finding:
    """The same for calls that no scope offers: operations are left out, and names given out anew, and nothing else."""
    if not finding.trace.steps:
        return finding
    return _Shrinker(pair, finding, seconds, progress, only_offered=False).run()[0]


def alike(finding: Finding, other: Finding | None) -> bool:
    """Whether both are the same sort of finding: a difference, the same property, the same breakdown."""
    if isinstance(finding, Violation):
        return isinstance(other, Violation) and finding.property == other.property
    if isinstance(finding, Breakdown):
        return isinstance(other, Breakdown) and finding.sort == other.sort
    return type(finding) is type(other)


class _Shrinker(Minimiser[Operation, Finding]):
    def __init__(
        self,
        pair: Pair,
        finding: Finding,
        seconds: float,
        progress: Show | None,
        *,
        only_offered: bool = True,
    ) -> None:
        super().__init__(
            finding,
            lambda finding: finding.trace.operations,
            lambda operations: pair.replay(operations, only_offered=only_offered),
            alike,
            seconds=seconds,
            noun="operations",
            progress=progress,
        )
        self.pair, self.only_offered = pair, only_offered

    def run(self) -> tuple[Finding, bool]:
        simplify = (self.merge, self.replace, self.adapt) if self.only_offered else ()
        with uncounted(self.pair):
            came_again = self.minimise(partial(self.leave_out, LONGEST_FOR_PAIRS), *simplify, self.rename)
        return self.best, came_again

    def merge(self) -> bool:
        """Whether neighbours, two or more, could be replaced by one operation.

        A message that is lost at once, say; or a request that is rejected in index of one that lives to its end.
        """
        count = len(self.items)
        if count > LONGEST_FOR_PAIRS:
            return False
        offered = [self.offered_at(index) for index in range(count)]
        for length in range(2, count + 1):
            for index in range(count - length + 1):
                for operation in offered[index]:
                    if self.accept((*self.items[:index], operation, *self.items[index + length :])):
                        return True
        return False

    def replace(self) -> bool:
        """Whether an operation could be replaced by one that its alphabet names earlier."""
        for index in range(len(self.items)):
            offered = self.offered_at(index)
            for simpler in offered[: offered.index(self.items[index])]:
                if self.accept((*self.items[:index], simpler, *self.items[index + 1 :])):
                    return True
        return False

    def adapt(self) -> bool:
        """Whether an operation could be left out if later ones, no more offered, give way to the first of their kind.

        If a request is left out, say, the blocks of the others have other numbers.
        """
        if len(self.items) > LONGEST_FOR_PAIRS:
            return False
        adapted = (self.adapted_without(index) for index in range(len(self.items)))
        return any(operations and self.accept(operations) for operations in adapted)

    def adapted_without(self, index: int) -> tuple[Operation, ...]:
        """The operations without this one, each offered where it is; none if that cannot be."""
        done = self.items[:index]
        for operation in self.items[index + 1 :]:
            offered = self.pair.offered_after(done)
            kind = [operation] if operation in offered else [one for one in offered if type(one) is type(operation)]
            if not kind:
                return ()
            done = (*done, kind[0])
        return done

    def rename(self) -> bool:
        """Whether interchangeable names could be given out in the order of their appearance."""
        subject = self.pair.subject
        renamed = by_appearance(subject.component, subject.config, self.items)
        return renamed != self.items and self.accept(renamed)

    def offered_at(self, index: int) -> list[Operation]:
        """The operations that are offered where the one at this index is, in the order of the alphabet."""
        return self.pair.offered_after(self.items[:index])
