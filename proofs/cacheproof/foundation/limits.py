"""Limits on what an input may cost: a number on a line can ask for a pool of 10^18 blocks, built block by block.

POSIX: the time is kept by a signal, in the main thread of a process; the memory is address space.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEGABYTES = 4_096
"""What reading and running an input may take beside what the process has already."""
SECONDS = 60.0
"""What one line, or one answer, may take."""
ADDRESS_SPACE = Path("/proc/self/statm")
"""Its first number: the pages that the process has, where the system says so."""

LONGEST = 1e6
"""Seconds that a system can be asked to wait, some eleven days: whoever asks for more, or for `inf`, gets this."""
SOON = 0.001
SMALLER = "choose smaller numbers"


class TooSlowError(Exception):
    """An answer that takes longer than it may; the message is one line."""


class Clock:
    """Runs while work is done, and raises TooSlowError in work that takes longer than it may. No seconds: never."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = None if seconds is None else min(seconds, LONGEST)

    def begin(self) -> None:
        """The time begins, or begins anew."""
        if self._seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def pause(self) -> None:
        """What comes now is not work: waiting for somebody else, say."""
        if self._seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def stop(self, *_: object) -> None:
        """What the signal calls."""
        raise TooSlowError(f"no answer within {self._seconds:g} seconds: {SMALLER}")


@contextmanager
def within(seconds: float | None) -> Iterator[Clock]:
    """Raise TooSlowError in what takes longer; the clock can be begun anew. None is no limit."""
    clock = Clock(seconds)
    if seconds is None:
        yield clock
        return
    left, began = signal.getitimer(signal.ITIMER_REAL)[0], time.monotonic()  # of whoever has the only timer there is
    before = signal.signal(signal.SIGALRM, clock.stop)
    clock.begin()
    try:
        yield clock
    finally:
        clock.pause()
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), SOON))


@contextmanager
def memory(megabytes: int | None) -> Iterator[None]:
    """So many more megabytes for the block; beyond, MemoryError. None, or a system that does not say, is no limit.

    Processes that are started in the block inherit it.
    """
    before = resource.getrlimit(resource.RLIMIT_AS)
    there = _address_space()
    if megabytes is None or there is None:
        yield
        return
    limit_address_space(there + (megabytes << 20))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextmanager
def unlimited() -> Iterator[None]:
    """As much memory and time as the system gives, within `memory` and `within`; the time begins anew behind it."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    seconds = signal.getitimer(signal.ITIMER_REAL)[0]
    signal.setitimer(signal.ITIMER_REAL, 0)
    resource.setrlimit(resource.RLIMIT_AS, (before[1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def limit_address_space(most: int) -> None:
    """So many bytes for the whole process, or what it was limited to already where that is less."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    bounds = [bound for bound in before if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([most, sys.maxsize, *bounds]), before[1]))


def too_large(megabytes: int | None) -> str:
    """What is said where the memory was not enough."""
    much = "there is" if megabytes is None else f"{megabytes:,} megabytes"
    return f"it takes more memory than {much}: {SMALLER}"


def _address_space() -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(ADDRESS_SPACE.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    return None
