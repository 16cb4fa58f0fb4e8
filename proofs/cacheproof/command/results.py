"""`cacheproof results run|attribute|reproduce|write`: the results book."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from cacheproof.command import conform
from cacheproof.command.conform import Explore
from cacheproof.foundation.console import Report, announce, interruptible, progress
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.present.book.results_writing import stale, wanted, write
from cacheproof.releases.results import consecutive
from cacheproof.releases.results.attributing import attribute
from cacheproof.releases.results.cases import of_finding, of_violation
from cacheproof.releases.results.checking import Checked, of_cases, of_scripts
from cacheproof.releases.results.findings.finding import findings
from cacheproof.releases.results.gathering import VLLM, record_of, reproduce
from cacheproof.releases.results.record import FINDINGS, FOLDER, RECORDS, Record, is_new, load, save
from cacheproof.releases.results.wording import NOT_KNOWN

PANEL = "Maintaining the project"

STEPS = 20_000
VIOLATIONS = conform.SEARCHED


class Action(Enum):
    """What is to be done."""

    RUN = "run"
    ATTRIBUTE = "attribute"
    REPRODUCE = "reproduce"
    WRITE = "write"


def command(
    action: Annotated[Action, typer.Argument(help="The action.", show_default=False)],
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="TARGET", help="Releases, such as vllm==0.33.0. Not for write.")
    ] = None,
    *,
    steps: Annotated[int, typer.Option(min=1, help="For run: number of calls for each era.")] = STEPS,
    seed: Annotated[int, typer.Option(min=0, help="For run: seed of the random calls.")] = conform.SEED,
    violations: Annotated[
        int,
        typer.Option(min=0, help="For run: number of calls that search for violations of each era. 0: no search."),
    ] = VIOLATIONS,
    install: Annotated[bool, typer.Option("--install", help="For run: install missing releases first.")] = False,
    in_order: Annotated[
        bool,
        typer.Option(
            "--consecutive",
            help="For run: compare each release with its eras, and with the release named before it. No search for "
            "violations. A release that has a record with the same budget is not run again.",
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Change nothing. Fail if a reproduction or a page is not as recorded."),
    ] = False,
) -> Report:
    """Record the results of released packages in docs/results, and write its pages. Needs a checkout.

    run compares each release with its eras, as conform does. It reproduces each violation and stores a record.

    attribute attributes the recorded violations to the catalogue again. It needs no release.

    reproduce reproduces the violations of the records and stores how they ended. With --check it compares instead, and
    also runs the scripts of the findings.

    write writes the pages of all records.
    """
    given = targets or []
    if in_order and action is not Action.RUN:
        raise InputError("--consecutive is for results run")
    if action is Action.WRITE:
        if given:
            raise InputError("results write takes no release: it writes what belongs to all records")
        return written(check=check)
    if not given:
        raise InputError(f"results {action.value} needs a release, as in vllm==0.33.0")
    if not FOLDER.is_dir():
        raise InputError(f"there is no {FOLDER.absolute()}: go to a checkout")
    if action in (Action.REPRODUCE, Action.ATTRIBUTE):
        records = [load(FOLDER / RECORDS / f"{target.replace('==', '-')}.json") for target in given]
        if action is Action.ATTRIBUTE:
            return attributed(records)
        return compared(records) if check else again(records)
    if check:
        raise InputError("results run has no --check: it makes a record, which is what the others are checked against")
    if in_order:
        return ran_in_order(given, steps=steps, seed=seed, install=install)
    return ran(given, steps=steps, seed=seed, violations=violations, install=install)


def ran(targets: list[str], *, steps: int, seed: int, violations: int, install: bool) -> Report:
    """A record of each release; what an interrupted run showed is not kept."""
    worst, kept, lines = ExitStatus.AS_EXPECTED, list[str](), list[str]()
    for target in targets:
        report = conform.command([target], steps=steps, seed=seed, violations=violations, install=install)
        if report.interrupted:
            lines.append(f"{target}: interrupted, and nothing is kept of it")
            return Report({"kept": kept}, lines, worst, interrupted=True)
        worst = max(worst, report.exit_status, key=_SEVERITY.index)
        with progress() as show:
            record = record_of(target, report.data, seed=seed, steps=steps, show=show)
        kept.append(str(save(record, FOLDER)))
        lines.append(f"{kept[-1]}: {said(record)}")
        announce(lines[-1])
    return Report({"kept": kept}, [*lines, "`cacheproof results write` makes the pages"], worst)


def ran_in_order(targets: list[str], *, steps: int, seed: int, install: bool) -> Report:
    """A record of each release beside its eras and beside the one before it; a difference is a result, no failure.

    What an interrupted run showed is not kept; the next run goes on behind what is.
    """
    wrong = [target for target in targets if not target.startswith(VLLM)]
    if wrong:
        raise InputError(f"{', '.join(wrong)}: --consecutive is for releases, as in vllm==0.33.0")
    kept, failed, lines = list[str](), list[str](), list[str]()
    for base, target in zip([None, *targets], targets, strict=False):
        known = consecutive.recorded(target)
        if known is None or not consecutive.is_of(known, base, seed=seed, steps=steps):
            known = _beside(target, base, steps=steps, seed=seed, install=install)
        if known is None:
            lines.append(f"{target}: interrupted, and nothing is kept of it")
            return Report({"kept": kept, "failures": failed}, lines, interrupted=True)
        kept.append(str(save(known, consecutive.FOLDER)))
        failed += [f"{target}: {one}" for one in consecutive.failures(known)]
        differ = sum(bool(one.where) for one in known.beside)
        lines.append(f"{kept[-1]}: {differ} of {len(known.beside)} components differ from {known.base or 'nothing'}")
        announce(lines[-1])
    status = ExitStatus.INCONCLUSIVE if failed else ExitStatus.AS_EXPECTED
    return Report({"kept": kept, "failures": failed}, [*lines, *(f"no answer: {one}" for one in failed)], status)


def _beside(target: str, base: str | None, *, steps: int, seed: int, install: bool) -> Record | None:
    """The record of one release; None if the run was interrupted."""
    eras = conform.command([target], steps=steps, seed=seed, violations=0, explore=Explore.NONE, install=install)
    pair = None
    if base is not None and not eras.interrupted:
        two = conform.Two(base, None, steps, seed, None, 1, None, None, install, changed_only=True)
        pair = conform.of_two([target], two, [])
    if eras.interrupted or (pair is not None and pair.interrupted):
        return None
    told = None if pair is None else pair.data
    return consecutive.consecutive_record(target, eras.data, told, seed=seed, steps=steps)


_SEVERITY = (ExitStatus.AS_EXPECTED, ExitStatus.INCONCLUSIVE, ExitStatus.FELL_SHORT, ExitStatus.WRONG_INPUT)


def said(record: Record) -> str:
    """A record in a line."""
    agreeing = sum(row.agrees for row in record.rows)
    shown = sum(bool(one.verdict) for one in record.violations)
    return (
        f"{agreeing} of {len(record.rows)} rows agree; {len(record.violations)} violations, {shown} reproduced, "
        f"{sum(is_new(one) for one in record.violations)} {NOT_KNOWN}"
    )


def attributed(records: list[Record]) -> Report:
    """The violations of records attributed to the catalogue as it is now; how many have which certainty."""
    lines, counts = [], {}
    for record in records:
        counts[record.target] = dict(sorted(attribute(record).items()))
        causes = ", ".join(f"{number} {certainty}" for certainty, number in counts[record.target].items())
        lines.append(f"{save(record, FOLDER)}: {causes or 'no violations'}")
    return Report({"attributed": counts}, [*lines, "`cacheproof results write` makes the pages"])


def again(records: list[Record]) -> Report:
    """The violations of records made again; how they end is kept."""
    lines = []
    with progress() as show:
        for record in records:
            reproduce(record.violations, show)
            lines.append(f"{save(record, FOLDER)}: {said(record)}")
    return Report({"records": [record.target for record in records]}, lines)


def compared(records: list[Record]) -> Report:
    """The violations of the records and the scripts of the findings; each has to end as is recorded."""
    checked: list[Checked] = []
    with progress() as show, interruptible() as stop:
        for record in records:
            target = record.target
            known = [finding for finding in findings() if target in finding.ends]
            cases = [*map(of_violation, record.violations), *(of_finding(finding, target) for finding in known)]
            checked.extend(of_cases(cases, show))
            show(f"{target}: scripts of findings")
            checked.extend(of_scripts(known, target, FINDINGS))
    wrong = [each for each in checked if not each.agrees]
    lines = [
        f"{each.name}: ended with {each.status}, {each.printed}; recorded: {each.wanted}, {each.recorded}"
        for each in wrong
    ]
    lines.append(f"{len(checked)} reproductions, {len(wrong)} ended otherwise than is recorded")
    if not checked and not stop.happened:
        return Report({"reproductions": []}, ["nothing is recorded of a violation"], ExitStatus.INCONCLUSIVE)
    status = ExitStatus.FELL_SHORT if wrong else ExitStatus.AS_EXPECTED
    return Report({"reproductions": checked}, lines, status, interrupted=stop.happened)


def written(*, check: bool) -> Report:
    """Pages as they belong to the records."""
    files = wanted()
    changed = stale(files)
    names = [str(path) for path in changed]
    if check:
        lines = [f"{name} is not current: run `cacheproof results write`" for name in names]
        status = ExitStatus.FELL_SHORT if changed else ExitStatus.AS_EXPECTED
        return Report(
            {"files": len(files), "stale": names}, [*lines, f"{len(files)} files, {len(names)} stale"], status
        )
    write(changed)
    lines = [f"written: {name}" for name in names]
    return Report({"files": len(files), "written": names}, [*lines, f"{len(files)} files, {len(names)} changed"])
