"""`cacheproof mutants`: small changes of the normative transitions, and what notices them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cacheproof.command.options import JobsOption, SeedOption
from cacheproof.foundation.console import Report, announce, progress
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.foundation.junit import Case, CaseStatus, JunitOption, file_to_write, write
from cacheproof.foundation.workers import cores
from cacheproof.model.registry import component_named, components
from cacheproof.mutants import ledger
from cacheproof.mutants.campaign import AUTO, engine_for, perform
from cacheproof.mutants.generate import Mutant, mutants_of
from cacheproof.mutants.judge import KILLED, LIVING, Fate, Limits, MutantResult, scopes_for

PANEL = "Maintaining the project"

WANTED = 0.95
"""More than this part of the living mutants has to be killed."""
FATES = {
    Fate.SURVIVED: CaseStatus.FAILED,
    Fate.OPEN: CaseStatus.ERROR,
    Fate.RAISED: CaseStatus.SKIPPED,
    Fate.EQUIVALENT: CaseStatus.SKIPPED,
}
"""For a CI service; any other mutant was noticed, and has passed."""
SEED = 1


def command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="COMPONENT", help="Components to mutate.", show_default="all")
    ] = None,
    *,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Run only mutants with this name; * stands for any text. May be repeated.", show_default="all"
        ),
    ] = None,
    first: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE",
            help="Explore this scope first; * stands for any text. It saves time. May be repeated.",
            show_default="the scopes with the fewest states",
        ),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Number of mutants to draw for each component.", show_default="all")
    ] = None,
    seed: SeedOption = SEED,
    engine: Annotated[
        str,
        typer.Option(
            help="The explorer: reference (the specification in Python), native (compiled), or auto (the faster one). "
            "The results are the same."
        ),
    ] = AUTO,
    jobs: JobsOption = 0,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="Processor time limit for each mutant, in seconds.")
    ] = Limits().seconds,
    growth: Annotated[
        int, typer.Option(min=1, help="Limit on the states of a mutant, as a multiple of the original's.")
    ] = (Limits().growth),
    survivors: Annotated[Path, typer.Option(help="The ledger of mutants that may survive.")] = ledger.LEDGER,
    anew: Annotated[bool, typer.Option("--anew", help="Ignore the stored results of earlier runs.")] = False,
    show_all: Annotated[bool, typer.Option("--list", help="List the mutants and run none.")] = False,
    junit: JunitOption = None,
) -> Report:
    """Make small changes to the normative transitions, and count how many the properties detect."""
    file_to_write(junit)
    chosen = [component_named(name).name for name in dict.fromkeys(names or components())]
    known = ledger.read(survivors)
    every = [mutant for name in chosen for mutant in mutants_of(component_named(name))]
    mutants = selected(every, only, sample, seed)
    if show_all:
        return listed(mutants)
    if sample is not None:
        announce(f"seed {seed}")
    limits = Limits(seconds, growth)
    engine = engine_for(engine, mutants)
    with progress() as show:
        results = perform(
            mutants, limits, jobs or cores(), show, anew=anew, first=checked_first(chosen, first), engine=engine
        )
    complaints = [*ledger.wrong(known, every, results, chosen), *unlisted(known, results)]
    found = [_case(one, known.get(one.name)) for one in results]
    found += [
        Case("mutants.ledger", line.partition(":")[0], CaseStatus.FAILED, line)
        for line in ledger.wrong(known, every, results, chosen)
    ]
    write(junit, "mutants", [*found, *_too_few(results)], interrupted=len(results) < len(mutants))
    return report(chosen, len(mutants), results, complaints, known)


def _case(one: MutantResult, known: ledger.Survivor | None) -> Case:
    """A mutant for a CI service; one that need not be noticed is skipped, with the reason."""
    status = FATES.get(one.fate, CaseStatus.PASSED)
    message = f"{one.change}: {one.fate.value} {one.by}".rstrip()
    if known is not None and one.fate in (Fate.SURVIVED, Fate.OPEN):
        status, message = CaseStatus.SKIPPED, known.reason
    told = {"change": one.change, "fate": one.fate.value, "by": one.by, "scope": one.scope}
    component, _, name = one.name.partition("/")
    return Case(f"mutants.{component}", name, status, message, seconds=one.seconds, properties=told)


def _too_few(results: Sequence[MutantResult]) -> list[Case]:
    ratio = ratio_of(results)
    if ratio is None or ratio > WANTED:
        return []
    text = f"{100 * ratio:.1f} % of the living mutants were noticed: more than {100 * WANTED:g} % have to be"
    return [Case("mutants", "most are noticed", CaseStatus.FAILED, text)]


def selected(every: Sequence[Mutant], only: list[str] | None, sample: int | None, seed: int) -> list[Mutant]:
    """Those that were named, or a sample of them for each component; in the order in which they are made."""
    for pattern in only or ():
        if not any(fnmatchcase(mutant.name, pattern) for mutant in every):
            raise InputError(f"there is no mutant '{pattern}': see cacheproof mutants --list")
    if only:
        every = [mutant for mutant in every if any(fnmatchcase(mutant.name, pattern) for pattern in only)]
    if sample is None:
        return list(every)
    drawn: set[str] = set()
    for name in dict.fromkeys(mutant.component for mutant in every):
        own = [mutant.name for mutant in every if mutant.component == name]
        drawn.update(random.Random(f"{seed}/{name}").sample(own, min(sample, len(own))))  # noqa: S311  # not a secret
    return [mutant for mutant in every if mutant.name in drawn]


def checked_first(chosen: Sequence[str], first: list[str] | None) -> tuple[str, ...]:
    """Patterns of scopes to explore first. Raises `InputError` for one that no chosen component has."""
    there = [scope.name for name in chosen for scope in scopes_for(component_named(name))]
    for pattern in first or ():
        if not any(fnmatchcase(name, pattern) for name in there):
            raise InputError(f"there is no default scope '{pattern}': there are {', '.join(there)}")
    return tuple(first or ())


def unlisted(known: dict[str, ledger.Survivor], results: Sequence[MutantResult]) -> list[str]:
    """Survivors without a reason; those that a limit left open."""
    return [
        f"{one.name}: {one.change}: {one.fate.value} {one.by}".rstrip()
        for one in results
        if one.fate in (Fate.SURVIVED, Fate.OPEN) and one.name not in known
    ]


def ratio_of(results: Sequence[MutantResult]) -> float | None:
    """Which part of the living mutants was killed; None where there is none."""
    living = [one for one in results if one.fate in LIVING]
    return sum(one.fate in KILLED for one in living) / len(living) if living else None


def status_of(asked: int, results: Sequence[MutantResult], complaints: Sequence[str]) -> ExitStatus:
    """Interrupted or left open is no answer; a survivor without a reason, or too many of them, falls short."""
    ratio = ratio_of(results)
    left_open = any(one.fate is Fate.OPEN for one in results)
    if len(results) < asked:
        return ExitStatus.INCONCLUSIVE
    if complaints or (ratio is not None and ratio <= WANTED):
        only_open = left_open and all(": open " in line for line in complaints) and (ratio is None or ratio > WANTED)
        return ExitStatus.INCONCLUSIVE if only_open else ExitStatus.FELL_SHORT
    return ExitStatus.AS_EXPECTED


def report(
    chosen: Sequence[str],
    asked: int,
    results: Sequence[MutantResult],
    complaints: Sequence[str],
    known: dict[str, ledger.Survivor],
) -> Report:
    """Counts by component, what killed how many, and everything that is not as it should be."""
    data = {
        "mutants": asked,
        "ratio": ratio_of(results),
        "components": [{"component": name, **counts(_of(results, name))} for name in chosen if _of(results, name)],
        "complaints": list(complaints),
        "results": [{**_plain(one), "reason": known[one.name].reason if one.name in known else ""} for one in results],
    }
    left = [f"{one.name}: explored by the {one.engine} engine: {one.why}" for one in results if one.why]
    rendered: list[Any] = [_table(chosen, results), _killers(results), *left, *complaints, _summary(asked, results)]
    interrupted = len(results) < asked
    return Report(data, rendered, status_of(asked, results, complaints), interrupted=interrupted)


def counts(results: Sequence[MutantResult]) -> dict[str, Any]:
    """How many mutants had each fate, and the ratio."""
    found = Counter(one.fate for one in results)
    return {"mutants": len(results), **{fate.value: found[fate] for fate in Fate}, "ratio": ratio_of(results)}


def listed(mutants: Sequence[Mutant]) -> Report:
    """The names of the mutants and what each changes."""
    data = {"mutants": [{"name": one.name, "change": one.change} for one in mutants]}
    return Report(data, [*(f"{one.name}: {one.change}" for one in mutants), f"{len(mutants)} mutants"])


def _of(results: Sequence[MutantResult], component: str) -> list[MutantResult]:
    return [one for one in results if one.name.partition("/")[0] == component]


def _plain(result: MutantResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "change": result.change,
        "fate": result.fate.value,
        "by": result.by,
        "scope": result.scope,
        "seconds": result.seconds,
        "engine": result.engine,
        "why": result.why,
    }


def _table(chosen: Sequence[str], results: Sequence[MutantResult]) -> Table:
    numbers = (
        Column(name, justify="right") for name in ("mutants", *(fate.value for fate in Fate), "killed of living")
    )
    table = Table(Column("component", no_wrap=True), *numbers)
    rows = [(name, _of(results, name)) for name in chosen]
    for name, own in [*((name, own) for name, own in rows if own), ("all", list(results))]:
        found = counts(own)
        table.add_row(name, *(str(found[key]) for key in ("mutants", *(fate.value for fate in Fate))), _percent(own))
    return table


def _killers(results: Sequence[MutantResult]) -> str:
    found = Counter(one.by for one in results if one.fate is Fate.PROPERTY)
    most = ", ".join(f"{name} {number}" for name, number in sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))
    return f"by property: {most}" if most else "no property was broken"


def _percent(results: Sequence[MutantResult]) -> str:
    ratio = ratio_of(results)
    return "-" if ratio is None else f"{100 * ratio:.1f} %"


def _summary(asked: int, results: Sequence[MutantResult]) -> str:
    living = [one for one in results if one.fate in LIVING]
    killed = sum(one.fate in KILLED for one in living)
    return f"{len(results)} of {asked} mutants were run; {killed} of {len(living)} living ones were killed"
