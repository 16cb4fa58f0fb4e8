"""`cacheproof conform`: released packages in lockstep with the eras that describe them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.table import Table as RichTable

from cacheproof.command.options import SeedOption
from cacheproof.command.target import told_at_once
from cacheproof.foundation import files
from cacheproof.foundation.console import Report, Show, announce, interruptible, progress
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.foundation.junit import STATUSES, Case, JunitOption, file_to_write, write
from cacheproof.lockstep.tally import Limit
from cacheproof.model.registry import component_named
from cacheproof.model.store import save
from cacheproof.present.show import against as pair
from cacheproof.present.show.eras import case, record, rendered, status, worst
from cacheproof.present.show.violations import case_of, explored_message, said_explored, searched_message, status_of
from cacheproof.present.show.violations_table import found_in, rendered_searches
from cacheproof.releases import nearest
from cacheproof.releases.against.parts import parts_of
from cacheproof.releases.against.running import PROCESSES, compare, compared
from cacheproof.releases.against.sides import changed_files, divided, lines_of, side_of
from cacheproof.releases.conformance import EraResult, Trial, open_with_readers_apart
from cacheproof.releases.exploring import PAIRS, Exploration, explored_of
from cacheproof.releases.results.recent import remember
from cacheproof.releases.searching import SCHEDULER, EraSearch, search, without_era
from cacheproof.targets.families import family_of
from cacheproof.targets.prefixes.conformance import Held, held
from cacheproof.targets.prefixes.own import OwnCache, is_own
from cacheproof.targets.prefixes.package import OBSERVED, Package, PrefixFamily
from cacheproof.targets.vllm.eras import Era, Table, table
from cacheproof.targets.vllm.opening import SHARED
from cacheproof.targets.vllm.release import Installed, Release, add, needed

PANEL = "Released engines"

STEPS = 5_000
SEARCHED = 4_000
SEED = 1


class Configurations(Enum):
    """In which configurations an era is compared."""

    LISTED = "listed"
    RANDOM = "random"


class Explore(Enum):
    """How much of an era is explored before its release is run."""

    NONE = "none"
    PAIRS = "pairs"
    ALL = "all"


def command(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET",
            help="Releases: vllm==X, vllm@PATH, sglang==X or transformers==X. Or a prefix cache of yours: "
            "python:MODULE:NAME or exec:COMMAND.",
            show_default="every vllm release that has an era",
        ),
    ] = None,
    *,
    component: Annotated[str | None, typer.Option(help="Test only this component.", show_default="all")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Number of calls for each era.")] = STEPS,
    seed: SeedOption = SEED,
    configurations: Annotated[
        Configurations,
        typer.Option(help="Test each era in its listed configurations, or in random ones."),
    ] = Configurations.LISTED,
    violations: Annotated[
        int,
        typer.Option(min=0, help="Number of calls that search for violated properties, for each era. 0: no search."),
    ] = SEARCHED,
    explore: Annotated[
        Explore,
        typer.Option(
            help="Explore small scopes on the scheduler's era, and repeat on the release what was found: with every "
            "pair of settings, or with all combinations. An exploration is kept for later runs."
        ),
    ] = Explore.PAIRS,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            help="Time limit of that search for each era, in seconds.",
            show_default="limited by --violations",
        ),
    ] = None,
    show: Annotated[
        list[int] | None,
        typer.Option(
            min=0,
            metavar="NUMBER",
            help="Show the calls of the violation with this number. 0: of all. May be repeated.",
            show_default="none",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show all lines of the table of violations.")] = False,
    new_falls_short: Annotated[
        bool,
        typer.Option(
            "--new-falls-short",
            help="Fail on violations that no catalogue entry is shown to cause.",
        ),
    ] = False,
    readers_apart: Annotated[
        bool,
        typer.Option("--readers-apart", help="Test only ring and object_store, with readers in their own processes."),
    ] = False,
    install: Annotated[bool, typer.Option("--install", help="Install missing releases first.")] = False,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="BASE",
            help="Compare one target with this one instead of with eras. Both may be releases, or any targets of "
            "--component.",
            show_default="eras",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, max=64, help="With --against: number of processes that share the comparison.")
    ] = PROCESSES,
    summary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --against: append a summary in Markdown to this file.", show_default="none"
        ),
    ] = None,
    junit: JunitOption = None,
) -> Report:
    """Compare released packages with the eras that describe them.

    Fails on unlisted differences, and on listed differences that no longer occur.

    A release without its own era is compared with the nearest earlier and later eras. It fails if it matches neither.

    A second table lists the properties that each release violates, with the shortest call sequence found. These
    violations fail only with --new-falls-short, and only if no catalogue entry is shown to cause them.

    sglang and transformers releases, and prefix caches of yours, are compared with the specification of their cache.
    """
    file_to_write(junit)
    if show and not violations:
        raise InputError("--show shows violations, and --violations 0 looks for none")
    randomly = configurations is Configurations.RANDOM
    of_eras = {
        "--configurations random": randomly,
        "--seconds": seconds is not None and against is None,
        "--show": show,
        "--all": every,
        "--new-falls-short": new_falls_short,
        "--readers-apart": readers_apart,
    }
    given = [name for name, value in of_eras.items() if value]
    if against is not None:
        two = Two(against, component, steps, seed, seconds, jobs, junit, summary, install)
        return of_two(targets or [], two, given)
    if any(is_own(target) or family_of(target).observed is not None for target in targets or []):
        if given:
            raise InputError(f"{', '.join(given)}: for releases that are compared with eras, as vLLM's are")
        return of_observed(targets or [], component, steps=steps, seed=seed, install=install, junit=junit)
    releases = asked_for(table(), targets or [], component)
    run = EraRun()
    with progress() as line, interruptible() as stop:
        eras: list[Era] = []
        for release in releases:
            there = add(release, told_at_once(line)) if install else needed(release)
            to_run, not_driven = nearest.lines_for(table(), release, component, partial(obstacle, there))
            eras += to_run
            run.undriven += not_driven
        announce(f"seed {seed}")
        eras = with_readers(eras, wanted=readers_apart)
        run.explored = explored(eras, Explore.NONE if randomly or readers_apart else explore, line)
        for era in eras:
            trial = Trial.of(table(), era, steps=steps, seed=seed, progress=line)
            trial = trial.in_random_configurations() if randomly else trial.with_random_configurations()
            trial = trial.repeating(run.explored.get(era))
            run.results.append(trial.perform(open_with_readers_apart if readers_apart else None))
            if era.like is None:
                save("conform", f"{era.component}.{era.variant}.{era.release.name}", record(run.results[-1]))
            if run.results[-1].interrupted:
                raise KeyboardInterrupt
        limit = Limit(None if seconds is not None else violations, seconds)
        run.to_search = searchable(run.results, component, releases) if violations else []
        for era in run.to_search:
            told = partial(_told, line, f"{era.component} of {era.release.name}")
            run.searches.append(
                search(table(), era, limit=limit, seed=seed, progress=told, explored=run.explored.get(era))
            )
            run.searches[-1].hint = era in nearest.hints(run.results)
            if run.searches[-1].interrupted:
                raise KeyboardInterrupt
    found = found_in(run.searches)
    remember(found)
    of_searches = [case_of(done, new_falls_short=new_falls_short) for done in run.searches]
    write(junit, "conform", [*map(case, run.results), *of_searches], interrupted=stop.happened)
    explorations = [explored_message(era, made) for era, made in run.explored.items() if made is not None]
    not_searched = nearest.unsearched(run.results, run.undriven, run.to_search) if violations else []
    data = {
        "seed": seed,
        "configurations": configurations.value,
        "results": [record(result) for result in run.results],
        "not_driven": [
            {"component": one.component, "target": one.release.name, "reason": one.reason} for one in run.undriven
        ],
        "violations": found,
        "not_searched": not_searched,
        "explored": explorations,
        "searched": [searched_message(done) for done in run.searches],
    }
    shown = [
        *rendered(run.results, run.undriven),
        *map(said_explored, explorations),
        *rendered_searches(run.searches, found, show or [], every=every),
        *(f"not searched for broken properties: {one}" for one in not_searched),
    ]
    return Report(data, shown, run.status(new_falls_short=new_falls_short), interrupted=stop.happened)


@dataclass
class EraRun:
    """What comparing releases with eras has given so far; an interrupted run reports it too."""

    undriven: list[nearest.Undriven] = field(default_factory=list)
    explored: dict[Era, Exploration | None] = field(default_factory=dict)
    results: list[EraResult] = field(default_factory=list)
    to_search: list[Era] = field(default_factory=list)
    searches: list[EraSearch] = field(default_factory=list)

    def status(self, *, new_falls_short: bool) -> ExitStatus:
        """The worst of what the releases' own eras, their neighbours' and the searches give."""
        by_own_eras = status([result for result in self.results if result.era.like is None])
        by_searches = (status_of(done, new_falls_short=new_falls_short) for done in self.searches)
        return worst([by_own_eras, nearest.status(self.results, self.undriven), *by_searches])


class Two(NamedTuple):
    """How two implementations are compared; with `changed_only`, those components whose files differ."""

    base: str
    component: str | None
    steps: int
    seed: int
    seconds: float | None
    jobs: int
    junit: Path | None
    summary: Path | None
    install: bool
    changed_only: bool = False


def of_two(targets: list[str], two: Two, given: list[str]) -> Report:
    """Two implementations beside each other, without an era."""
    if given:
        raise InputError(f"{', '.join(given)}: for releases that are compared with eras, and not with --against")
    if len(targets) != 1:
        raise InputError("--against compares one target with BASE: name one")
    files.file_to_write(two.summary, "--summary")
    for name in (*targets, two.base) if two.install else ():
        family_of(name).add(name, announce)
    sides = side_of(targets[0]), side_of(two.base)
    names = sides[0].name, sides[1].name
    lines, undriven = lines_of(*sides, two.component)
    lines, same = divided(lines) if two.changed_only else (lines, [])
    left_out = [f"{one.component} of {one.release.name}: {one.reason}" for one in undriven]
    results = compared(lines)
    announce(f"seed {two.seed}")
    with progress() as show, interruptible() as stop:
        parts = parts_of(lines, steps=two.steps, seed=two.seed, endless=two.seconds is not None)
        compare(*sides, parts, results, seconds=two.seconds, processes=two.jobs, progress=show)
    every = list(results.values())
    notes = pair.notes(changed_files(lines), left_out)
    write(two.junit, "conform", [pair.case(one, names) for one in every], interrupted=stop.happened)
    if two.summary is not None:
        files.append_to_file(two.summary, pair.markdown(every, names, notes, interrupted=stop.happened), "--summary")
    data: dict[str, object] = {"seed": two.seed, "target": names[0], "base": names[1], "changed": changed_files(lines)}
    unchanged = [pair.message(one) for one in compared(same).values()]
    data |= {"results": [pair.message(one) for one in every], "unchanged": unchanged, "left_out": left_out}
    return Report(data, pair.rendered(every, names, notes), pair.status_of(every), interrupted=stop.happened)


def searchable(results: list[EraResult], component: str | None, releases: list[Release]) -> list[Era]:
    """The eras to search beside: those that agree, hints of neighbours, and schedulers without an era, alone."""
    alone = without_era(table(), releases) if component in (None, SCHEDULER) else []
    return [*(result.era for result in results if result.agrees), *nearest.hints(results), *alone]


def explored(eras: list[Era], explore: Explore, line: Show) -> dict[Era, Exploration | None]:
    """What explorations of these eras show, of those that have scopes for it; one that is kept is not made again."""
    if explore is Explore.NONE:
        return {}
    at_once = PAIRS if explore is Explore.PAIRS else None
    return {era: explored_of(era, line, at_once) for era in eras}


def _told(line: Show, about: str, text: str) -> None:
    line(f"{about}: {text}")


def of_observed(
    targets: list[str], component: str | None, *, steps: int, seed: int, install: bool, junit: Path | None
) -> Report:
    """Releases that are held to what they show of a component."""
    packages = [observed_package(target, component) for target in targets]
    announce(f"seed {seed}")
    results: list[tuple[Package | OwnCache, Held]] = []
    with progress() as show:
        for package in packages:
            if isinstance(package, OwnCache):
                walks = package.held(steps=steps, seed=seed, progress=show)
            else:
                if install:
                    package.family.add(package.name, told_at_once(show))
                walks = held(package, steps=steps, seed=seed, progress=show)
            results += [(package, one) for one in walks]
    interrupted = any(one.walked.interrupted for _, one in results)
    shown = RichTable(box=None)
    for name in ("released package", "driven", "configuration", "calls", "compared with the specification", "verdict"):
        shown.add_column(name, justify="right" if name in ("calls", "compared with the specification") else "left")
    for package, one in results:
        walked = one.walked
        shown.add_row(package.name, one.driven, one.name, f"{walked.steps:,}", f"{walked.beside:,}", one.verdict)
    cases = [
        Case(
            f"conform.{package.name}.{one.driven}",
            one.name,
            STATUSES[one.status],
            one.verdict,
            properties={"seed": seed},
        )
        for package, one in results
    ]
    write(junit, "conform", cases, interrupted=interrupted)
    statuses = [one.status for _, one in results]
    told = [
        {"target": package.name, "driven": one.driven, "configuration": one.name, **asdict(one.walked)}
        for package, one in results
    ]
    data = {"seed": seed, "component": OBSERVED, "results": told}
    return Report(data, [shown], worst(statuses), interrupted=interrupted)


def observed_package(target: str, component: str | None) -> Package | OwnCache:
    """The release or the cache that a target means, if it is held to what it shows of this component."""
    if is_own(target):
        if component not in (None, OBSERVED):
            raise InputError(f"{target} is held to what it shows of {OBSERVED}, and not to {component}")
        return OwnCache(target)
    family = family_of(target)
    if not isinstance(family, PrefixFamily):
        raise InputError(f"{target} is compared with eras, and others with what they show: ask for them one by one")
    package = family.parsed(target)
    if component not in (None, family.observed):
        raise InputError(f"{package.name} is held to what it shows of {family.observed}, and not to {component}")
    return package


def asked_for(lines: Table, targets: list[str], component: str | None) -> list[Release]:
    """The releases that are meant; raises InputError where there is no era to compare one with."""
    if component is not None:
        component_named(component)
    every = [release for release in lines.releases() if lines.of(release, component)]
    if not every:
        raise InputError(f"no era of {component} is a release")
    releases = list(dict.fromkeys(Release.parsed(target) for target in targets)) or every
    for release in releases:
        if lines.of(release) and not lines.of(release, component):
            known = ", ".join(one.name for one in every)
            raise InputError(f"no era of {component} is {release.name}: there are eras of {known}")
    return releases


def with_readers(eras: list[Era], *, wanted: bool) -> list[Era]:
    """If wanted, those of components whose memory is read by others; raises InputError where none is."""
    if not wanted:
        return eras
    shared = [era for era in eras if era.component in SHARED]
    if not shared:
        raise InputError(f"--readers-apart is for {' and '.join(SHARED)}, and no era of these is meant")
    return shared


def obstacle(there: Installed, component: str) -> str:
    """Why a release cannot be driven as a component; empty if it can."""
    return there.obstacle(component)
