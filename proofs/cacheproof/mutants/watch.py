"""The time that a mutant has, and whether it spends it in one call."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

TICK = 0.5
"""Processor seconds between two looks at what a mutant is doing."""
TICKS_IN_ONE_CALL = 4
"""A call that is still in progress after so many looks does not return."""

Stopped = Callable[[], bool]


class TooLongError(BaseException):
    """The time of a mutant is over; `diverged` where it was spent in one call."""

    def __init__(self, *, diverged: bool) -> None:
        self.diverged = diverged


@contextmanager
def timed(seconds: float, calls: frozenset[CodeType], stopped: Stopped) -> Iterator[None]:
    """Ends the block with `TooLongError` by processor time, or with KeyboardInterrupt once `stopped` says so.

    `calls` are the codes of the transitions; a call that runs for seconds is one that does not return.
    """
    watch = _Watch(seconds, calls, stopped)
    before = signal.signal(signal.SIGVTALRM, watch.look)
    signal.setitimer(signal.ITIMER_VIRTUAL, TICK, TICK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class _Watch:
    """What a mutant is doing at each tick."""

    def __init__(self, seconds: float, calls: frozenset[CodeType], stopped: Stopped) -> None:
        self._calls, self._stopped, self._left = calls, stopped, seconds
        self._call: FrameType | None = None
        self._ticks = 0

    def look(self, _: int, frame: FrameType | None) -> None:
        """One tick: the time that is left, and whether the call in progress is still the same."""
        if self._stopped():
            raise KeyboardInterrupt
        call = self._outermost(frame)
        self._ticks = self._ticks + 1 if call is not None and call is self._call else 0
        self._call = call
        self._left -= TICK
        diverged = self._ticks >= TICKS_IN_ONE_CALL
        if diverged or self._left <= 0:
            self._call = None
            raise TooLongError(diverged=diverged)

    def _outermost(self, frame: FrameType | None) -> FrameType | None:
        """The outermost frame of a transition."""
        found = None
        while frame is not None:
            if frame.f_code in self._calls:
                found = frame
            frame = frame.f_back
        return found
