"""`cacheproof catalogue`: every catalogued violation, derived anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cacheproof.catalogue.derivation import Derived, Status, derive, status_of, tasks_of
from cacheproof.catalogue.kept import keep
from cacheproof.catalogue.places import Place, of_entry, places, telling
from cacheproof.catalogue.register import Entry, entries, entry_named, sorting
from cacheproof.command.options import JobsOption
from cacheproof.foundation.console import Fitting, Report, Show, announce, progress
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.foundation.junit import STATUSES, Case, CaseStatus, JunitOption, file_to_write, write
from cacheproof.model.registry import components
from cacheproof.model.trace import Trace
from cacheproof.search.campaign import Run
from cacheproof.search.engines import AUTO, SHARING
from cacheproof.search.record import perform_and_keep
from cacheproof.search.tasks import Task, with_faster_engines
from cacheproof.search.worker import REFERENCE

PANEL = "Check and prove"


def command(
    numbers: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Entries to derive, such as C-MIR-10.", show_default="all"),
    ] = None,
    *,
    everywhere: Annotated[
        bool,
        typer.Option("--everywhere", help="Use every scope that shows an entry (default: one scope for each variant)."),
    ] = False,
    scope: Annotated[
        str | None, typer.Option(help="Use only the scopes with this name.", show_default="one scope for each variant")
    ] = None,
    keep_traces: Annotated[
        bool,
        typer.Option("--keep", help="Store the shortest traces in the package. The documentation pages show them."),
    ] = False,
    engine: Annotated[
        str,
        typer.Option(
            help="The explorer: reference or native (the specification, in Python or compiled), or auto (the faster of "
            "these for each variant)."
        ),
    ] = AUTO,
    jobs: JobsOption = 0,
    junit: JunitOption = None,
) -> Report:
    """Reproduce each catalogued violation, and check that the normative variant does not have it."""
    file_to_write(junit)
    known = places(components().values())
    chosen = _chosen(known, numbers or [])
    wanted = [place for number in chosen for place in of_entry(number, known)]
    if scope is not None:
        wanted = _in_scope(wanted, scope)
    elif not everywhere:
        wanted = telling(wanted)
    with progress() as show:
        tasks = _by_engine(tasks_of(wanted), engine, show)
        runs, interrupted = perform_and_keep(tasks, jobs, show)
    by_task = {replace(run.task, engine=REFERENCE): run for run in runs}
    derived = list(derive(wanted, by_task))
    if keep_traces:
        for path, changed in keep(_traces(derived, by_task), known).items():
            announce(f"{path}: {changed} traces changed")
    if scope is not None:
        chosen = [number for number in chosen if any(place.catalogue == number for place in wanted)]
    statuses = {number: _status(number, derived) for number in chosen}
    write(junit, "catalogue", [_case(*one, derived) for one in statuses.items()], interrupted=interrupted)
    return Report(
        {"entries": [row for number in chosen for row in _rows(number, statuses[number], derived)]},
        [Fitting(_table(statuses, derived), _narrow_table(statuses, derived), 130), _last_line(statuses, derived)],
        _worst(statuses.values()),
        interrupted=interrupted,
    )


def _by_engine(tasks: Sequence[Task], engine: str, show: Show) -> list[Task]:
    """Each run by the chosen engine: both find the same shortest traces."""
    if engine == AUTO:
        return with_faster_engines(tasks, show)[0]
    if engine not in SHARING:
        raise InputError(f"unknown engine '{engine}': there are {', '.join((*SHARING, AUTO))}")
    return [replace(task, engine=engine) for task in tasks]


def _worst(statuses: Any) -> ExitStatus:
    there = {status.exit_status for status in statuses}
    worst = (status for status in (ExitStatus.FELL_SHORT, ExitStatus.INCONCLUSIVE) if status in there)
    return next(worst, ExitStatus.AS_EXPECTED)


def _chosen(known: Sequence[Place], numbers: Sequence[str]) -> list[str]:
    """The numbers that were asked for, or all that are registered or shown."""
    there = sorted({entry.id for entry in entries()} | {place.catalogue for place in known}, key=sorting)
    for number in numbers:
        if number not in there:
            raise InputError(f"no scope shows '{number}', and it is not registered: there are {', '.join(there)}")
    return [number for number in there if not numbers or number in numbers]


def _in_scope(known: Sequence[Place], scope: str) -> list[Place]:
    found = [place for place in known if place.scope.name == scope]
    if not found:
        there = ", ".join(dict.fromkeys(place.scope.name for place in known)) or "none"
        raise InputError(f"no scope '{scope}' shows that: there are {there}")
    return found


def _status(number: str, derived: Sequence[Derived]) -> Status:
    return status_of(entry_named(number), [one for one in derived if one.place.catalogue == number])


def _traces(derived: Sequence[Derived], runs: Mapping[Task, Run]) -> list[tuple[Place, Trace]]:
    """What is to be kept: shortest traces of the expected length."""
    return [
        (one.place, violation.trace)
        for one in derived
        if one.status is Status.REPRODUCED
        for violation in runs[one.place.task].exploration.violations
        if violation.property == one.place.violation.property
    ]


def _case(number: str, status: Status, derived: Sequence[Derived]) -> Case:
    """One for each entry: an entry that the model does not have is skipped, with the reason."""
    entry = entry_named(number)
    ours = [one for one in derived if one.place.catalogue == number]
    became = CaseStatus.SKIPPED if status in (Status.OUTSIDE, Status.PENDING) else STATUSES[status.exit_status]
    text = "\n".join(f"{one.place}: {one.status.value}, normative: {_normative(one)}" for one in ours)
    message = f"{status.value}: {_reason(entry) if not ours else (entry.title if entry is not None else number)}"
    return Case(f"catalogue.{number.rpartition('-')[0]}", number, became, message, text)


def _rows(number: str, status: Status, derived: Sequence[Derived]) -> list[dict[str, Any]]:
    """One for each place where the entry was derived; one that says why not, where it was nowhere."""
    entry = entry_named(number)
    title = "" if entry is None else entry.title
    ours = [one for one in derived if one.place.catalogue == number]
    if not ours:
        nowhere = dict.fromkeys(("component", "variant", "scope", "property", "trace_length"))
        return [{"id": number, "title": title, "status": status.value, **nowhere, "reason": _reason(entry)}]
    return [{**_row(one), "title": title} for one in ours]


def _reason(entry: Entry | None) -> str:
    return entry.outside if entry is not None and entry.outside else "no scope shows it yet"


def _row(derived: Derived) -> dict[str, Any]:
    place = derived.place
    return {
        "id": place.catalogue,
        "status": derived.status.value,
        "component": place.scope.component,
        "variant": place.variant,
        "scope": place.scope.name,
        "property": place.violation.property,
        "trace_length": derived.trace_length,
        "expected_length": place.violation.length,
        "normative": derived.normative.value if derived.normative is not None else None,
        "reason": place.violation.about,
    }


def _table(statuses: Mapping[str, Status], derived: Sequence[Derived]) -> Table:
    where = (Column(name, no_wrap=True) for name in ("entry", "component", "variant", "scope", "property"))
    table = Table(*where, Column("trace", justify="right"), "status", "normative", Column("what happens", ratio=1))
    for one in derived:
        place = one.place
        names = (place.catalogue, place.scope.component, place.variant, place.scope.name, place.violation.property)
        table.add_row(*names, _length(one), one.status.value, _normative(one), place.violation.about)
    for number, status in statuses.items():
        if status in (Status.OUTSIDE, Status.PENDING):
            table.add_row(number, "", "", "", "", "", status.value, "", _reason(entry_named(number)))
    return table


def _narrow_table(statuses: Mapping[str, Status], derived: Sequence[Derived]) -> Table:
    """For a terminal of 80 columns: where it happens in one column, and no text."""
    entry, ended = (Column(name, no_wrap=True) for name in ("entry", "status"))
    table = Table(entry, Column("where", ratio=1), Column("trace", justify="right"), ended, "normative")
    for one in derived:
        place = one.place
        where = f"{place.scope.component} {place.variant} {place.scope.name}, {place.violation.property}"
        table.add_row(place.catalogue, where, _length(one), one.status.value, _normative(one))
    for number, status in statuses.items():
        if status in (Status.OUTSIDE, Status.PENDING):
            table.add_row(number, "", "", status.value, "")
    return table


def _length(one: Derived) -> str:
    return "" if one.trace_length is None else str(one.trace_length)


def _normative(one: Derived) -> str:
    return "not run" if one.normative is None else one.normative.value


def _last_line(statuses: Mapping[str, Status], derived: Sequence[Derived]) -> str:
    """How many of each status; those that fell short by name."""
    found = list(statuses.values())
    counted = [f"{found.count(status)} {status.value}" for status in Status if status in found]
    short = [n for n, status in statuses.items() if status.exit_status is not ExitStatus.AS_EXPECTED]
    named = f"; look at {', '.join(short)}" if short else ""
    return f"{len(statuses)} entries: {', '.join(counted)}; derived in {len(derived)} places{named}"
