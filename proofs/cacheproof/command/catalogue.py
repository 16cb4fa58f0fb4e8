"""`cacheproof catalogue`: every catalogued violation, derived anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table

from cacheproof.command.console import Fitting, Report, progress
from cacheproof.errors import ExitStatus, InputError
from cacheproof.explore.catalogue import Derived, Entry, derive, entries, tasks_of
from cacheproof.explore.record import perform_and_keep
from cacheproof.registry import components


def command(
    numbers: Annotated[list[str] | None, typer.Argument(metavar="[ID]…", help="All entries without one.")] = None,
    *,
    nightly: Annotated[bool, typer.Option("--nightly", help="Also in the scopes of the nightly set.")] = False,
    jobs: Annotated[int, typer.Option(min=0, help="Worker processes; 0 for as many as there are cores.")] = 0,
) -> Report:
    """Derive every catalogued violation anew, and show that the normative variant does not do the same."""
    wanted = _chosen(entries(components().values(), nightly=nightly), numbers or [])
    with progress() as show:
        runs, interrupted = perform_and_keep(tasks_of(wanted), jobs, show)
    derived = list(derive(wanted, {run.task: run for run in runs}))
    statuses = [one.exit_status for one in derived]
    worst = next((status for status in (ExitStatus.FELL_SHORT, ExitStatus.INCONCLUSIVE) if status in statuses), None)
    return Report(
        {"entries": [_row(one) for one in derived]},
        [Fitting(_table(derived), _narrow_table(derived), 130), _last_line(derived)],
        worst or ExitStatus.AS_EXPECTED,
        interrupted=interrupted,
    )


def _chosen(known: Sequence[Entry], numbers: Sequence[str]) -> list[Entry]:
    there = list(dict.fromkeys(entry.catalogue for entry in known))
    for number in numbers:
        if number not in there:
            raise InputError(f"no scope shows '{number}': there are {', '.join(there)}")
    return [entry for entry in known if not numbers or entry.catalogue in numbers]


def _row(derived: Derived) -> dict[str, Any]:
    entry = derived.entry
    return {
        "id": entry.catalogue,
        "status": derived.status.value,
        "component": entry.scope.component,
        "variant": entry.variant,
        "scope": entry.scope.name,
        "property": entry.violation.property,
        "trace_length": derived.trace_length,
        "expected_length": entry.violation.length,
        "normative": derived.normative.value if derived.normative is not None else None,
        "reason": entry.violation.about,
    }


def _table(derived: Sequence[Derived]) -> Table:
    table = Table()
    for heading in ("entry", "component", "variant", "scope", "property"):
        table.add_column(heading, no_wrap=True)
    table.add_column("trace", justify="right")
    table.add_column("status")
    table.add_column("normative")
    table.add_column("what happens", ratio=1)
    for one in derived:
        entry = one.entry
        place = (entry.catalogue, entry.scope.component, entry.variant, entry.scope.name, entry.violation.property)
        length = "" if one.trace_length is None else str(one.trace_length)
        beside = "not run" if one.normative is None else one.normative.value
        table.add_row(*place, length, one.status.value, beside, entry.violation.about)
    return table


def _narrow_table(derived: Sequence[Derived]) -> Table:
    """For a terminal of 80 columns: where it happens in one column, and no text."""
    table = Table()
    table.add_column("entry", no_wrap=True)
    table.add_column("where", ratio=1)
    table.add_column("trace", justify="right")
    table.add_column("status", no_wrap=True)
    table.add_column("normative")
    for one in derived:
        entry = one.entry
        where = f"{entry.scope.component} {entry.variant} {entry.scope.name}, {entry.violation.property}"
        length = "" if one.trace_length is None else str(one.trace_length)
        beside = "not run" if one.normative is None else one.normative.value
        table.add_row(entry.catalogue, where, length, one.status.value, beside)
    return table


def _last_line(derived: Sequence[Derived]) -> str:
    numbers = {one.entry.catalogue for one in derived}
    good = numbers - {one.entry.catalogue for one in derived if one.exit_status is not ExitStatus.AS_EXPECTED}
    return f"{len(good)} of {len(numbers)} entries reproduced, in {len(derived)} places"
