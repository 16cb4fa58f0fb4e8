"""Small scopes with every combination of settings that a release has, explored on its era and repeated on the release.

An exploration is kept in the store: another release of the same era, or a second run, does not make it again. What it
shows of the era is no evidence about a release; the calls are made there again. Where there is a compiler, the compiled
variant exhausts each configuration too.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError
from cacheproof.foundation.workers import cores, shared_out
from cacheproof.lockstep import decisions, situations
from cacheproof.lockstep.situations import Operations, Situation, explored, needed
from cacheproof.lockstep.violations_nearest import Seen
from cacheproof.model.finding import Subject
from cacheproof.model.fingerprint import digest_of, specification_digest
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named, variant_named
from cacheproof.model.store import Record, alone, load, name_of, save
from cacheproof.model.wire import (
    config_from_message,
    config_to_message,
    operation_from_message,
    operation_to_message,
)
from cacheproof.releases.exhausting import Exhausted, can_exhaust, exhausted
from cacheproof.targets.vllm.eras import Era

SCOPES = Path(__file__).parent / "explored.toml"
KIND = "explored"
PAIRS = 2
"""All combinations of at most this many settings are explored, unless the caller asks for more."""

SHARED_FROM = 100
"""From this number of configurations on, each core explores a part of them. A process takes seconds to start."""
COUNTS = ("configurations", "whole", "exhausted", "states", "calls")

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Exploration:
    """What an era has shown in all configurations that a release has."""

    ways: tuple[tuple[Any, tuple[Operations, ...]], ...]
    """For each configuration the calls that lead to new situations."""
    broken: tuple[tuple[Any, Seen], ...]
    """The plainest configurations first."""
    configurations: int
    whole: int
    """Configurations of which no state was left out."""
    exhausted: int
    """Configurations that compiled code has exhausted."""
    states: int
    calls: int
    kept: bool = False
    """Whether it comes from the store."""


def explored_of(era: Era, progress: Show | None = None, at_once: int | None = PAIRS) -> Exploration | None:
    """The exploration of the era; None if its component has no scopes for it."""
    return exploration(era, progress, at_once=at_once) if is_explored(era.component) else None


class Scopes(NamedTuple):
    """What the file holds, by component."""

    configurations: Mapping[str, tuple[Any, ...]]
    settings: Mapping[str, Any]
    """Lines of settings."""
    states: Mapping[str, int]
    """How many states of a configuration are gone through."""
    compiled_states: Mapping[str, int]
    """The same for compiled code."""


@cache
def scopes(path: Path = SCOPES) -> Scopes:
    """The file, read and checked."""
    with path.open("rb") as file:
        content = tomllib.load(file)
    found = configurations_in(content["scope"], path)
    return Scopes(found, content["settings"], content["states"], content["compiled_states"])


def configurations_in(listed: Iterable[Mapping[str, Any]], path: Path) -> Mapping[str, tuple[Any, ...]]:
    """The listed configurations of each component. Raises InputError for one that the component refuses."""
    found: dict[str, tuple[Any, ...]] = {}
    for given in listed:
        component = component_named(given["component"])
        values = {name: value for name, value in given.items() if name not in ("component", "says")}
        config = config_from_message(component, values)
        wrong = component.invalid(config)
        if wrong is not None:
            raise InputError(f"{path}: {component.name}, {given['says']}: {wrong}")
        found[component.name] = (*found.get(component.name, ()), config)
    return found


def is_explored(component: str) -> bool:
    """Whether there are scopes for it."""
    return component in scopes().configurations


def configurations(era: Era, at_once: int | None = PAIRS) -> list[Any]:
    """Every scope with every combination of settings that the release has, each once, the fewest settings first.

    `at_once`: the most settings in one combination; None for no limit.
    """
    component = component_named(era.component)
    bases, lines = scopes().configurations, scopes().settings
    made = [
        (sum(map(bool, chosen)), base._replace(**{name: value for one in chosen for name, value in one.items()}))
        for chosen in product(*([{}, *line] for line in lines[era.component]))
        for base in bases[era.component]
    ]
    made.sort(key=lambda one: one[0])
    few = dict.fromkeys(config for count, config in made if at_once is None or count <= at_once)
    return [config for config in few if component.invalid(config) is None and era.has(config)]


def exploration(
    era: Era,
    progress: Show | None = None,
    states: int | None = None,
    at_once: int | None = PAIRS,
) -> Exploration:
    """The exploration of the era as far as the release has its settings: from the store if it is there.

    `states`: of each configuration; by default the component's own limit.
    """
    states = scopes().states[era.component] if states is None else states
    component = component_named(era.component)
    variant = variant_named(component, era.variant)
    every = configurations(era, at_once)
    name = kept_name(era, at_once)
    compiled = scopes().compiled_states[era.component] if can_exhaust(component, variant) else 0
    key = key_of(every, (states, compiled))
    with alone(KIND, name, f"exploring {component.name} {variant.tag}"):
        if (kept := _kept(name, key)) is not None:
            return _read(component, kept)
        if compiled and progress is not None:
            progress(f"{component.name} {variant.tag}: compiling")
        workers = cores() if len(every) >= SHARED_FROM else 1
        made = shared(component, variant, every, states, progress, compiled, workers)
        save(KIND, name, {"component": era.component, "variant": era.variant, "key": key, **_record(made, every)})
    return made


def explore(
    component: AnyComponent,
    variant: AnyVariant,
    every: Iterable[Any],
    states: int,
    progress: Show | None = None,
    compiled: int = 0,
) -> Exploration:
    """One configuration after the other. A situation is new once for each choice of settings, over all scopes.

    `compiled`: the most states that compiled code explores of each configuration; 0 for none.
    """
    known: dict[frozenset[str], set[Situation]] = {}
    ways: list[tuple[Any, tuple[Operations, ...]]] = []
    broken: list[tuple[Any, Seen]] = []
    count = whole = through = visited = calls = 0
    for count, config in enumerate(every, 1):
        subject = Subject(component, variant, config)
        done = explored(subject, states, known.setdefault(_settings(config), set()))
        more = exhausted(subject, compiled) if compiled else Exhausted((), 0, whole=False)
        ways.append((config, done.ways))
        broken += [(config, one) for one in (*done.broken, *more.broken)]
        whole, through = whole + (done.whole or more.whole), through + more.whole
        visited, calls = visited + done.states + more.states, calls + done.calls
        if progress is not None:
            about = f"{component.name} {variant.tag}: exploring, configuration {count:,}"
            progress(f"{about}, {visited:,} states, {len(broken):,} violations")
    return Exploration(tuple(ways), tuple(needed(broken)), count, whole, through, visited, calls)


class _Part(NamedTuple):
    """What a worker process explores: names and plain data."""

    component: str
    variant: str
    configurations: tuple[Record, ...]
    states: int
    compiled: int


def shared(
    component: AnyComponent,
    variant: AnyVariant,
    every: Sequence[Any],
    states: int,
    progress: Show | None,
    compiled: int,
    workers: int,
) -> Exploration:
    """The same in `workers` processes. Each takes all scopes with one choice of settings, so nothing else is new.

    Raises InconclusiveError if one of them dies.
    """
    if workers == 1:
        return explore(component, variant, every, states, progress, compiled)
    parts: dict[frozenset[str], list[Record]] = {}
    for config in every:
        parts.setdefault(_settings(config), []).append(config_to_message(config))
    tasks = [_Part(component.name, variant.tag, tuple(part), states, compiled) for part in parts.values()]
    made: list[Exploration] = []
    for record in shared_out(_explored, tasks, workers):
        made.append(_read(component, record))
        if progress is not None:
            done, visited = (sum(getattr(one, name) for one in made) for name in ("configurations", "states"))
            progress(f"{component.name} {variant.tag}: exploring, configuration {done:,}, {visited:,} states")
    places = {config: place for place, config in enumerate(every)}
    ways = sorted((way for one in made for way in one.ways), key=lambda way: places[way[0]])
    broken = sorted((seen for one in made for seen in one.broken), key=lambda seen: places[seen[0]])
    counts = [sum(getattr(one, name) for one in made) for name in COUNTS]
    return Exploration(tuple(ways), tuple(needed(broken)), *counts)


def _explored(part: _Part) -> Record:
    """In a worker process."""
    component = component_named(part.component)
    variant = variant_named(component, part.variant)
    every = [config_from_message(component, one) for one in part.configurations]
    return _record(explore(component, variant, every, part.states, None, part.compiled), every)


def settings_of(config: Any) -> frozenset[str]:
    """The names of the settings in the file that this configuration has not as by default."""
    plain = config._field_defaults
    names = {name for every in scopes().settings.values() for line in every for one in line for name in one}
    return frozenset(name for name in names if name in plain and getattr(config, name) != plain[name])


def _settings(config: Any) -> frozenset[str]:
    return frozenset(f"{name}={getattr(config, name)}" for name in settings_of(config))


# In the store -------------------------------------------------------------------------------------------------------


def kept_name(era: Era, at_once: int | None) -> str:
    """Under which an exploration is kept. A file system allows names of some 255 bytes, so the lacks are in short."""
    lacks = [sha256(repr(sorted(era.lacks)).encode()).hexdigest()[:8]] if era.lacks else []
    return name_of(era.component, era.variant, "all" if at_once is None else str(at_once), *lacks)


def key_of(every: Iterable[Any], limits: tuple[int, int]) -> str:
    """What an exploration depends on, beside the specification: configurations, their limits, and our own code."""
    source = digest_of([Path(decisions.__file__).parent]) + Path(situations.__file__).read_text(encoding="utf-8")
    return sha256(repr((source, limits, tuple(every))).encode()).hexdigest()[:16]


def _kept(name: str, key: str) -> Record | None:
    try:
        record = load(KIND, name)
    except InputError:
        return None
    return record if record.get("key") == key and record.get("source") == specification_digest() else None


def _record(made: Exploration, every: list[Any]) -> dict[str, Any]:
    places = {config: place for place, config in enumerate(every)}
    return {
        "configurations": [config_to_message(config) for config in every],
        "ways": [[places[config], [_calls(way) for way in ways]] for config, ways in made.ways if ways],
        "broken": [
            [places[config], one.rule.name, one.kind.wire_name() if one.kind else "", _calls(one.calls)]
            for config, one in made.broken
        ],
        "whole": made.whole,
        "exhausted": made.exhausted,
        "states": made.states,
        "calls": made.calls,
    }


def _calls(calls: Operations) -> list[Any]:
    return [operation_to_message(one) for one in calls]


def _read(component: AnyComponent, record: Record) -> Exploration:
    configs = [config_from_message(component, one) for one in record["configurations"]]
    rules = {rule.name: rule for rule in component.properties()}
    kinds = {kind.wire_name(): kind for kind in component.operations}

    def operations(given: Iterable[Any]) -> Operations:
        return tuple(operation_from_message(component.operations, one) for one in given)

    def seen() -> Iterator[tuple[Any, Seen]]:
        for place, rule, kind, calls in record["broken"]:
            yield configs[place], Seen(rules[rule], kinds[kind] if kind else None, operations(calls))

    return Exploration(
        tuple((configs[place], tuple(map(operations, ways))) for place, ways in record["ways"]),
        tuple(seen()),
        len(configs),
        record["whole"],
        record["exhausted"],
        record["states"],
        record["calls"],
        kept=True,
    )
