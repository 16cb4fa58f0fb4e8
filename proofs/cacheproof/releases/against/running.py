"""The parts of a comparison, over processes: each has both sides in child processes of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.util import Finalize
from typing import Self

from cacheproof.foundation.console import Show
from cacheproof.foundation.workers import shared_out, stopped
from cacheproof.model.target import Target, TargetError
from cacheproof.model.wording import count
from cacheproof.releases.against.parted import Parted, Ran, ran
from cacheproof.releases.against.parts import Line, Listed, Part
from cacheproof.releases.against.screening import Situations
from cacheproof.releases.against.sides import Side

PROCESSES = 2
GATE_SECONDS = 240.0
"""What a gate for pull requests spends on a comparison; a minute more goes into starting."""
KEPT = 3
"""Lines of which a process keeps both sides open: a driver takes some 200 MB."""


@dataclass(slots=True)
class Compared:
    """One line, as far as it was run. `parted` is the difference of the first part that has one."""

    line: Line
    unchanged: bool = False
    """Whether its driver reads no file that differs between two releases."""
    parts: int = 0
    ran: Ran = field(default_factory=Ran)
    parted: Parted | None = None
    part: int = -1
    """The number of the part that has the difference."""

    @property
    def agrees(self) -> bool:
        """Whether something was compared and nothing differs."""
        return self.ran.steps > 0 and not self.over and not self.ran.interrupted

    @property
    def spared(self) -> bool:
        """Whether it was not run before the time was over, and reads no changed file."""
        return self.unchanged and not self.ran.steps and not self.over and not self.ran.interrupted

    @property
    def over(self) -> bool:
        """Whether more of it would say nothing."""
        return self.parted is not None or bool(self.ran.failure)

    def add(self, part: Part, more: Ran) -> None:
        """What came of a part."""
        total = self.ran
        self.parts += 1
        total.steps += more.steps
        total.episodes += more.episodes
        total.states += more.states
        total.without_answer += more.without_answer
        total.seconds += more.seconds
        total.observables |= more.observables
        total.failure = total.failure or more.failure
        total.interrupted = total.interrupted or more.interrupted
        for operation, codes in more.operations.items():
            counts = total.operations.setdefault(operation, {})
            for code, times in codes.items():
                counts[code] = counts.get(code, 0) + times
        if more.parted is not None and (self.parted is None or part.number < self.part):
            self.parted, self.part = more.parted, part.number


def compared(lines: Iterable[Listed]) -> dict[Line, Compared]:
    """What is known of each line before anything is run."""
    return {one.line: Compared(one.line, unchanged=one.changed == frozenset()) for one in lines}


def compare(
    target: Side,
    base: Side,
    parts: Iterator[Part],
    results: dict[Line, Compared],
    *,
    seconds: float | None,
    processes: int,
    progress: Show,
    first: bool = False,
) -> None:
    """Run the parts, and add what comes of them to the results. Ctrl-C ends it with what is known.

    A line is over at its first difference; with `first`, everything is. `seconds` is a limit of the clock for
    everything.
    """
    until = None if seconds is None else time.monotonic() + seconds

    def wanted() -> Iterator[Part]:
        for part in parts:
            if (until is not None and time.monotonic() >= until) or (any if first else all)(
                one.over for one in results.values()
            ):
                return
            if not results[part.line].over:
                yield part

    def take(part: Part, more: Ran) -> None:
        results[part.line].add(part, more)
        _tell(progress, part, results)

    if processes == 1:
        with _Opened(target, base) as opened:
            for part in wanted():
                take(part, opened.run(part, until, progress))
                if results[part.line].ran.interrupted:
                    raise KeyboardInterrupt
    else:
        call, begin = partial(_in_worker, until), partial(_open, target, base)
        with closing(shared_out(call, wanted(), processes, begin=begin)) as ended:
            for part, more in ended:
                take(part, more)
                if first and results[part.line].over:
                    return


def _tell(progress: Show, part: Part, results: dict[Line, Compared]) -> None:
    done = results[part.line]
    differing = sum(one.parted is not None for one in results.values())
    said = count(differing, "component") + (" differ" if differing != 1 else " differs")
    progress(f"{part.line.name}: {count(done.ran.steps, 'call')} on both sides; {said}")


class _Opened:
    """Both sides of the latest lines, kept for their next parts."""

    def __init__(self, target: Side, base: Side, stopped: Callable[[], bool] = lambda: False) -> None:
        self.target, self.base, self.stopped = target, base, stopped
        self.both: dict[Line, tuple[Target, Target]] = {}
        self.known: dict[Line, Situations] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all children."""
        every, self.both = self.both, {}
        for both in every.values():
            for side in both:
                side.close()

    def run(self, part: Part, until: float | None, progress: Show | None = None) -> Ran:
        """The part, with the sides that are open."""
        line = part.line

        def tell(text: str) -> None:
            if self.stopped():
                raise KeyboardInterrupt
            if progress is not None:
                progress(text)

        try:
            if line not in self.both:
                for side in self.both.pop(next(iter(self.both))) if len(self.both) >= KEPT else ():
                    side.close()
                target = self.target.opening(line.component, line.target, line.window)
                self.both[line] = target, self.base.opening(line.component, line.base, line.window)
            known = self.known.setdefault(line, set())
            return ran(part, *self.both[line], (self.target.name, self.base.name), until, tell, known)
        except TargetError as error:  # at the greeting
            return Ran(failure=str(error))


# In worker processes -------------------------------------------------------------------------------------------------

_opened: _Opened | None = None


def _open(target: Side, base: Side) -> None:
    global _opened  # noqa: PLW0603  # a worker process is told once, and keeps its children
    _opened = _Opened(target, base, stopped)
    Finalize(None, _opened.close, exitpriority=1)


def _in_worker(until: float | None, part: Part) -> tuple[Part, Ran]:
    assert _opened is not None
    return part, _opened.run(part, until)
