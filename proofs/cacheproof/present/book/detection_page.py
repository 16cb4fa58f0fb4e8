"""Tables of which evidence detects which mutant, from the tables that are kept."""

from __future__ import annotations

from collections.abc import Sequence

from cacheproof.detection import kept
from cacheproof.detection.evidence import NOTHING, SAYS, Answer, Evidence
from cacheproof.detection.table import Line, totals
from cacheproof.foundation.errors import InputError
from cacheproof.present.book.tables import markdown_table

MARKS = {Answer.DETECTED: "yes", Answer.NOT_DETECTED: "no", Answer.OPEN: "?", Answer.NONE: ""}


def detection_part(words: Sequence[str]) -> str:
    """`kinds`: what is run; `evidence`: totals of each kind; `components`: of each component; `alone`; `mutants`."""
    lines = [line for name in kept.names() for line in kept.read(name).lines()]
    match words:
        case ["kinds"]:
            return markdown_table(("evidence", "what detects a mutant"), [(one.value, SAYS[one]) for one in Evidence])
        case ["evidence"]:
            return _evidence(lines)
        case ["components"]:
            return _components(lines)
        case ["alone"]:
            return _alone(lines)
        case ["mutants"]:
            return _mutants(lines)
    raise InputError("say 'kinds', 'evidence', 'components', 'alone' or 'mutants'")


def _evidence(lines: Sequence[Line]) -> str:
    names = ("evidence", "mutants", "detected", "by this alone", "not detected", "not decided", "processor seconds")
    rows = [
        (
            one.evidence.value,
            *map(str, (one.asked, one.detected, one.alone, one.not_detected, one.open)),
            f"{one.seconds:,.0f}",
        )
        for one in totals(lines)
    ]
    return markdown_table(names, rows)


def _components(lines: Sequence[Line]) -> str:
    """Of each component: how many mutants each kind detects, of those that it was asked about."""
    names = ("component", "mutants", "detected", *(kind.value for kind in Evidence))
    rows = []
    for name in dict.fromkeys(line.component for line in lines):
        own = [line for line in lines if line.component == name]
        counts = (f"{one.detected} of {one.asked}" if one.asked else "" for one in totals(own))
        limit = kept.read(name).seconds
        rows.append((f"`{name}`, {limit:g} s", str(len(own)), str(sum(bool(line.detected) for line in own)), *counts))
    return markdown_table(names, rows)


def _alone(lines: Sequence[Line]) -> str:
    """The mutants that one kind detects and no other, and those that none detects."""
    rows = []
    for line in lines:
        if line.alone is not None:
            rows.append((*_named(line), line.alone.value, line.cells[line.alone].by))
        elif not line.detected:
            unknown = ", ".join(kind.value for kind in line.by(Answer.OPEN))
            explored = line.cells.get(Evidence.EXPLORED, NOTHING).by
            rows.append((*_named(line), "none", f"not decided: {unknown}" if unknown else explored))
    return markdown_table(("mutant", "change", "detected by", "how"), rows)


def _mutants(lines: Sequence[Line]) -> str:
    names = ("mutant", "transition", *(kind.value for kind in Evidence))
    rows = [
        (f"`{line.mutant}`", f"`{line.operation}`", *(MARKS[line.cells.get(kind, NOTHING).answer] for kind in Evidence))
        for line in lines
    ]
    return markdown_table(names, rows)


def _named(line: Line) -> tuple[str, str]:
    return f"`{line.mutant}`", f"`{line.change}`"
