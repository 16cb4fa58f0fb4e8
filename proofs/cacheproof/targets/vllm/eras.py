"""Which era is which release, in which configurations they are compared, and where they are known to differ."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from cacheproof.model.registry import component_named
from cacheproof.model.wire import config_from_message
from cacheproof.targets.vllm.release import Release

UNEQUAL_TURNS = "sessions whose turns have different numbers of output tokens"

TABLE = Path(__file__).parent / "eras.toml"


@dataclass(frozen=True, slots=True)
class Era:
    """One line: a variant of a component is what this release does."""

    component: str
    variant: str
    release: Release
    first: str = ""
    """Another version of a dependency; empty for the environment's own."""
    lacks: tuple[str, ...] = ()
    """Settings that this release does not have: where one is not as by default, nothing is compared."""
    apart: tuple[tuple[str, ...], ...] = ()
    """Settings that this release does not have together: where all of a group are not as by default, nothing is
    compared."""
    fixed: tuple[tuple[str, int], ...] = ()
    """Fields for which this release has one value: where one is another, nothing is compared."""
    least: tuple[tuple[str, int], ...] = ()
    """Fields whose numbers are at least this large in this release: where one is smaller, nothing is compared."""
    outputs_of_first_turn: bool = False
    """The release gives each turn of a session the output limit of the first (C-SCH-27). Sessions are compared whose
    turns have as many output tokens, and the last one no fewer."""
    like: Release | None = None
    """The neighbour that the line is of, where this release has no era of its own (see `nearest`)."""

    @property
    def refused(self) -> tuple[tuple[str, ...], ...]:
        """Settings that are refused, alone or together."""
        return (*((name,) for name in self.lacks), *self.apart)

    def refusal(self, config: Any) -> str | None:
        """Why the release is not compared in this configuration, or None."""
        plain = {name for name, default in config._field_defaults.items() if getattr(config, name) == default}
        present = next((group for group in self.refused if plain.isdisjoint(group)), None)
        if present is not None:
            return f"{' together with '.join(present)} is not compared with {self.release.name}"
        for name, value in self.fixed:
            if getattr(config, name) != value:
                return f"{name} other than {value} is not compared with {self.release.name}"
        for name, value in self.least:
            if min(getattr(config, name), default=value) < value:
                return f"{name} below {value} are not compared with {self.release.name}"
        if self.outputs_of_first_turn and not all(map(_of_equal_output, _sessions(config))):
            return f"{UNEQUAL_TURNS} are not compared with {self.release.name} (C-SCH-27)"
        return None

    def has(self, config: Any) -> bool:
        """Whether the release is compared in this configuration."""
        return self.refusal(config) is None


def _sessions(config: Any) -> list[list[int]]:
    """The output tokens of each turn, session by session."""
    found: list[list[int]] = []
    for output, goes_on in zip(config.outputs, config.turns or [0] * len(config.outputs), strict=False):
        if goes_on and found:
            found[-1].append(output)
        else:
            found.append([output])
    return found


def _of_equal_output(turns: list[int]) -> bool:
    *earlier, last = turns
    return len(set(earlier)) <= 1 and last >= turns[0]


@dataclass(frozen=True, slots=True)
class Deviation:
    """An operation at which a release differs from its era."""

    component: str
    variant: str
    release: Release
    operation: str
    reason: str

    def belongs_to(self, era: Era) -> bool:
        """Whether it is about this line."""
        return (self.component, self.variant, self.release) == (era.component, era.variant, era.release)


@dataclass(frozen=True, slots=True)
class Table:
    """The whole file."""

    eras: tuple[Era, ...]
    configurations: Mapping[str, tuple[Any, ...]]
    """Of each component."""
    deviations: tuple[Deviation, ...]
    undriven: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Components and variants that no release is compared with, and why."""

    def of(self, release: Release, component: str | None = None) -> list[Era]:
        """The lines about a release."""
        return [era for era in self.eras if era.release == release and component in (None, era.component)]

    def releases(self) -> list[Release]:
        """Every release that is an era, oldest first."""
        return sorted({era.release for era in self.eras}, key=lambda release: release.parts)


@cache
def table(path: Path = TABLE) -> Table:
    """The file, read and checked."""
    with path.open("rb") as file:
        content = tomllib.load(file)
    configurations: dict[str, tuple[Any, ...]] = {}
    for given in content["configuration"]:
        values = {name: value for name, value in given.items() if name not in ("component", "says")}
        config = config_from_message(component_named(given["component"]), values)
        configurations[given["component"]] = (*configurations.get(given["component"], ()), config)
    return Table(
        eras=tuple(
            Era(
                **{
                    **line,
                    "release": Release(line["release"]),
                    "lacks": tuple(line.get("lacks", ())),
                    "apart": tuple(map(tuple, line.get("apart", ()))),
                    "fixed": tuple(line.get("fixed", {}).items()),
                    "least": tuple(line.get("least", {}).items()),
                }
            )
            for line in content["era"]
        ),
        configurations=configurations,
        deviations=tuple(
            Deviation(**{**line, "release": Release(line["release"])}) for line in content.get("deviation", ())
        ),
        undriven={
            (line["component"], variant): line["reason"]
            for line in content.get("undriven", ())
            for variant in line["variants"]
        },
    )


def dependency_of(component: str, variant: str, release: Release) -> str:
    """The other version of a dependency that this variant stands for in this release; empty if there is none."""
    matching = (era for era in table().of(release, component) if era.variant == variant)
    return next((era.first for era in matching), "")
