"""`cacheproof consume`: vectors run on a target."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from cacheproof.command.options import AnswerOption
from cacheproof.foundation.console import Report, Show, progress
from cacheproof.foundation.errors import ExitStatus, InconclusiveError, InputError
from cacheproof.foundation.junit import Case, CaseStatus, JunitOption, file_to_write
from cacheproof.foundation.junit import write as write_junit
from cacheproof.foundation.limits import MEGABYTES, SECONDS, TooSlowError, memory, too_large, within
from cacheproof.foundation.partial import AllowPartialOption, worded
from cacheproof.lockstep.declaring import DeviationOption
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.shrink import shrunk
from cacheproof.model.declaration import declared_by
from cacheproof.model.finding import Difference, Finding, Subject
from cacheproof.model.finding_json import finding_to_message
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.store import name_of, save
from cacheproof.model.target import Target, TargetError
from cacheproof.present.show.formats import FORMATS, folder_to_write, write_files
from cacheproof.present.unseen import Unseen, unseen
from cacheproof.targets.child import SECONDS_TO_ANSWER
from cacheproof.targets.factory import FORMS, open_target
from cacheproof.vectors.consuming import CaseResult, Consumer, Consumption, Verdict, finding_of, worded_run
from cacheproof.vectors.files import found, read
from cacheproof.vectors.report import cases_of, checked_deviations, checked_skips, data_of, table_of
from cacheproof.vectors.vector import VectorSet

PANEL = "Your implementation"

SECONDS_TO_SHRINK = 20.0
OWN = "spec:"
"""How a target that is the specification itself is named."""


def command(
    vectors: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR|FILE|COMPONENT",
            help="Folders or files of vectors, or components whose released vectors are run.",
        ),
    ],
    *,
    target: Annotated[str, typer.Option(help=f"The implementation under test: {FORMS}.")],
    component: Annotated[
        str | None, typer.Option(help="Run only the vectors of this component.", show_default="all")
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FEATURE",
            help="Skip cases that need this feature, such as lru/operation/pin. May be repeated.",
            show_default="none",
        ),
    ] = None,
    deviation: DeviationOption = None,
    answer: AnswerOption = SECONDS_TO_ANSWER,
    write: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write the first failure to this folder, in every format.", show_default="no files"
        ),
    ] = None,
    allow_partial: AllowPartialOption = False,
    junit: JunitOption = None,
) -> Report:
    """Run test vectors on an implementation, and count passed and failed cases by feature.

    Each case begins in the initial state. The answers of declared deviations are expected: those that the target
    declares, and those of --deviation. Fails if a case fails, or if a declared deviation does not occur. If the target
    lacks what most cases need, there is no answer.
    """
    file_to_write(junit)
    sets = one_component(all_of(found(vectors)), component)
    of = sets[0][1]
    skipped = checked_skips(of.component, (one for _, one in sets), skip or [])
    expected = checked_deviations((one for _, one in sets), deviation or [])
    if write is not None:
        folder_to_write(write)
    opened = open_target(target, of.component, variant_named(of.component, of.variant), answer)
    try:
        declaration = declared_by(of.component, opened)
        ours = target.startswith(OWN)  # its answers cost what they cost here: nobody else limits them
        consumer = Consumer(opened, target, declaration, skipped, expected, SECONDS if ours else None)
        with progress() as show:
            with memory(MEGABYTES if ours else None):
                whole = consumer.consume(sets, show)
            first = next((one for one in whole.results if one.verdict in (Verdict.FAILED, Verdict.BROKE_DOWN)), None)
            lacking = declaration.missing(of.component)
            finding = None if first is None else shown_of(first, opened, target, lacking, show)
    except TargetError as error:
        write_junit(junit, "consume", [Case("consume", target, CaseStatus.ERROR, str(error))])
        raise
    finally:
        opened.close()
    partial = "" if allow_partial else whole.partial
    told_ci = {"target": target, "implementation": whole.declaration.implementation, "calls": whole.calls}
    write_junit(junit, "consume", cases_of(whole, partial), interrupted=whole.interrupted, properties=told_ci)
    files = [] if write is None or finding is None else write_files(finding, write)
    name = name_of(of.component.name, target)
    told = None if finding is None else finding_to_message(finding)
    data = {
        "run": name,
        "component": of.component.name,
        "target": target,
        "files": [path.name for path, _ in sets],
        **data_of(whole),
        "unseen": unseen(of.component, variant_named(of.component, of.variant), whole.seen).data,
        "partial": partial,
        "difference": told if isinstance(finding, Difference) else None,
        "breakdown": told if told is not None and not isinstance(finding, Difference) else None,
        "written": files,
    }
    save("consume", name, data | {"written": [str(path) for path in files], "interrupted": whole.interrupted})
    ended = status(whole, partial)
    told_all = [*rendered(whole, first, finding, target, name), *([worded(partial)] if partial else [])]
    return Report(data, told_all, ended, interrupted=whole.interrupted)


def all_of(paths: list[Path]) -> list[tuple[Path, VectorSet]]:
    """Each file, read; a configuration in it may ask for more than there is."""
    sets = []
    for path in paths:
        try:
            with memory(MEGABYTES), within(SECONDS):
                sets.append((path, read(path)))
        except TooSlowError as error:
            raise InconclusiveError(f"{path}: {error}") from None
        except MemoryError:
            raise InconclusiveError(f"{path}: {too_large(MEGABYTES)}") from None
    return sets


def one_component(sets: list[tuple[Path, VectorSet]], name: str | None) -> list[tuple[Path, VectorSet]]:
    """The sets of one component and one variant: of the one that is named, or else the only one there is."""
    if name is not None:
        chosen = component_named(name).name
        sets = [(path, one) for path, one in sets if one.component.name == chosen]
        if not sets:
            raise InputError(f"none of these vectors are of {name}")
    there = sorted({one.component.name for _, one in sets})
    if len(there) > 1:
        raise InputError(f"these vectors are of {', '.join(there)}: choose one with --component")
    variants = sorted({one.variant for _, one in sets})
    if len(variants) > 1:
        raise InputError(f"these vectors are of {', '.join(variants)}: consume those of one variant at a time")
    return sets


def shown_of(result: CaseResult, target: Target, name: str, lacking: frozenset[str], show: Show) -> Finding | None:
    """The first finding, shrunk where it is a difference that comes again; None for what was to be refused.

    Operations that the target lacks are not tried.
    """
    try:
        with memory(MEGABYTES), within(SECONDS):
            finding = finding_of(result, name)
    except (TooSlowError, MemoryError):  # the target was asked for more than the specification can be
        return None
    if not isinstance(finding, Difference):
        return finding
    vectors = result.vectors
    variant = variant_named(vectors.component, result.variant or vectors.variant)
    pair = Pair(Subject(vectors.component, variant, vectors.config), target, name, lacking)
    smaller, came_again = shrunk(pair, finding, SECONDS_TO_SHRINK, show)
    return smaller if came_again else finding


def status(whole: Consumption, partial: str) -> ExitStatus:
    """A failure is worse than a driver that failed; a run that tested too little is no answer."""
    if whole.of(Verdict.FAILED) or whole.vanished:
        return ExitStatus.FELL_SHORT
    ran = whole.of(Verdict.PASSED) or whole.of(Verdict.DEVIATED)
    unanswered = partial or whole.of(Verdict.BROKE_DOWN) or not ran
    return ExitStatus.INCONCLUSIVE if unanswered else ExitStatus.AS_EXPECTED


def rendered(
    whole: Consumption, first: CaseResult | None, finding: Finding | None, target: str, name: str
) -> list[object]:
    """The table by feature, what was not looked at, and the first failure."""
    parts: list[object] = [table_of(whole), *notes(whole, target)]
    if first is None:
        return parts
    calls = ", ".join(worded_run(first))
    parts += ["", f"the first that did not pass: {first.name}, step {first.step}, {first.path.name}", first.reason]
    if finding is None:
        return [*parts, f"after {calls}" if calls else "at the start"]
    parts += ["", FORMATS["table"](finding)]
    return [*parts, f"kept: cacheproof show {shlex.quote(name)} --format {'|'.join(FORMATS)}"]


def notes(whole: Consumption, target: str) -> list[str]:
    """What was compared, what was left out and why, and what became of declared deviations."""
    known = {name for result in whole.results for name in result.vectors.initial}
    compared = {feature.rpartition("/")[2] for feature in whole.observables}
    lines = [f"{target}: {whole.calls:,} calls; compared after every call: the outcome, and {_listed(compared)}"]
    lines += [f"the target's own names: {whole.renaming}"] if whole.renaming else []
    if known - compared:
        lines.append(f"not shown, and not compared: {_listed(known - compared)}")
    reasons = Counter(result.reason for result in whole.of(Verdict.SKIPPED))
    lines += [f"skipped: {count:,} cases, {reason}" for reason, count in reasons.most_common()]
    seen = Counter(result.deviation for result in whole.of(Verdict.DEVIATED))
    lines += [f"{number}, as declared: {count:,} cases" for number, count in sorted(seen.items())]
    lines += [f"{number} is declared and did not occur: take it out" for number in whole.vanished]
    lines += [f"{number} is declared, and no call that was made could show it" for number in whole.untried]
    lines += _unseen(whole).lines
    if whole.given_up:
        lines.append(f"given up: the driver failed {len(whole.of(Verdict.BROKE_DOWN))} times")
    return lines


def _unseen(whole: Consumption) -> Unseen:
    of = whole.results[0].vectors
    return unseen(of.component, variant_named(of.component, of.variant), whole.seen)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing else"
