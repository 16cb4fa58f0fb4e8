"""The kinds of evidence, and what one of them says of one mutant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from cacheproof.mutants.generate import Mutant


class Evidence(Enum):
    """What can detect a mutant."""

    EXPLORED = "exploration"
    INDUCTION = "induction"
    TENSORS = "tensors"
    CONTRACTS = "contracts"
    REGIONS = "regions"
    LOCKSTEP = "lockstep"
    VECTORS = "vectors"


SAYS = {
    Evidence.EXPLORED: "`check`: a property fails in some default scope, or a witness is reached in none",
    Evidence.INDUCTION: "`prove --method smt`: an obligation of the specification, for all sizes",
    Evidence.TENSORS: "`prove --implementation --method smt`: a row `equal` at a default shape",
    Evidence.CONTRACTS: "`prove --method crosshair`, also with `--implementation`: a contract of the default set",
    Evidence.REGIONS: "`regions`: a property fails in some region of a default scope, or a witness is lost",
    Evidence.LOCKSTEP: "`fuzz --target torch --driver lockstep`: a difference or broken property in 2,000 calls",
    Evidence.VECTORS: "`consume --target spec:normative`: a released vector fails",
}
"""What is run, in one line of Markdown."""


class Answer(Enum):
    """What a kind of evidence says of a mutant."""

    DETECTED = "detected"
    NOT_DETECTED = "not detected"
    OPEN = "not decided"
    """A limit came first, or the check cannot follow the changed code."""
    NONE = "no such evidence"
    """There is no such evidence of the component, or of the transitions that call the changed function."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One answer. `by` says which property, obligation or contract, or why there is no answer; processor seconds."""

    answer: Answer
    by: str = ""
    seconds: float = 0.0


NOTHING = Cell(Answer.NONE)


@dataclass(frozen=True, slots=True)
class Question:
    """A mutant, and the operations whose transitions call the changed function."""

    mutant: Mutant
    operations: frozenset[str]
    seconds: float
    """The limit of processor time of the answer."""


Ask = Callable[[Question], Cell]
"""Raises nothing that belongs to the mutant; an error of its own is an open answer."""

LONGEST = 160
"""Characters of a reason."""


def detected(by: str) -> Cell:
    """The mutant is noticed."""
    return Cell(Answer.DETECTED, shortened(by))


def not_decided(why: str) -> Cell:
    """There is no answer."""
    return Cell(Answer.OPEN, shortened(why))


def not_detected(seen: str = "") -> Cell:
    """All was looked at, and nothing is noticed."""
    return Cell(Answer.NOT_DETECTED, shortened(seen))


def shortened(text: str) -> str:
    """On one line, and not too long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def error_in_words(error: BaseException) -> str:
    """An exception in one line."""
    return shortened(f"{type(error).__name__}: {error}")


def first_detected(cells: Sequence[Cell]) -> Cell:
    """Of several parts of one kind of evidence: detected by one, or open in one, or not detected by any."""
    for wanted in (Answer.DETECTED, Answer.OPEN, Answer.NOT_DETECTED):
        for cell in cells:
            if cell.answer is wanted:
                return cell
    return NOTHING
