"""The table: for each mutant the answer of every kind of evidence, and what follows from them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cacheproof.detection.campaign import Answers, Key
from cacheproof.detection.choice import Drawn
from cacheproof.detection.evidence import NOTHING, Answer, Cell, Evidence


@dataclass(frozen=True, slots=True)
class Line:
    """One mutant."""

    component: str
    mutant: str
    change: str
    operation: str
    """The transition that it was drawn for."""
    cells: Mapping[Evidence, Cell]

    def by(self, answer: Answer) -> list[Evidence]:
        """The kinds of evidence with this answer."""
        return [kind for kind, cell in self.cells.items() if cell.answer is answer]

    @property
    def detected(self) -> list[Evidence]:
        """The kinds of evidence that detect it."""
        return self.by(Answer.DETECTED)

    @property
    def alone(self) -> Evidence | None:
        """The only kind of evidence that detects it, if all others have decided."""
        found = self.detected
        return found[0] if len(found) == 1 and not self.by(Answer.OPEN) else None

    @property
    def undetected(self) -> bool:
        """Whether every kind of evidence has decided, and none detects it."""
        return not self.detected and not self.by(Answer.OPEN)


def lines_of(chosen: Iterable[Drawn], answers: Answers) -> list[Line]:
    """Of the mutants that were asked about and have all answers, in their order."""
    found = []
    waiting = {mutant for mutant, _ in answers.unanswered}
    for one in chosen:
        name = one.mutant.name
        cells = {kind: answers.cells[name, kind] for kind in Evidence if (name, kind) in answers.cells}
        if cells and name not in waiting:
            found.append(Line(one.mutant.component, name, one.mutant.change, one.operation, cells))
    return found


def detections(lines: Iterable[Line]) -> set[Key]:
    """The questions to which the answer is that the mutant is detected."""
    return {(line.mutant, kind) for line in lines for kind in line.detected}


@dataclass(frozen=True, slots=True)
class Total:
    """What one kind of evidence says of many mutants."""

    evidence: Evidence
    asked: int
    """Mutants of components and transitions that have such evidence."""
    detected: int
    alone: int
    not_detected: int
    open: int
    seconds: float
    """Processor time."""


def totals(lines: Sequence[Line]) -> Iterator[Total]:
    """One for each kind of evidence."""
    for kind in Evidence:
        cells = [line.cells.get(kind, NOTHING) for line in lines]
        asked = [cell for cell in cells if cell.answer is not Answer.NONE]
        yield Total(
            kind,
            len(asked),
            sum(cell.answer is Answer.DETECTED for cell in asked),
            sum(line.alone is kind for line in lines),
            sum(cell.answer is Answer.NOT_DETECTED for cell in asked),
            sum(cell.answer is Answer.OPEN for cell in asked),
            sum(cell.seconds for cell in asked),
        )


def gone(before: Iterable[Line], drawn: Container[str]) -> Iterator[str]:
    """The mutants of an earlier table that are not drawn any more, one line each."""
    for old in before:
        if old.mutant not in drawn:
            yield f"{old.mutant}: in the table that is kept, and not among the mutants drawn now: keep a new table"


def weakened(before: Iterable[Line], now: Iterable[Line]) -> Iterator[str]:
    """What detected a mutant in an earlier table and, asked again, does not any more, one line each."""
    current = {line.mutant: line.cells for line in now}
    for old in before:
        for kind in old.detected:
            cell = current.get(old.mutant, {}).get(kind)
            if cell is not None and cell.answer is not Answer.DETECTED:
                yield f"{old.mutant}: {kind.value} detected it ({old.cells[kind].by}), and now: {cell.answer.value}"
