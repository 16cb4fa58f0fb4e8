"""Smaller evidence for the same finding: the one minimiser of all searches.

`Minimiser` is for sequences: it leaves out pieces, large ones first, until a time limit; its callers add passes of
their own, which replace items or give out names anew. `descended` is for findings whose candidates are not all shorter
sequences: requests of a load, say. It starts again from the first candidate whenever one is accepted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Generic, TypeVar

from cacheproof.foundation.console import Show

Item = TypeVar("Item")
Found = TypeVar("Found")
Candidate = TypeVar("Candidate")


class _Spent(Exception):  # noqa: N818  # not an error: the time is over
    """The time limit is reached; the smallest finding until then stands."""


class Minimiser(Generic[Item, Found]):
    """The smallest finding so far, `best`, and how it becomes smaller.

    `items_of` gives the sequence that shows a finding, `run` the finding that a sequence shows, if any, and `alike`
    whether two findings are of the same sort. `noun` names the items in the progress.
    """

    def __init__(
        self,
        best: Found,
        items_of: Callable[[Found], tuple[Item, ...]],
        run: Callable[[tuple[Item, ...]], Found | None],
        alike: Callable[[Found, Found], bool],
        *,
        seconds: float,
        noun: str,
        progress: Show | None = None,
    ) -> None:
        self.best, self.deadline = best, time.monotonic() + seconds
        self.is_least = False
        """Whether the last run of `minimise` went on until no pass helped."""
        self._items_of, self._run, self._alike = items_of, run, alike
        self._noun, self._progress = noun, progress
        self._tried: set[tuple[Item, ...]] = set()

    @property
    def items(self) -> tuple[Item, ...]:
        """The sequence of the best finding."""
        return self._items_of(self.best)

    def minimise(self, *passes: Callable[[], bool]) -> bool:
        """Repeat the passes, each of which says whether it helped; False if the finding does not come again at all.

        Ctrl-C and the time limit end it with what is known.
        """
        try:
            if not self.accept(self.items):
                return False
            while any(helps() for helps in passes):
                pass
            self.is_least = True
        except (_Spent, KeyboardInterrupt):
            pass
        return True

    def accept(self, candidate: tuple[Item, ...]) -> bool:
        """Take the candidate if it shows a finding of the same sort, cut off after that; each is run once."""
        if candidate in self._tried:
            return False
        self._tried.add(candidate)
        if time.monotonic() > self.deadline:
            raise _Spent
        if self._progress is not None:
            self._progress(f"shrinking: {len(self.items)} {self._noun}, {len(self._tried)} runs")
        finding = self._run(candidate)
        if finding is None or not self._alike(self.best, finding):
            return False
        self.best = finding
        return True

    def leave_out(self, longest_for_pairs: int = 0) -> bool:
        """Whether items could be left out: large pieces, then single items, then any two of a short sequence.

        From the end, where items matter least to what follows.
        """
        before = len(self.items)
        size = max(before // 2, 1)
        while size >= 1:
            start = len(self.items) - size
            while start > -size:
                kept = self.items
                self.accept((*kept[: max(start, 0)], *kept[start + size :]))
                start = min(start - size, len(self.items) - size)
            size //= 2
        if len(self.items) == before and before <= longest_for_pairs:
            any(self.accept(_without(self.items, pair)) for pair in combinations(range(before), 2))
        return len(self.items) < before


def descended(
    best: Found,
    candidates: Callable[[Found], Iterable[Candidate]],
    accepted: Callable[[Found, Candidate], Found | None],
) -> Found:
    """The finding from which no candidate leads further; `accepted` is the smaller finding of a candidate, if any."""
    while (smaller := _first(best, candidates, accepted)) is not None:
        best = smaller
    return best


def _first(
    best: Found,
    candidates: Callable[[Found], Iterable[Candidate]],
    accepted: Callable[[Found, Candidate], Found | None],
) -> Found | None:
    return next((found for each in candidates(best) if (found := accepted(best, each)) is not None), None)


def _without(items: tuple[Item, ...], indices: tuple[int, ...]) -> tuple[Item, ...]:
    return tuple(item for index, item in enumerate(items) if index not in indices)
