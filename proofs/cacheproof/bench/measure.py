"""Measuring several contenders at the same work, in turns, so that what disturbs one disturbs all of them."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from cacheproof.errors import InconclusiveError

CPU_INFORMATION = Path("/proc/cpuinfo")


class Work(NamedTuple):
    """What one turn did: how many units, and all that was answered; this is not part of what is timed."""

    units: int
    answers: Any


class Contender(Protocol):
    """Somebody who does the work. Turns go on from one another: nothing is set up again between them."""

    def warm_up(self) -> None:
        """Reach the state in which turns are alike. Not timed."""
        ...

    def turn(self, number: int) -> Work:
        """Do the work of this turn."""
        ...


class Make(Protocol):
    """Makes the contenders of a benchmark."""

    def __call__(self, *, small: bool) -> Mapping[str, Contender]:
        """By name, the yardstick first."""
        ...


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked of some contenders: at least so many units in a second of one core."""

    contenders: tuple[str, ...]
    units_per_second: float


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One measurement; `unit` says what is counted.

    `contenders` makes them anew, by name, the yardstick first; `small` asks for a fraction of the size.
    """

    name: str
    about: str
    unit: str
    size: str
    contenders: Make
    goal: Goal | None = None


class Spread(NamedTuple):
    """Of several repeats."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The median, and the extremes."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Row:
    """One contender: units a second of one core, and how many times the yardstick's, repeat by repeat."""

    contender: str
    repeats: int
    units: int
    rate: Spread
    ratio: Spread
    goal: float | None

    @property
    def met(self) -> bool | None:
        """Whether the median reaches the goal; None where there is none."""
        return None if self.goal is None else self.rate.median >= self.goal


def measured(benchmark: Benchmark, repeats: int, show: Callable[[str], object], *, small: bool = False) -> list[Row]:
    """One row for each contender. Each repeat gives every contender one turn, and another one is first each time.

    Time is that of the processor, of this process. Raises `InconclusiveError` where the contenders do not answer
    alike, because then they do not do the same work.
    """
    contenders = benchmark.contenders(small=small)
    for name, contender in contenders.items():
        show(f"{benchmark.name}: {name} warms up")
        contender.warm_up()
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    units = dict.fromkeys(contenders, 0)
    for repeat in range(repeats):
        done: dict[str, Work] = {}
        for name in _rotated(list(contenders), repeat):
            show(f"{benchmark.name}: {name}, {repeat + 1} of {repeats}")
            with _collected():
                started = time.process_time()
                done[name] = contenders[name].turn(repeat)
                seconds = time.process_time() - started
            rates[name].append(done[name].units / max(seconds, 1e-9))
            units[name] += done[name].units
        _compare(benchmark, done)
    return [_row(name, rates, units[name], None if small else benchmark.goal) for name in contenders]


def _row(name: str, rates: dict[str, list[float]], units: int, goal: Goal | None) -> Row:
    yardstick = next(iter(rates.values()))
    ratios = [own / other for own, other in zip(rates[name], yardstick, strict=True)]
    asked = goal.units_per_second if goal is not None and name in goal.contenders else None
    return Row(name, len(ratios), units, Spread.of(rates[name]), Spread.of(ratios), asked)


def _compare(benchmark: Benchmark, done: dict[str, Work]) -> None:
    (first, reference), *others = done.items()
    for name, work in others:
        if work != reference:
            raise InconclusiveError(f"{benchmark.name}: {name} and {first} do not answer alike: nothing was measured")


def _rotated(names: list[str], by: int) -> list[str]:
    by %= len(names)
    return names[by:] + names[:by]


@contextmanager
def _collected() -> Iterator[None]:
    """Nobody pays for the garbage of another; each pays for the collections that its own objects cause."""
    gc.collect()
    yield


def machine() -> dict[str, Any]:
    """What it was measured on, and how busy that was."""
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.system(),
        "load": None if busy is None else round(busy, 1),
    }


def _processor() -> str:
    try:
        lines = CPU_INFORMATION.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
