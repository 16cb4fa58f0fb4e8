"""`cacheproof planted`: bugs planted in a released package, one at a time, and whether they are found.

Lockstep with the era has to find those of our own. Historic ones, which were fixed in public, are looked for as
`conform` does by default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from cacheproof.command.conform import SEARCHED
from cacheproof.command.options import SeedOption
from cacheproof.foundation.console import Report, Show, announce, interruptible, progress, within
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.foundation.junit import STATUSES, Case, CaseStatus, JunitOption, file_to_write, write
from cacheproof.model.finding_json import finding_to_message
from cacheproof.model.registry import component_named
from cacheproof.releases.against.running import GATE_SECONDS
from cacheproof.releases.planted import beside, historic, kept
from cacheproof.releases.planted.historic import FAILED, NEEDS, Budget, Judged
from cacheproof.releases.planted.listing import (
    PUT_BACK_INTO,
    Planted,
    as_released,
    harmless_in,
    historic_in,
    planted_in,
    reached_by,
    selected,
)
from cacheproof.releases.planted.trial import Fate, perform
from cacheproof.targets.families import families
from cacheproof.targets.vllm.eras import table
from cacheproof.targets.vllm.release import Release, needed

PANEL = "Released engines"

STEPS = 5_000
SEED = 1


def command(
    target: Annotated[str, typer.Argument(metavar="vllm==X", help="An installed vllm release that has an era.")],
    *,
    component: Annotated[
        str | None, typer.Option(help="Plant bugs only in the classes of this component.", show_default="all")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Plant only this bug. May be repeated.", show_default="all")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Number of calls for each bug.")] = STEPS,
    seed: SeedOption = SEED,
    fixed_in_public: Annotated[
        bool,
        typer.Option(
            "--historic", help="Put back bugs that were fixed in public, and look for each as conform does by default."
        ),
    ] = False,
    against: Annotated[
        bool,
        typer.Option(
            "--against",
            help="With --historic: compare each with the release as it is, as conform --against does. Refactorings "
            "that change nothing follow; they must show no difference.",
        ),
    ] = False,
    seconds: Annotated[
        float, typer.Option(min=0.001, help="With --against: time limit for each bug, in seconds.")
    ] = GATE_SECONDS,
    violations: Annotated[
        int, typer.Option(min=1, help="With --historic: number of calls that search for violations, as in conform.")
    ] = SEARCHED,
    anew: Annotated[
        bool, typer.Option("--anew", help="With --historic: ignore the stored results of earlier runs.")
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the bugs and plant none.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Store the table for the documentation page that shows it.")
    ] = False,
    junit: JunitOption = None,
) -> Report:
    """Plant bugs in a release, one at a time, and check that the comparison with its era finds each.

    The unchanged release is compared first: if it differs from its era, a found bug proves nothing. Fails if a bug is
    not found.

    --against measures what a comparison of a change with its base shows, without an era.

    --historic goes on from the stored results of earlier runs with the same bugs, seed, budget and source. A bug that
    the driver cannot reach, or that no observable shows, counts as not found; the run does not fail for it.
    """
    if target.partition("==")[0] in [family.package for family in families() if family.observed is not None]:
        raise InputError(f"bugs are planted in releases that are compared with eras, as vLLM's are, not in {target}")
    release = Release.parsed(target)
    if against and (not fixed_in_public or keep):
        raise InputError("--against is for --historic, and keeps no table: leave out --keep")
    todo = (
        chosen_historic(release, component, only or [], harmless=against)
        if fixed_in_public
        else chosen(release, component, only or [])
    )
    if keep and (component or only):
        raise InputError("--keep is for a whole table: leave out --component and --only")
    if listing and (keep or junit):
        raise InputError("--list runs nothing: there is nothing for --keep or --junit to write")
    if listing:
        return listed(todo)
    file_to_write(junit)
    needed(release)
    announce(f"seed {seed}")
    if against:
        return of_gate(release, todo, seed=seed, seconds=seconds, junit=junit)
    if fixed_in_public:
        return of_historic(release, todo, Budget(steps, violations, seed), anew=anew, keep=keep, junit=junit)
    fates: list[Fate] = []
    with progress() as show, interruptible() as stop:
        every = [*as_released(todo), *todo]
        for one in every:
            inside = within(show, f"{len(fates)} of {len(every)}: {one.name or f'{one.component} as released'}")
            fate = perform(one, steps=steps, seed=seed, progress=inside)
            if fate.result.interrupted:  # what it did not find by then, it might have found
                raise KeyboardInterrupt
            fates.append(fate)
    if keep and not stop.happened:
        announce(f"kept in {kept.write(release, fates, steps=steps, seed=seed)}")
    write(junit, "planted", [case(fate) for fate in fates], interrupted=stop.happened)
    data = {"target": release.name, "seed": seed, "steps": steps, "results": [record(fate) for fate in fates]}
    return Report(data, rendered(fates), status(fates), interrupted=stop.happened)


def chosen(release: Release, component: str | None, only: Sequence[str]) -> list[Planted]:
    """The bugs that were asked for; raises InputError where there is none."""
    if component is not None:
        component_named(component)
    every = planted_in(release, component)
    if not every:
        there_are = ", ".join(one.name for one in table().releases() if planted_in(one, component))
        if not there_are:
            raise InputError(f"nothing is planted in {component}, in no release")
        raise InputError(f"nothing is planted in {release.name}: there are bugs for {there_are}")
    return selected(every, only)


def chosen_historic(
    release: Release, component: str | None, only: Sequence[str], *, harmless: bool = False
) -> list[Planted]:
    """The historic bugs that were asked for, and refactorings behind them; raises InputError if there is none."""
    there = [*historic_in(release), *(harmless_in(release) if harmless else ())]
    every = [one for one in there if component in (None, one.component)]
    if not every:
        of = f" of {component}" if component is not None else ""
        raise InputError(f"there are historic bugs for {PUT_BACK_INTO.name}, and none{of} for {release.name}")
    return selected(every, only)


def of_historic(
    release: Release, todo: Sequence[Planted], budget: Budget, *, anew: bool, keep: bool, junit: Path | None
) -> Report:
    """The release as it is, then each bug; what is known is stored at once, so that an interrupted run can go on."""
    reached = [one.era for bug in todo if bug.bug is not None and not bug.bug.needs for one in reached_by(bug)]
    every: dict[str, Callable[[Show], Judged]] = {}
    for era in dict.fromkeys(reached):
        every[f"{era.component}/as-released"] = partial(historic.as_released, era, budget)
    for one in todo:
        every[one.name] = partial(historic.judged, one, budget)
    known = {} if anew else historic.kept(every, release.name, budget)
    done: list[Judged] = []
    with progress() as show, interruptible() as stop:
        for name, look in every.items():
            inside = within(show, f"{len(done)} of {len(every)}: {name}")
            if name not in known:
                known[name] = look(inside)
                historic.keep(known[name], release.name, budget)
            done.append(known[name])
    released, rows = [row for row in done if not row.fixed], [row for row in done if row.fixed]
    if keep and not stop.happened:
        path = kept.write_historic(release, rows, steps=budget.steps, violations=budget.violations)
        announce(f"kept in {path}")
    write(junit, "planted", [case_of(row, release) for row in done], interrupted=stop.happened)
    data = {
        "target": release.name,
        "seed": budget.seed,
        "steps": budget.steps,
        "violations": budget.violations,
        "found": sum(row.found for row in rows),
        "as_released": [msgspec.to_builtins(row) for row in released],
        "results": [msgspec.to_builtins(row) for row in rows],
    }
    return Report(data, rendered_historic(done), status_of(done), interrupted=stop.happened)


def of_gate(release: Release, todo: Sequence[Planted], *, seed: int, seconds: float, junit: Path | None) -> Report:
    """Each bug and each refactoring beside the release as it is."""
    rows: list[Judged] = []
    with progress() as show, interruptible() as stop:
        for one in todo:
            inside = within(show, f"{len(rows)} of {len(todo)}: {one.name}")
            rows.append(beside.judged(one, seed=seed, seconds=seconds, progress=inside))
    write(junit, "planted", [case_of(row, release) for row in rows], interrupted=stop.happened)
    data = {
        "target": release.name,
        "seed": seed,
        "seconds": seconds,
        "found": sum(row.found for row in rows if row.fixed),
        "alarms": sum(row.found for row in rows if not row.fixed),
        "results": [msgspec.to_builtins(row) for row in rows],
    }
    return Report(data, rendered_historic(rows), status_of(rows), interrupted=stop.happened)


def status_of(rows: Sequence[Judged]) -> ExitStatus:
    """A bug that is not found, for no reason that is known, falls short, and so does a release that differs as it is.

    If a driver failed, nothing is known.
    """
    if any(row.found if not row.fixed else not row.found and not row.missed for row in rows):
        return ExitStatus.FELL_SHORT
    failed = any(not row.found and row.missed.startswith(FAILED) for row in rows)
    return ExitStatus.INCONCLUSIVE if failed else ExitStatus.AS_EXPECTED


def is_known_to_be_missed(row: Judged) -> bool:
    """Whether it is said why it is not found."""
    return bool(row.fixed) and not row.found and bool(row.missed) and not row.missed.startswith(FAILED)


def case_of(row: Judged, release: Release) -> Case:
    """One historic bug for a CI service."""
    return Case(
        f"planted.{release.name}.historic",
        f"{row.fixed} {row.name}".lstrip(),
        CaseStatus.SKIPPED if is_known_to_be_missed(row) else STATUSES[status_of([row])],
        "" if status_of([row]) is ExitStatus.AS_EXPECTED else outcome_of(row),
        seconds=row.seconds,
        properties={"steps": row.steps},
    )


def outcome_of(row: Judged) -> str:
    """In words."""
    if not row.fixed:
        return f"differs: {row.seen_in}" if row.found else row.missed or "agrees"
    return row.seen_in if row.found else f"not found: {row.missed}".removesuffix(": ")


def rendered_historic(rows: Sequence[Judged]) -> list[Any]:
    """The table, and how many were found."""
    shown = Table(box=None)
    for name in ("fixed", "bug", "steps", "seconds", "calls", "found by", "seen in"):
        shown.add_column(name, justify="right" if name in ("steps", "seconds", "calls") else "left")
    for row in rows:
        by = f"{row.component}, {row.how}" if row.found else ""
        calls = "" if row.calls is None else str(row.calls)
        shown.add_row(row.fixed, row.name, f"{row.steps:,}", f"{row.seconds:.1f}", calls, by, outcome_of(row))
    rows = [row for row in rows if row.fixed]
    found = sum(row.found for row in rows)
    total = f"{found} of {len(rows)} historic bugs were found"
    beyond = sum(row.missed.startswith(NEEDS) for row in rows)
    return [shown, "", f"{total}; {beyond} of the others need what the drivers lack" if beyond else total]


def listed(todo: Sequence[Planted]) -> Report:
    """The bugs, in words."""
    shown = Table(box=None)
    for name in ("bug", "in", "how it is broken"):
        shown.add_column(name)
    data = []
    for one in todo:
        assert one.bug is not None
        shown.add_row(one.name, one.bug.where, f"{one.bug.says} {one.bug.fixed}".rstrip())
        told = {"name": one.name, "in": one.bug.where, "says": one.bug.says, "era": one.era.variant}
        public = {"fixed": one.bug.fixed, "reported": one.bug.reported, "needs": one.bug.needs}
        data.append({**told, **(public if one.bug.fixed else {})})
    return Report({"bugs": data}, [shown])


def as_it_should(fate: Fate) -> bool:
    """A bug is found, unless it is said why nothing shows it; the release as it is agrees."""
    bug = fate.planted.bug
    return fate.found if bug is not None and not bug.unseen else fate.result.agrees


def status(fates: Sequence[Fate]) -> ExitStatus:
    """A bug that is not found falls short; a driver that failed is no verdict."""
    wrong = [fate for fate in fates if not as_it_should(fate)]
    if any(not fate.result.broke_down for fate in wrong):
        return ExitStatus.FELL_SHORT
    return ExitStatus.INCONCLUSIVE if wrong else ExitStatus.AS_EXPECTED


def verdict(fate: Fate) -> str:
    """In words: where it was seen, or that it was not."""
    if fate.result.broke_down:
        return f"the driver failed: {getattr(fate.result.finding, 'reason', '')}"
    if fate.planted.bug is None:
        return "agrees" if fate.result.agrees else f"differs: {fate.seen_in}"
    unseen = fate.planted.bug.unseen
    if fate.found:
        return f"{fate.seen_in}, though it was said that {unseen}" if unseen else fate.seen_in
    return f"not found: {unseen}" if unseen else "not found"


def record(fate: Fate) -> dict[str, Any]:
    """One bug for a machine."""
    bug, finding = fate.planted.bug, fate.result.finding
    return {
        "name": fate.planted.name,
        "component": fate.planted.component,
        "era": fate.planted.era.variant,
        "in": bug.where if bug is not None else "",
        "says": bug.says if bug is not None else "",
        "found": fate.found,
        "as_it_should": as_it_should(fate),
        "verdict": verdict(fate),
        "steps": fate.result.steps,
        "seconds": round(fate.seconds, 3),
        "length": fate.length,
        "finding": None if finding is None else finding_to_message(finding),
    }


def case(fate: Fate) -> Case:
    """One bug for a CI service."""
    right = as_it_should(fate)
    return Case(
        f"planted.{fate.planted.era.release.name}.{fate.planted.component}",
        fate.planted.name or "as released",
        STATUSES[status([fate])],
        "" if right else verdict(fate),
        seconds=fate.seconds,
        properties={"steps": fate.result.steps},
    )


def rendered(fates: Sequence[Fate]) -> list[Any]:
    """The table, and how many were found."""
    shown = Table(box=None)
    for name in ("bug", "steps", "seconds", "calls", "seen in"):
        shown.add_column(name, justify="right" if name in ("steps", "seconds", "calls") else "left")
    for fate in fates:
        name = fate.planted.name or f"{fate.planted.component} {fate.planted.era.variant} as released"
        length = "" if fate.length is None else str(fate.length)
        shown.add_row(name, f"{fate.result.steps:,}", f"{fate.seconds:.1f}", length, verdict(fate))
    bugs = [fate for fate in fates if fate.planted.bug is not None]
    return [shown, "", f"{sum(fate.found for fate in bugs)} of {len(bugs)} planted bugs were found"]
