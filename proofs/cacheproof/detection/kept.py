"""Tables that are kept, so that a page can show them and a later run is held to them: `runs/COMPONENT.json`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from cacheproof.detection.evidence import Answer, Cell, Evidence
from cacheproof.detection.table import Line
from cacheproof.foundation.files import keep_json, kept_json

FOLDER = Path(__file__).parent / "runs"


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer; processor seconds."""

    answer: Answer
    by: str
    seconds: float


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One mutant."""

    mutant: str
    change: str
    operation: str
    cells: dict[Evidence, Kept]


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table of a component: how the mutants were drawn, and the limit of processor time of one answer."""

    component: str
    each: int
    seed: int
    seconds: float
    rows: tuple[Row, ...]

    def lines(self) -> list[Line]:
        """As a table."""
        return [
            Line(
                self.component,
                row.mutant,
                row.change,
                row.operation,
                {kind: Cell(cell.answer, cell.by, cell.seconds) for kind, cell in row.cells.items()},
            )
            for row in self.rows
        ]


def write(component: str, lines: Iterable[Line], *, each: int, seed: int, seconds: float) -> Path:
    """Keep a table in place of the one before."""
    rows = tuple(
        Row(
            line.mutant,
            line.change,
            line.operation,
            {kind: Kept(cell.answer, cell.by, round(cell.seconds, 1)) for kind, cell in line.cells.items()},
        )
        for line in lines
    )
    path = FOLDER / f"{component}.json"
    keep_json(path, Run(component, each, seed, seconds, rows))
    return path


def names() -> list[str]:
    """The components of which a table is kept."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def read(component: str) -> Run:
    """The table of a component; raises InputError where there is none."""
    missing = f"no table is kept of {component}: cacheproof detection {component} --keep"
    return kept_json(FOLDER / f"{component}.json", Run, missing)
