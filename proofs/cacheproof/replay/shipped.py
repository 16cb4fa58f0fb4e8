"""The slices of recorded workloads that come with the package, and the counts that they are known to give.

`data/shipped.toml` lists the runs. The components for which it has a count of hits go through it, and have to give
exactly that.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.model.registry import AnyComponent, component_named
from cacheproof.replay.readers import read
from cacheproof.replay.result import ReplayResult, Setting
from cacheproof.replay.run import replay_of
from cacheproof.replay.workload import Workload

DATA = Path(__file__).parent / "data"
CHECK_EVERY = 11
"""One in this number of requests is checked in full: the slices are short."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of the list: a trace, its reader, and the known hits of each component at this capacity."""

    trace: Path
    options: Mapping[str, str]
    capacity: int
    requests: int
    references: int
    hits: Mapping[str, int]
    components: Sequence[str] = ()
    """Those that go through it; empty for the ones of `hits`."""
    concurrency: int = 1
    """Or 0, which is `BY_CLOCK`."""
    check_every: int = CHECK_EVERY
    rounds: int = 0
    tokens: int = 0
    """What the rounds scheduled, where it is served in rounds."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One component through one line of the list."""

    listed: Listed
    setting: Setting
    result: ReplayResult

    @property
    def expected_hits(self) -> int | None:
        """None where the list has no count for the component."""
        return self.listed.hits.get(self.setting.component.name)

    @property
    def as_expected(self) -> bool:
        """No property was violated, and the counts equal the list's."""
        result, listed = self.result, self.listed
        done = (result.requests, result.references, result.rounds, result.tokens)
        counted = done == (listed.requests, listed.references, listed.rounds, listed.tokens)
        return not result.violations and counted and self.expected_hits in (None, result.hits)


def listed(path: Path = DATA / "shipped.toml") -> list[Listed]:
    """The list; traces are named relative to it."""
    runs: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["run"]
    return [Listed(**{**run, "trace": path.parent / run["trace"]}) for run in runs]


def serving(line: Listed) -> list[AnyComponent]:
    """The components that go through a line of the list: those that it names, or has counts for."""
    return [component_named(name) for name in line.components or sorted(line.hits)]


def replay_shipped(progress: Show = lambda _line: None, lines: Iterable[Listed] | None = None) -> Iterator[Replayed]:
    """Every serving component through every listed run, or through these, one after the other."""
    workloads: dict[tuple[Path, tuple[tuple[str, str], ...]], Workload] = {}
    for line in listed() if lines is None else lines:
        key = line.trace, tuple(line.options.items())
        if key not in workloads:
            workloads[key] = read([line.trace], line.options)
        for component in serving(line):
            setting = Setting(
                component, component.normative, workloads[key], line.capacity, line.check_every, line.concurrency
            )
            yield Replayed(line, setting, replay_of(setting).run(progress))
