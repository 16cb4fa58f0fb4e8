"""The slices of recorded workloads that come with the package, and the counts that they are known to give.

`data/shipped.toml` lists the runs. Every component that serves workloads goes through each of them; where the list has
a count of hits for the component, the run has to give exactly that.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cacheproof.registry import AnyComponent, components
from cacheproof.replay.readers import read
from cacheproof.replay.run import Replay, Result, Setting
from cacheproof.replay.workload import Workload

DATA = Path(__file__).parent / "data"
CHECK_EVERY = 11
"""Of so many requests, one is checked in full: the slices are short."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of the list: a trace, how it is read, and what each component is known to hit at this capacity."""

    trace: Path
    options: Mapping[str, str]
    capacity: int
    requests: int
    references: int
    hits: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Replayed:
    """One component through one line of the list."""

    listed: Listed
    setting: Setting
    result: Result

    @property
    def expected_hits(self) -> int | None:
        """None where the list has no count for the component."""
        return self.listed.hits.get(self.setting.component.name)

    @property
    def as_expected(self) -> bool:
        """Nothing was violated, and the counts are those of the list."""
        result, listed = self.result, self.listed
        counted = (result.requests, result.references) == (listed.requests, listed.references)
        return not result.violations and counted and self.expected_hits in (None, result.hits)


def listed(path: Path = DATA / "shipped.toml") -> list[Listed]:
    """The list; traces are named relative to it."""
    runs: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["run"]
    return [Listed(**{**run, "trace": path.parent / run["trace"]}) for run in runs]


def serving() -> list[AnyComponent]:
    """The components that say how they serve a workload."""
    return [component for component in components().values() if component.service is not None]


def replay_shipped(progress: Callable[[str], None] = lambda _line: None) -> Iterator[Replayed]:
    """Every serving component through every listed run, one after the other."""
    workloads: dict[tuple[Path, tuple[tuple[str, str], ...]], Workload] = {}
    for line in listed():
        key = line.trace, tuple(line.options.items())
        if key not in workloads:
            workloads[key] = read([line.trace], line.options)
        for component in serving():
            setting = Setting(component, component.normative, workloads[key], line.capacity, CHECK_EVERY)
            yield Replayed(line, setting, Replay(setting).run(progress))
