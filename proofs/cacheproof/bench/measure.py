"""Measuring several contenders at the same work, in turns, so that a disturbance reaches all of them."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from cacheproof.foundation.errors import InconclusiveError, InputError

CPU_INFORMATION = Path("/proc/cpuinfo")


class Work(NamedTuple):
    """The result of a turn: the number of units, and all answers. Comparing the answers is not timed."""

    units: int
    answers: Any
    seconds: float | None = None
    """Processor time, if the contender times parts of its turn itself; None: all of the turn is timed."""
    also: Mapping[str, float] = MappingProxyType({})
    """Further figures of the turn by name, such as its memory. They are shown and not compared."""


class Contender(Protocol):
    """An implementation that does the work. A turn continues from the turn before it: nothing is set up again."""

    def warm_up(self) -> None:
        """Reach the state from which all turns are alike. Not timed."""
        ...

    def turn(self, number: int) -> Work:
        """Do the work of this turn."""
        ...


class InTurns(ABC):
    """A contender that warms up with an additional turn, which is not counted."""

    def warm_up(self) -> None:
        """Run the turn before the first."""
        self.turn(-1)

    @abstractmethod
    def turn(self, number: int) -> Work:
        """Do the work of this turn."""


class Make(Protocol):
    """Makes the contenders of a benchmark, by name."""

    def __call__(self, *, small: bool) -> Mapping[str, Contender]:
        """Contenders by name, the yardstick first."""
        ...


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of some contenders: units in a second of one core, or a multiple of another contender's rate."""

    contenders: tuple[str, ...]
    units_per_second: float | None = None
    times_the_release: float | None = None
    times_the_yardstick: float | None = None
    """A goal for runs without a release, whose ratios are to the yardstick"""


@dataclass(frozen=True, slots=True)
class Released:
    """The same work, done by a release in its child process (`released/child/works.py`), and its sizes."""

    work: str
    sizes: Mapping[str, int | str]
    ours: str = ""
    """The class of ours that replaces the release's; each has its own process."""


class Open(Protocol):
    """Opens a release for some work; the end of the run closes the contender."""

    def __call__(self, released: Released) -> Contender:
        """Raises `InputError` if the release is not installed."""
        ...


class Peers(NamedTuple):
    """Explorers of others that take part."""

    spin: bool = False
    tlc: Path | None = None
    """The jar of TLC."""

    def __bool__(self) -> bool:
        return self.spin or self.tlc is not None


NO_PEERS = Peers()


class MakePeers(Protocol):
    """Makes the contenders that are explorers of others, by name."""

    def __call__(self, peers: Peers, *, small: bool) -> Mapping[str, Contender]:
        """Contenders by name, the yardstick first. Raises `InputError` if one is not installed."""
        ...


class Notes(Protocol):
    """Finds facts that a reader of the figures has to know."""

    def __call__(self, *, small: bool) -> Sequence[str]:
        """Lines of text."""
        ...


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One measurement; `unit` names what is counted.

    `contenders` makes new contenders by name, the yardstick first; `small` asks for a fraction of the size.
    """

    name: str
    about: str
    unit: str
    size: str
    contenders: Make
    goal: Goal | None = None
    further_goals: tuple[Goal, ...] = ()
    """Of other contenders."""
    released: Callable[[bool], Released] | None = None
    """For a small run or a full one: the work that a release does for comparison; None if it cannot do this work."""
    inside: Mapping[str, Callable[[bool], Released]] = field(default_factory=dict, hash=False)
    """By name, the same work with a class of ours in a release. Without a release these contenders are left out."""
    peers: MakePeers | None = None
    """The explorers of others that do the same work, if any do; a run without them leaves the benchmark out."""
    timed: bool = False
    """The table shows the time of a unit, not the number of units in a second."""
    most_repeats: int | None = None
    """The most turns that the work allows."""
    beside: Notes | None = None
    """Facts that a reader of the figures has to know; benchmarks with the same function print them once."""

    @property
    def family(self) -> str:
        """The name without the size after the dash."""
        return self.name.partition("-")[0]

    @property
    def at(self) -> int | None:
        """The size after the dash, if there is one."""
        size = self.name.rpartition("-")[2]
        return int(size) if size.isdecimal() else None


class Spread(NamedTuple):
    """Values of several repeats."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The median, and the extremes."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Row:
    """One contender: units in a second of one core, and its multiple of the yardstick's rate, for each repeat."""

    contender: str
    repeats: int
    units: int
    rate: Spread
    ratio: Spread
    goal: float | None
    goal_ratio: float | None = None
    also: Mapping[str, Spread] = field(default_factory=dict)
    """Further figures by name."""

    @property
    def met(self) -> bool | None:
        """Whether the median reaches the goal; None if there is no goal."""
        if self.goal_ratio is not None:
            return self.ratio.median >= self.goal_ratio
        return None if self.goal is None else self.rate.median >= self.goal


def measured(
    benchmark: Benchmark,
    repeats: int,
    show: Callable[[str], object],
    *,
    small: bool = False,
    release: tuple[str, Open] | None = None,
    peers: Peers = NO_PEERS,
) -> list[Row]:
    """One row for each contender. Each repeat gives every contender one turn, and begins with another contender.

    Time is the processor time of this process, or of the release's. `release` is the release's name and the function
    that opens it; the release is then first, so ratios are to it. So are `peers`, if the benchmark has them. Raises
    `InconclusiveError` if the contenders' answers differ, because they did different work then.
    """
    if benchmark.most_repeats is not None and repeats > benchmark.most_repeats:
        raise InputError(f"{benchmark.name} has {benchmark.most_repeats} turns at most, not {repeats}")
    if release is None and benchmark.inside:
        raise InputError(f"{benchmark.name} runs in the scheduler of a release: add --with vllm==X")
    contenders = dict(benchmark.contenders(small=small))
    beside = release is not None and benchmark.released is not None
    if release is not None and benchmark.released is not None:
        inside = {name: release[1](of(small)) for name, of in benchmark.inside.items()}
        contenders = {release[0]: release[1](benchmark.released(small)), **inside, **contenders}
    if peers and benchmark.peers is not None:
        contenders = {**benchmark.peers(peers, small=small), **contenders}
    for name, contender in contenders.items():
        show(f"{benchmark.name}: {name} warms up")
        contender.warm_up()
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    units = dict.fromkeys(contenders, 0)
    also: dict[str, list[Mapping[str, float]]] = {name: [] for name in contenders}
    for repeat in range(repeats):
        done: dict[str, Work] = {}
        for name in _rotated(list(contenders), repeat):
            show(f"{benchmark.name}: {name}, {repeat + 1} of {repeats}")
            with _collected():
                started = time.process_time()
                done[name] = contenders[name].turn(repeat)
                seconds = time.process_time() - started
            own = done[name].seconds
            rates[name].append(done[name].units / max(seconds if own is None else own, 1e-9))
            units[name] += done[name].units
            also[name].append(done[name].also)
        _compare(benchmark, done)
    goals = () if small or benchmark.goal is None else (benchmark.goal, *benchmark.further_goals)
    rows = [_row(name, rates, units[name], goals, beside=beside) for name in contenders]
    return [replace(row, also=_spreads(also[row.contender])) for row in rows]


def _spreads(turns: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    return {name: Spread.of([turn[name] for turn in turns]) for name in turns[0]}


def _row(name: str, rates: dict[str, list[float]], units: int, goals: Sequence[Goal], *, beside: bool) -> Row:
    yardstick = next(iter(rates.values()))
    ratios = [own / other for own, other in zip(rates[name], yardstick, strict=True)]
    asked = next((goal for goal in goals if name in goal.contenders), Goal(()))
    rate, times = asked.units_per_second, asked.times_the_release if beside else asked.times_the_yardstick
    return Row(name, len(ratios), units, Spread.of(rates[name]), Spread.of(ratios), rate, times)


def _compare(benchmark: Benchmark, done: dict[str, Work]) -> None:
    (first, reference), *others = done.items()
    for name, work in others:
        if work[:2] != reference[:2]:
            raise InconclusiveError(f"{benchmark.name}: {name} and {first} do not answer alike: nothing was measured")


def _rotated(names: list[str], by: int) -> list[str]:
    by %= len(names)
    return names[by:] + names[:by]


@contextmanager
def _collected() -> Iterator[None]:
    """Each contender pays for the garbage collections that its own objects cause, and for no others."""
    gc.collect()
    yield


def machine() -> dict[str, Any]:
    """The processor, the versions of Python and torch, and the load of the machine."""
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
