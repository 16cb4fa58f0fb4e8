"""`cacheproof regions`: explore scopes for any numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cacheproof.command.options import JobsOption
from cacheproof.foundation.console import Report, announce, interruptible, progress
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.foundation.junit import STATUSES, Case, JunitOption, file_to_write, write
from cacheproof.foundation.workers import cores
from cacheproof.model.registry import component_named, components, scope_file
from cacheproof.model.scope import DEFAULT, NIGHTLY
from cacheproof.model.wording import count, explaining, settings
from cacheproof.present.show.plain import finding_as_text
from cacheproof.search.regions import campaign
from cacheproof.search.regions.campaign import RegionRun
from cachespec.kernel import NORMATIVE

PANEL = "Check and prove"

EVERY_SET = "all"


def command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="COMPONENT", help="Components to explore.", show_default="all")
    ] = None,
    *,
    numbers: Annotated[
        list[str] | None,
        typer.Option(
            "--any",
            metavar="FIELD",
            help="A field of the configuration that is any number, or one of its integers, as sizes[1]. prompts=1..4: "
            "any number from 1 to 4. May be repeated. Needs --scope.",
            show_default="those that the scope file names",
        ),
    ] = None,
    scope: Annotated[
        str | None, typer.Option(help="Explore only this scope. It may be in any set.", show_default="all of --set")
    ] = None,
    variant: Annotated[str, typer.Option(help="The variant, given by tag or title.")] = NORMATIVE,
    which: Annotated[str, typer.Option("--set", help="The set of scopes: default, nightly or all.")] = DEFAULT,
    limit_states: Annotated[int, typer.Option(min=1, help="Most states of one region.")] = 20_000,
    limit_regions: Annotated[
        int | None, typer.Option(min=1, help="Most regions of a scope.", show_default="none")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Time limit of each scope, in seconds.", show_default="none")
    ] = None,
    jobs: JobsOption = 0,
    accept: Annotated[
        bool, typer.Option("--accept", help="Write the counts of this run into the scope files.")
    ] = False,
    junit: JunitOption = None,
) -> Report:
    """Explore scopes for any numbers: every capacity, size or budget at once.

    Configurations that answer all comparisons alike form a region, and one of each is explored. A solver shows that the
    regions cover all configurations. Fails if a property breaks in a region, or if a count differs from the scope file.
    """
    file_to_write(junit)
    if which not in (DEFAULT, NIGHTLY, EVERY_SET):
        raise InputError(f"there is no set '{which}': there are {DEFAULT}, {NIGHTLY} and {EVERY_SET}")
    if numbers and (scope is None or len(names or []) != 1):
        raise InputError("--any needs one component and --scope: the configuration whose fields they are")
    if accept and (numbers or variant != NORMATIVE or limit_regions is not None or seconds is not None):
        raise InputError("--accept writes the counts of whole runs of the normative variant: leave out other options")
    chosen = [component_named(name) for name in dict.fromkeys(names)] if names else list(components().values())
    sets = (DEFAULT, NIGHTLY) if which == EVERY_SET else (which,)
    limits = campaign.Limits(limit_states, limit_regions, seconds)
    tasks = campaign.tasks_for(chosen, variant, scope, sets, numbers, limits)
    if not tasks:
        raise InputError("no scope file names numbers for that: say which with --scope and --any")
    runs: list[RegionRun] = []
    with interruptible() as stop, progress() as show:
        for run in campaign.perform(tasks, jobs or cores(), show):
            runs.append(run)
            show(f"{run.task}: {count(run.made.regions, 'region')} ({len(runs)} of {len(tasks)} runs)")
    runs.sort(key=lambda run: tasks.index(run.task))
    interrupted = stop.happened or any(run.made.extent is campaign.Extent.INTERRUPTED for run in runs)
    if accept:
        for name in dict.fromkeys(run.task.component for run in runs):
            changed = campaign.accept(
                scope_file(component_named(name)), [one for one in runs if one.task.component == name]
            )
            announce(f"{scope_file(component_named(name))}: {count(changed, 'table')} written: review the change")
    write(junit, "regions", map(_case, runs), interrupted=interrupted)
    return _report(runs, interrupted=interrupted)


def _case(run: RegionRun) -> Case:
    complaints = complaints_of(run)
    found = run.made
    return Case(
        f"regions.{found.component}",
        f"{found.variant} {found.scope}",
        STATUSES[run.status],
        "; ".join(complaints),
        "\n\n".join(finding_as_text(broken.violation) for broken in found.broken.values()),
        found.seconds,
        {"regions": found.regions, "states": found.states, "any": [one.bounds for one in found.unknowns]},
    )


def complaints_of(run: RegionRun) -> list[str]:
    """What is not as it should be, one line each."""
    lines = [] if run.made.extent.value == "covered" else [f"inconclusive: ended by {run.made.extent.value}"]
    for name, broken in run.made.broken.items():
        trace = broken.violation.trace
        first = settings(type(trace.config), trace.config._asdict())
        lines.append(
            f"{name} is broken in {broken.regions} of {count(run.made.regions, 'region')}, first with {first}, in "
            f"{count(len(trace.steps), 'operation')}. {name} says: {broken.violation.statement} ({explaining(name)})"
        )
    return [*lines, *run.drift]


def _report(runs: Sequence[RegionRun], *, interrupted: bool) -> Report:
    statuses = {run.status for run in runs}
    worst = (ExitStatus.FELL_SHORT, ExitStatus.INCONCLUSIVE)
    status = next((one for one in worst if one in statuses), ExitStatus.AS_EXPECTED)
    lines = [f"{run.task}: {line}" for run in runs for line in complaints_of(run)]
    shown = [finding_as_text(broken.violation) for run in runs for broken in list(run.made.broken.values())[:1]]
    good = sum(run.status is ExitStatus.AS_EXPECTED for run in runs)
    total = sum(run.made.regions for run in runs), sum(run.made.states for run in runs)
    last = f"{good} of {count(len(runs), 'run')} as expected: {total[0]:,} regions, {total[1]:,} states"
    data = {"runs": [run.record() for run in runs], "amiss": lines}
    return Report(data, [_table(runs), *shown, *lines, last], status, interrupted=interrupted)


def _table(runs: Sequence[RegionRun]) -> Table:
    headings = ("regions", "states", "confirmed", "broken", "not reached")
    counted = (Column(name, justify="right", no_wrap=True) for name in headings)
    table = Table("scope", Column("numbers", ratio=1), *counted)
    for run in runs:
        made = run.made
        name = f"{made.component} {made.variant} {made.scope}"
        counts = (len(made.confirmed), len(made.broken), len(made.unreached))
        table.add_row(name, in_words(run), f"{made.regions:,}", f"{made.states:,}", *map(str, counts))
    return table


def in_words(run: RegionRun) -> str:
    """For which numbers: those of one field with the same bounds are named together."""
    groups: dict[tuple[Any, int, int | None], list[str]] = {}
    for one in run.made.unknowns:
        groups.setdefault((one.place[0], one.low, one.high), []).append(str(one))
    texts = []
    for (field, low, high), members in groups.items():
        name = str(field) if len(members) > 1 else members[0]
        if high is not None:
            texts.append(f"{name} from {low} to {high}")
        else:
            texts.append(f"any {name}" + (f" from {low}" if low else ""))
    depth = "" if run.made.depth is None else f" (to depth {run.made.depth})"
    return ", ".join(texts) + depth
