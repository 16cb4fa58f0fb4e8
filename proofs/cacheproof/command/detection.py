"""`cacheproof detection`: which evidence detects which mutant."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cacheproof.command.options import JobsOption, SeedOption
from cacheproof.detection import kept
from cacheproof.detection.campaign import SECONDS, Key, perform
from cacheproof.detection.choice import FOR_EACH_TRANSITION, SEED, Drawn, drawn
from cacheproof.detection.evidence import NOTHING, Answer, Evidence
from cacheproof.detection.table import Line, detections, gone, lines_of, totals, weakened
from cacheproof.foundation.console import Report, announce, progress
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.foundation.junit import Case, CaseStatus, JunitOption, file_to_write, write
from cacheproof.foundation.workers import cores
from cacheproof.model.registry import component_named, components
from cacheproof.mutants import ledger

PANEL = "Maintaining the project"

MARKS = {Answer.DETECTED: "yes", Answer.NOT_DETECTED: "no", Answer.OPEN: "?", Answer.NONE: ""}
NO_DIFFERENCE = "no difference"
"""What exploration says of a mutant that is the original in every default scope."""


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMPONENT", help="Components to mutate.", show_default="all; with --check those kept"),
    ] = None,
    *,
    each: Annotated[
        int, typer.Option(min=1, help="Number of mutants to draw for each transition.")
    ] = FOR_EACH_TRANSITION,
    seed: SeedOption = SEED,
    evidence: Annotated[
        list[Evidence] | None,
        typer.Option(help="Ask only this kind of evidence. May be repeated.", show_default="all kinds"),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="Processor time limit for each answer, in seconds.")
    ] = SECONDS,
    jobs: JobsOption = 0,
    anew: Annotated[bool, typer.Option("--anew", help="Ignore the stored answers of earlier runs.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the table of each component for the page, and for --check.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Ask again what is detected in the kept table. --each and --seed are not used."),
    ] = False,
    show_all: Annotated[bool, typer.Option("--list", help="List the mutants and run none.")] = False,
    junit: JunitOption = None,
) -> Report:
    """Ask each kind of evidence alone which mutants it detects: exploration, proofs, contracts, fuzzing, vectors.

    Three mutants are drawn for each normative transition. Each answer has a time limit; what reaches it is not decided.
    Fails if all evidence has decided and none detects a mutant that differs from the original and is not a listed
    survivor. With --check it asks only about what is detected in the kept table, and fails if that is not detected now.
    """
    file_to_write(junit)
    kinds = tuple(dict.fromkeys(evidence or Evidence))
    if keep and (check or len(kinds) < len(Evidence)):
        raise InputError("--keep keeps the answers of all evidence: leave out --evidence and --check")
    chosen = [component_named(name).name for name in dict.fromkeys(names or (kept.names() if check else components()))]
    before = {name: kept.read(name) for name in chosen} if check else {}
    earlier = [line for run in before.values() for line in run.lines()]
    only = detections(earlier) if check else None
    all_drawn = [
        one
        for name in chosen
        for one in drawn(component_named(name), *((before[name].each, before[name].seed) if check else (each, seed)))
    ]
    every = [one for one in all_drawn if only is None or is_among(only, one, kinds)]
    if show_all:
        return listed(every)
    if not check:
        announce(f"seed {seed}")
    with progress() as show:
        answers = perform(every, kinds, seconds, jobs or cores(), show, anew=anew, only=only)
    lines = lines_of(every, answers)
    missing = undetected(lines) if len(kinds) == len(Evidence) and not check else []
    names_now = {one.mutant.name for one in all_drawn}
    lost = [*gone(earlier, names_now), *weakened(earlier, lines)] if not answers.interrupted else []
    if keep and not answers.interrupted:
        for name in chosen:
            own = [line for line in lines if line.component == name]
            announce(f"kept: {kept.write(name, own, each=each, seed=seed, seconds=seconds)}")
    write(junit, "detection", [_case(line, missing, lost) for line in lines], interrupted=answers.interrupted)
    return report(lines, len(every), missing, lost, interrupted=answers.interrupted)


def is_among(questions: AbstractSet[Key], one: Drawn, kinds: Sequence[Evidence]) -> bool:
    """Whether some of these kinds of evidence is to be asked about this mutant."""
    return any((one.mutant.name, kind) in questions for kind in kinds)


def undetected(lines: Sequence[Line]) -> list[str]:
    """Mutants that nothing detects although they differ from the original, but for listed survivors. One line each."""
    known = ledger.read()
    return [
        f"{line.mutant}: {line.change}: no evidence detects it"
        for line in lines
        if line.undetected and line.mutant not in known and not is_the_same(line)
    ]


def is_the_same(line: Line) -> bool:
    """Whether exploration finds no difference from the original in any default scope."""
    return line.cells.get(Evidence.EXPLORED, NOTHING).by.startswith(NO_DIFFERENCE)


def _case(line: Line, missing: Sequence[str], lost: Sequence[str]) -> Case:
    amiss = [text for text in (*missing, *lost) if text.startswith(f"{line.mutant}:")]
    told = {kind.value: cell.answer.value for kind, cell in line.cells.items()}
    status = CaseStatus.FAILED if amiss else CaseStatus.PASSED
    seconds = sum(cell.seconds for cell in line.cells.values())
    name = line.mutant.partition("/")[2]
    return Case(f"detection.{line.component}", name, status, "; ".join(amiss) or line.change, "", seconds, told)


def status_of(
    lines: Sequence[Line], asked: int, missing: Sequence[str], lost: Sequence[str], *, interrupted: bool
) -> ExitStatus:
    """A mutant that nothing detects falls short. While an answer is open, there is no verdict."""
    decided = [line for line in lost if not line.endswith(Answer.OPEN.value)]
    if missing or decided:
        return ExitStatus.FELL_SHORT
    unknown = any(not line.detected and line.by(Answer.OPEN) for line in lines)
    if interrupted or len(lines) < asked or lost or unknown:
        return ExitStatus.INCONCLUSIVE
    return ExitStatus.AS_EXPECTED


def report(
    lines: Sequence[Line], asked: int, missing: Sequence[str], lost: Sequence[str], *, interrupted: bool
) -> Report:
    """Both tables, and everything that is not as it should be."""
    data = {
        "mutants": asked,
        "undetected": list(missing),
        "weakened": list(lost),
        "evidence": [
            {
                "evidence": one.evidence.value,
                "asked": one.asked,
                "detected": one.detected,
                "alone": one.alone,
                "not_detected": one.not_detected,
                "open": one.open,
                "seconds": round(one.seconds, 1),
            }
            for one in totals(lines)
        ],
        "lines": [_plain(line) for line in lines],
    }
    status = status_of(lines, asked, missing, lost, interrupted=interrupted)
    last = (
        f"{len(lines)} of {asked} mutants have all answers; {sum(bool(line.detected) for line in lines)} are detected"
    )
    return Report(data, [_marks(lines), _totals(lines), *missing, *lost, last], status, interrupted=interrupted)


def listed(chosen: Sequence[Drawn]) -> Report:
    """The mutants and what each changes, by transition."""
    data = {
        "mutants": [
            {"name": one.mutant.name, "operation": one.operation, "change": one.mutant.change} for one in chosen
        ]
    }
    shown = (f"{one.operation}: {one.mutant.name}: {one.mutant.change}" for one in chosen)
    return Report(data, [*shown, f"{len(chosen)} mutants"])


def _plain(line: Line) -> dict[str, Any]:
    cells = {
        kind.value: {"answer": cell.answer.value, "by": cell.by, "seconds": cell.seconds}
        for kind, cell in line.cells.items()
    }
    return {"mutant": line.mutant, "operation": line.operation, "change": line.change, "answers": cells}


def _marks(lines: Sequence[Line]) -> Table:
    """One row for each mutant."""
    table = Table(Column("mutant", ratio=1), *(Column(kind.value, justify="center") for kind in Evidence))
    for line in lines:
        table.add_row(line.mutant, *(MARKS[line.cells.get(kind, NOTHING).answer] for kind in Evidence))
    return table


def _totals(lines: Sequence[Line]) -> Table:
    headings = ("asked", "detected", "alone", "not detected", "not decided", "seconds")
    table = Table("evidence", *(Column(name, justify="right") for name in headings))
    for one in totals(lines):
        counts = (one.asked, one.detected, one.alone, one.not_detected, one.open)
        table.add_row(one.evidence.value, *map(str, counts), f"{one.seconds:.1f}")
    return table
