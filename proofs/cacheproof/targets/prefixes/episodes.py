"""Random walks in episodes, of whatever is asked one call after the other, until something is wrong with it."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cacheproof.foundation.console import Show
from cacheproof.foundation.minimise import descended
from cacheproof.model.target import TargetError
from cacheproof.model.wording import count
from cacheproof.targets.prefixes.ledger import Wrong
from cacheproof.targets.prefixes.peer import Call


@dataclass(frozen=True, slots=True)
class Found:
    """Something that is wrong, at the last of these calls."""

    rule: str
    said: str
    calls: tuple[Call, ...]


@dataclass(slots=True)
class Walked:
    """What a walk did. `beside` are the calls after which counts were compared with the specification's."""

    steps: int = 0
    episodes: int = 0
    beside: int = 0
    evictions: int = 0
    found: Found | None = None
    broke_down: str = ""
    interrupted: bool = False


class Episode(ABC):
    """One run from the initial state."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.made = 0
        """Calls that were answered, those at the end included."""
        self.found = self.told(self.begin())

    @abstractmethod
    def begin(self) -> Wrong | None:
        """Reset what is walked; what is wrong with its initial state."""

    @abstractmethod
    def offered(self) -> list[Call]:
        """What may be asked now."""

    def chosen(self, source: random.Random) -> Call:
        """One of these calls."""
        return source.choice(self.offered())

    @abstractmethod
    def taken(self, call: Call) -> Wrong | None:
        """Ask, and say what is wrong with the answer or after it."""

    def end(self) -> Wrong | None:
        """What else has to be seen when nothing more is chosen; the calls for it are not among those of a finding."""
        return None

    def count(self, walked: Walked) -> None:
        """Add what was done."""
        walked.steps += self.made

    def ask(self, call: Call) -> Found | None:
        """The call, and what is wrong after it."""
        self.calls.append(call)
        return self.told(self.taken(call))

    def told(self, wrong: Wrong | None) -> Found | None:
        """After the calls until now."""
        return None if wrong is None else Found(*wrong, tuple(self.calls))


Begin = Callable[[], Episode]


def driven(begin: Begin, *, most: int, steps: int, seed: int, progress: Show | None = None) -> Walked:
    """Episodes of at most so many calls, for so many steps in all; the first finding is made shorter.

    Ctrl-C ends it with what is known.
    """
    walked = Walked()
    try:
        while walked.steps < steps and walked.found is None:
            source = random.Random(f"{seed}/{walked.episodes}")  # noqa: S311  # not a secret
            walked.episodes += 1
            walked.found = _walk(begin(), walked, min(most, steps - walked.steps), source)
            if progress is not None:
                wrong = "nothing wrong" if walked.found is None else "minimising a finding"
                progress(f"{count(walked.steps, 'call')}, {count(walked.episodes, 'episode')}, {wrong}")
        if walked.found is not None:
            walked.found = shortened(walked.found, lambda calls: replayed(begin, calls))
    except TargetError as error:
        walked.broke_down = str(error)
    except KeyboardInterrupt:
        walked.interrupted = True
    return walked


def _walk(episode: Episode, walked: Walked, most: int, source: random.Random) -> Found | None:
    finding = episode.found
    try:
        for _ in range(most):
            finding = finding or episode.ask(episode.chosen(source))
        return finding or episode.told(episode.end())
    finally:
        episode.count(walked)


def replayed(begin: Begin, calls: Sequence[Call]) -> Found | None:
    """The first finding of these calls and of the end; those that are not offered in their turn are left out."""
    episode = begin()
    finding = episode.found
    for call in calls:
        if finding is None and call in episode.offered():
            finding = episode.ask(call)
    return finding or episode.told(episode.end())


def shortened(found: Found, again: Callable[[Sequence[Call]], Found | None]) -> Found:
    """The same finding in as few calls as leaving out one or two neighbours leads to; `again` makes the calls."""

    def fewer(best: Found) -> Iterator[tuple[Call, ...]]:
        for size in (2, 1):
            for index in range(len(best.calls) - size, -1, -1):
                yield best.calls[:index] + best.calls[index + size :]

    def accepted(best: Found, calls: tuple[Call, ...]) -> Found | None:
        finding = again(calls)
        same = finding is not None and finding.rule == best.rule and len(finding.calls) < len(best.calls)
        return finding if same else None

    return descended(found, fewer, accepted)
