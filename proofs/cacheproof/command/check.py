"""`cacheproof check`: explore, and compare with what the scope files expect."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cacheproof.command.options import JobsOption
from cacheproof.foundation.cluster import OnOption
from cacheproof.foundation.console import Fitting, Report, announce, progress
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.foundation.junit import STATUSES, Case, CaseStatus, JunitOption, file_to_write, write
from cacheproof.foundation.workers import MOST_PROCESSES
from cacheproof.model.form import breaches_of
from cacheproof.model.registry import AnyComponent, component_named, components, is_added, scope_file
from cacheproof.model.scope import DEFAULT, LARGE, SETS
from cacheproof.model.trace import Violation
from cacheproof.model.wording import count, explaining
from cacheproof.present.show.formats import FORMATS
from cacheproof.present.show.plain import finding_as_text
from cacheproof.search.campaign import Run, judged_anew
from cacheproof.search.engines import AUTO, OF_SPECIFICATION, SHARING, engine_named
from cacheproof.search.record import perform_and_keep, summary_of
from cacheproof.search.result import Ending
from cacheproof.search.scope_edit import accept as accept_counts
from cacheproof.search.tasks import (
    MOST_IN_PYTHON,
    Task,
    is_beyond_python,
    is_for_compiled_code,
    run_name,
    tasks_for,
    with_faster_engines,
)
from cacheproof.search.verdict import Finding, Verdict, unwitnessed
from cacheproof.search.worker import NATIVE, REFERENCE
from cachespec.kernel import NORMATIVE

PANEL = "Check and prove"
EVERY_SET = "all"

TRIPLES = 200_000
"""Default of `--refine`: the least number of compared triples of state, operation and result."""


def command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="COMPONENT", help="Components to check.", show_default="all")
    ] = None,
    *,
    variant: Annotated[
        str | None, typer.Option(help="Check only this variant, given by tag or title.", show_default="all")
    ] = None,
    scope: Annotated[
        str | None, typer.Option(help="Check only this scope. It may be in any set.", show_default="all of --set")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="The explorer: reference or native (the specification, in Python or compiled), auto (the faster of "
            "these), cuda (compiled, on a CUDA device) or tensor (our implementation). The last two do not judge "
            "progress."
        ),
    ] = AUTO,
    which: Annotated[
        str,
        typer.Option(
            "--set",
            help="The set of scopes: default (with large, if the engine is auto or native), large, nightly or all.",
        ),
    ] = DEFAULT,
    jobs: JobsOption = 0,
    split: Annotated[
        int,
        typer.Option(
            min=0,
            max=MOST_PROCESSES,
            help="Number of processes, or threads of compiled code, that share one run. 0: --jobs for a single large "
            "run, otherwise 1. With --on, the number of workers. 0: one for each core of the cluster.",
        ),
    ] = 0,
    on: OnOption = "",
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder that keeps the progress of each run.", show_default="no checkpoint")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the progress in --checkpoint.")] = False,
    refine: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Least number of implementation steps to compare with the specification, over all runs.",
            show_default=f"{TRIPLES:,}",
        ),
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Write the verdicts and counts of this run into the scope files.")
    ] = False,
    to_the_end: Annotated[
        bool,
        typer.Option("--to-the-end", help="Continue a run that has far more states than expected (default: stop it)."),
    ] = False,
    first_violation: Annotated[
        bool,
        typer.Option(
            "--first-violation",
            help="If a run expects no violation, stop it at the first one (default: explore to the end).",
        ),
    ] = False,
    junit: JunitOption = None,
) -> Report:
    """Explore every state of each scope, and compare verdicts and counts with the scope file.

    Fails if a verdict, the length of a shortest trace or a golden count differs from the scope file.
    """
    file_to_write(junit)
    if which not in (*SETS, EVERY_SET):
        raise InputError(f"there is no set '{which}': there are {', '.join(SETS)} and {EVERY_SET}")
    fastest = engine == AUTO and not accept and checkpoint is None
    sets: tuple[str, ...] = SETS if which == EVERY_SET else (which,)
    if which == DEFAULT and (fastest or engine == NATIVE):
        sets = (DEFAULT, LARGE)
    of_specification = engine in (AUTO, *OF_SPECIFICATION)
    if engine == AUTO:
        engine = REFERENCE
    engine_named(engine)
    if engine not in SHARING and split > 1:
        raise InputError(f"--split is for the engines {REFERENCE} and {NATIVE}")
    if on and engine not in SHARING:
        raise InputError(f"--on is for the engines {REFERENCE} and {NATIVE}")
    if on and checkpoint is not None:
        raise InputError("--on has no checkpoints: leave out --checkpoint")
    if of_specification and refine is not None:
        raise InputError(f"--refine compares an implementation with what the {REFERENCE} engine explores: add --engine")
    if resume and checkpoint is None:
        raise InputError("--resume needs --checkpoint: the folder to go on from")
    if first_violation and accept:
        raise InputError("--accept needs the counts of whole runs: leave out --first-violation")
    chosen = [component_named(name) for name in dict.fromkeys(names)] if names else list(components().values())
    tasks = tasks_for(chosen, variant=variant, scope=scope, sets=sets, engine=engine)
    if not tasks:
        raise InputError("no scope is run for that: see `cacheproof list`")
    if fastest:
        with progress() as show:
            tasks, reasons = with_faster_engines(tasks, show)
        if reasons and scope is None and which == DEFAULT:
            tasks = [task for task in tasks if not is_for_compiled_code(task)]
            announce("the large scopes are left out: ask for them with --set large or --scope")
        for reason in reasons:
            announce(f"{reason}. The reference engine goes on")
    if scope is None:
        tasks = _within_reach(tasks)
    form = [line for component in chosen if is_added(component) for line in breaches_of(component)]
    for line in form:
        announce(f"warning: {line}: cacheproof prove cannot read this")
    with progress() as show:
        runs, interrupted = perform_and_keep(
            tasks,
            jobs,
            show,
            split=split,
            checkpoint=checkpoint,
            resume=resume,
            refine=TRIPLES if refine is None else refine,
            to_the_end=to_the_end or accept,
            first=first_violation,
            on=on,
            or_reference=fastest,
        )
    everything = variant in (None, NORMATIVE) and scope is None and which in (DEFAULT, EVERY_SET) and of_specification
    complete = (
        everything
        and not first_violation
        and all(run.exploration.ending.conclusive for run in runs)
        and not interrupted
    )
    missing = _unwitnessed(chosen, runs) if complete else []
    if accept:
        missing += _accept(runs)
        runs = [judged_anew(run) for run in runs]
    write(junit, "check", _cases(runs, missing), interrupted=interrupted)
    return _report(runs, missing, form, interrupted=interrupted)


def _unwitnessed(chosen: Sequence[AnyComponent], runs: Sequence[Run]) -> list[str]:
    """One line for each property that no scope shows to say anything."""
    return [
        f"{component.name}: {name} is never put to the test: no default scope reaches its witness"
        for component in chosen
        for name in unwitnessed(component, [run.exploration for run in runs if run.task.component == component.name])
    ]


def _within_reach(tasks: list[Task]) -> list[Task]:
    """The runs that take an engine in Python no hours. Raises InputError if there are none."""
    near = [task for task in tasks if not is_beyond_python(task)]
    if not near:
        raise InputError(f"scopes with more than {MOST_IN_PYTHON:,} states need --engine {NATIVE}, or --scope")
    if len(near) < len(tasks):
        left = len(tasks) - len(near)
        announce(f"{left} runs of more than {MOST_IN_PYTHON:,} states are left out: name one with --scope")
    return near


def _accept(runs: Sequence[Run]) -> list[str]:
    """Write what was found; what cannot be accepted is a line of its own."""
    for name in dict.fromkeys(run.task.component for run in runs):
        path = scope_file(component_named(name))
        ours = [(run.scope, run.exploration) for run in runs if run.task.component == name]
        announce(f"{path}: {accept_counts(path, ours)} of {len(ours)} expectations written: review the change")
    return [
        f"{run.task}: {violation.property} is violated by the normative variant, which cannot be accepted"
        for run in runs
        if run.task.variant == NORMATIVE
        for violation in run.exploration.violations
    ]


def _cases(runs: Sequence[Run], missing: Sequence[str]) -> list[Case]:
    """One case for each run, and one for each property that nothing puts to the test."""
    cases = []
    for run in runs:
        found, complaints = run.exploration, _complaints(run)
        parting = found.parting
        shown = _unexpected(run) if parting is None else [parting.difference]
        text = "\n\n".join(
            [*complaints, *map(finding_as_text, shown)] if parting is None else map(finding_as_text, shown)
        )
        cases.append(
            Case(
                f"check.{run.task.component}",
                f"{run.task.variant} {run.task.scope}",
                STATUSES[run.judgement.status],
                "; ".join(complaints) or "the implementation and the specification part",
                text,
                found.seconds,
                {"states": found.states, "transitions": found.transitions, "verdicts": _verdicts(run)},
            )
        )
    return [*cases, *(Case("check.witnesses", line.partition(" is ")[0], CaseStatus.FAILED, line) for line in missing)]


def _report(runs: Sequence[Run], missing: Sequence[str], form: Sequence[str], *, interrupted: bool) -> Report:
    amiss = [*missing, *(f"{run.task}: {line}" for run in runs for line in _complaints(run))]
    statuses = [run.judgement.status for run in runs]
    status = ExitStatus.AS_EXPECTED
    if missing or ExitStatus.FELL_SHORT in statuses:
        status = ExitStatus.FELL_SHORT
    elif ExitStatus.INCONCLUSIVE in statuses:
        status = ExitStatus.INCONCLUSIVE
    data: dict[str, Any] = {
        "runs": [summary_of(run) for run in runs],
        "amiss": amiss,
        "form": list(form),
        "triples": _triples(runs),
    }
    partings = [run.exploration.parting for run in runs if run.exploration.parting is not None]
    shown = [FORMATS["table"](parting.difference) for parting in partings]
    return Report(
        data,
        [Fitting(_table(runs), _narrow_table(runs), 120), *shown, *amiss, _last_line(runs)],
        status,
        interrupted=interrupted,
    )


def _complaints(run: Run) -> list[str]:
    """What is not as expected, one line each."""
    lines = [*run.judgement.drift, *run.judgement.amiss]
    if run.exploration.parting is not None:
        return lines
    if not run.exploration.ending.conclusive:
        return [f"inconclusive: ended by {run.exploration.ending.value}", *lines]
    return [*(_said_otherwise(run.task, verdict) for verdict in _other_verdicts(run)), *lines]


def _other_verdicts(run: Run) -> list[Verdict]:
    """The verdicts that the scope file does not expect."""
    left_open = Finding.OPEN if run.exploration.ending is Ending.FOUND else None
    return [
        verdict
        for verdict in run.judgement.verdicts
        if not verdict.as_expected and (verdict.found is not left_open or verdict.expected is not Finding.HOLDS)
    ]


def _unexpected(run: Run) -> list[Violation]:
    """The violations that the scope file does not expect, or not in this length."""
    names = {verdict.rule for verdict in _other_verdicts(run)}
    return [violation for violation in run.exploration.violations if violation.property in names]


def _said_otherwise(task: Task, verdict: Verdict) -> str:
    """What differs from the scope file; for a violation, what the property says and the commands that show it."""
    if verdict.found is verdict.expected:
        found, expected = count(verdict.trace_length or 0, "operation"), verdict.expected_length
        text = f"{verdict.rule}: the shortest counterexample has {found}; the scope file expects {expected}"
    else:
        text = f"{verdict.rule}: {verdict.found.value}; the scope file expects '{verdict.expected.value}'"
    if verdict.found is not Finding.VIOLATED:
        return text
    (rule,) = (rule for rule in component_named(task.component).properties() if rule.name == verdict.rule)
    trace = f"cacheproof show {run_name(task)} --property {rule.name}"
    return f"{text}. {rule.name} says: {rule.statement} ({explaining(rule.name)}; {trace})"


def _table(runs: Sequence[Run]) -> Table:
    names = (Column(name, no_wrap=True) for name in ("component", "variant", "scope"))
    counted = (Column(name, justify="right", no_wrap=True) for name in ("states", "transitions", "depth"))
    table = Table(*names, *counted, Column("verdicts", ratio=1), Column("as expected", no_wrap=True))
    for run in runs:
        found = run.exploration
        counts = (f"{found.states:,}", f"{found.transitions:,}", str(found.depth))
        task = (run.task.component, run.task.variant, run.task.scope)
        table.add_row(*task, *counts, _verdicts(run), ANSWERS[run.judgement.status])
    return table


def _narrow_table(runs: Sequence[Run]) -> Table:
    """For a terminal of 80 columns: the verdicts are what nobody can do without."""
    states = Column("states", justify="right", no_wrap=True)
    table = Table("run", states, Column("verdicts", ratio=1), "as expected")
    for run in runs:
        name = f"{run.task.component} {run.task.variant} {run.task.scope}"
        table.add_row(name, f"{run.exploration.states:,}", _verdicts(run), ANSWERS[run.judgement.status])
    return table


ANSWERS = {ExitStatus.AS_EXPECTED: "yes", ExitStatus.FELL_SHORT: "NO", ExitStatus.INCONCLUSIVE: "not known"}


def _verdicts(run: Run) -> str:
    """What was violated, each with the length of its trace and its catalogue number; and how many properties hold."""
    verdicts = run.judgement.verdicts
    broken = [
        f"{verdict.rule} violated in {verdict.trace_length}" + (f" ({verdict.catalogue})" if verdict.catalogue else "")
        for verdict in verdicts
        if verdict.found is Finding.VIOLATED
    ]
    holding = sum(verdict.found is Finding.HOLDS for verdict in verdicts)
    missed = [
        f"{verdict.rule} not violated"
        for verdict in verdicts
        if verdict.expected is Finding.VIOLATED and verdict.found is not Finding.VIOLATED
    ]
    until = f" to depth {run.exploration.depth}" if run.exploration.ending is Ending.DEPTH else ""
    return ", ".join([*broken, *missed, *([f"{holding} hold{until}"] if holding else [])])


def _last_line(runs: Sequence[Run]) -> str:
    states = sum(run.exploration.states for run in runs)
    good = sum(run.judgement.status is ExitStatus.AS_EXPECTED for run in runs)
    triples = _triples(runs)
    compared = "" if triples is None else f", {triples:,} steps of the implementation compared with the specification's"
    return f"{good} of {len(runs)} runs as expected, {states:,} states explored{compared}"


def _triples(runs: Sequence[Run]) -> int | None:
    """How many triples were compared; None where no implementation was explored."""
    compared = [run.exploration.triples for run in runs if run.exploration.triples is not None]
    return sum(compared) if compared else None
