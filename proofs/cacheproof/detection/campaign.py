"""Many mutants and every kind of evidence, over processes; answers are kept as they come, and a later run goes on."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.detection.choice import Drawn
from cacheproof.detection.evidence import Answer, Cell, Evidence, Question
from cacheproof.detection.kinds import asked
from cacheproof.foundation.console import Show
from cacheproof.foundation.workers import shared_out, stopped
from cacheproof.model.fingerprint import digest_of, implementation_digest, specification_digest
from cacheproof.model.registry import component_named, scope_file
from cacheproof.model.store import load_all, save
from cacheproof.mutants.functions import by_operation
from cacheproof.mutants.generate import Mutant, mutants_of

KIND = "detection"
"""The kind of these runs in the store."""
SAVED_EVERY = 10
SECONDS = 60.0
"""Default of the limit of processor time of one answer."""

PACKAGE = Path(__file__).parents[1]
READS: Mapping[Evidence, tuple[str, ...]] = {
    Evidence.EXPLORED: ("search", "mutants"),
    Evidence.INDUCTION: ("prove",),
    Evidence.TENSORS: ("prove", "tensor_models"),
    Evidence.CONTRACTS: ("prove",),
    Evidence.REGIONS: ("search",),
    Evidence.LOCKSTEP: ("lockstep", "targets"),
    Evidence.VECTORS: ("vectors", "targets"),
}
"""The folders of the checkers on which an answer depends, beside the specification and the scope file."""
OF_THE_IMPLEMENTATION = frozenset({Evidence.TENSORS, Evidence.CONTRACTS, Evidence.LOCKSTEP})


class Task(NamedTuple):
    """One question to one kind of evidence."""

    component: str
    mutant: str
    evidence: Evidence
    seconds: float


Key = tuple[str, Evidence]
"""The name of a mutant, and a kind of evidence."""


@dataclass(slots=True)
class Answers:
    """All answers of a run, by mutant and evidence; `interrupted` if the user ended it before the last one."""

    cells: dict[Key, Cell]
    interrupted: bool = False
    asked: frozenset[Key] = frozenset()

    @property
    def unanswered(self) -> AbstractSet[Key]:
        """What was asked and has no answer, not even an open one: the run ended before."""
        return self.asked - self.cells.keys()


def perform(
    chosen: Sequence[Drawn],
    kinds: Sequence[Evidence],
    seconds: float,
    workers: int,
    show: Show,
    *,
    anew: bool,
    only: AbstractSet[Key] | None = None,
) -> Answers:
    """Ask every kind of evidence about every mutant, or `only` these questions.

    Ctrl-C ends it with the answers so far.
    """
    tasks = [
        Task(one.mutant.component, one.mutant.name, kind, seconds)
        for one in chosen
        for kind in kinds
        if only is None or (one.mutant.name, kind) in only
    ]
    known = {} if anew else kept(tasks)
    answers = Answers(dict(known), asked=frozenset((task.mutant, task.evidence) for task in tasks))
    waiting = [task for task in tasks if (task.mutant, task.evidence) not in known]
    if known:
        show(f"{len(known):,} of {len(tasks):,} answers are known from an earlier run")
    unsaved: list[Task] = []
    try:
        with closing(_answered(waiting, workers)) as answered:
            for task, cell in answered:
                answers.cells[task.mutant, task.evidence] = cell
                unsaved.append(task)
                show(
                    f"{len(answers.cells):,} of {len(tasks):,} answers; {task.mutant}: "
                    f"{task.evidence.value}: {cell.answer.value} {cell.by}".rstrip()
                )
                if len(unsaved) >= SAVED_EVERY:
                    keep(unsaved, answers.cells)
                    unsaved.clear()
    except KeyboardInterrupt:
        answers.interrupted = True
    finally:
        keep(unsaved, answers.cells)
    return answers


def _answered(tasks: Sequence[Task], workers: int) -> Generator[tuple[Task, Cell], None, None]:
    if workers == 1:
        yield from ((task, answer_to(task)) for task in tasks)
        return
    results = shared_out(_in_worker, tasks, workers)
    yield from (result for result in results if result is not None)


def _in_worker(task: Task) -> tuple[Task, Cell] | None:
    """None where the user ended the run before there was an answer."""
    try:
        return task, answer_to(task)
    except KeyboardInterrupt:
        return None


def answer_to(task: Task) -> Cell:
    """The answer to one question."""
    mutant = _mutants(task.component)[task.mutant]
    question = Question(mutant, _operations_of(task.component, task.mutant), task.seconds)
    return asked(task.evidence, question, stopped)


@cache
def _mutants(component: str) -> dict[str, Mutant]:
    return {mutant.name: mutant for mutant in mutants_of(component_named(component))}


@cache
def _operations_of(component: str, mutant: str) -> frozenset[str]:
    """The operations whose transitions call the changed function."""
    function = _mutants(component)[mutant].function
    every = by_operation(component_named(component))
    return frozenset(operation for operation, functions in every.items() if function in functions)


# What is kept --------------------------------------------------------------------------------------------------------


def keep(tasks: Iterable[Task], cells: Mapping[Key, Cell]) -> None:
    """One file for each component, with the newest answer to each question."""
    by_component: dict[str, list[Task]] = {}
    for task in tasks:
        by_component.setdefault(task.component, []).append(task)
    for component, own in by_component.items():
        rows = {(row["mutant"], row["evidence"]): row for row in _rows(component)}
        rows |= {(task.mutant, task.evidence.value): _row(task, cells[task.mutant, task.evidence]) for task in own}
        save(KIND, component, {"component": component, "answers": [rows[key] for key in sorted(rows)]})


def kept(tasks: Iterable[Task]) -> dict[Key, Cell]:
    """Answers of earlier runs to the same questions: of the same code, and decided or with at least as much time."""
    rows = {
        (row["mutant"], row["evidence"]): row
        for component in dict.fromkeys(task.component for task in tasks)
        for row in _rows(component)
    }
    found: dict[Key, Cell] = {}
    for task in tasks:
        row = rows.get((task.mutant, task.evidence.value))
        if row is None or row["stamp"] != stamp_of(task.component, task.evidence):
            continue
        cell = Cell(Answer(row["answer"]), row["by"], row["seconds"])
        if cell.answer is not Answer.OPEN or row["limit"] >= task.seconds:
            found[task.mutant, task.evidence] = cell
    return found


def _row(task: Task, cell: Cell) -> dict[str, Any]:
    return {
        "mutant": task.mutant,
        "evidence": task.evidence.value,
        "stamp": stamp_of(task.component, task.evidence),
        "limit": task.seconds,
        "answer": cell.answer.value,
        "by": cell.by,
        "seconds": cell.seconds,
    }


def _rows(component: str) -> list[dict[str, Any]]:
    return [row for record in load_all(KIND) if record["name"] == component for row in record["answers"]]


@cache
def stamp_of(component: str, evidence: Evidence) -> str:
    """A digest of what an answer depends on: specification, scope file, checkers, and the tensor code if it is run."""
    digest = sha256(f"{specification_digest()}\0{digest_of([PACKAGE / name for name in READS[evidence]])}\0".encode())
    if evidence in OF_THE_IMPLEMENTATION:
        digest.update(implementation_digest().encode())
    if scope_file(component_named(component)).is_file():
        digest.update(scope_file(component_named(component)).read_bytes())
    return digest.hexdigest()[:16]
