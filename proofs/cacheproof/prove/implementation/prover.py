"""The obligations of one operation at one shape: equal, in form, inside its tensors, within its types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheimpl import answer as tensor_answer
from cacheproof.prove.asking import alone, answer_of, model_of, no_answer, question
from cacheproof.prove.executor import Demand, NotFollowedError, explore, path
from cacheproof.prove.finding import IMPLEMENTATION, Finding, Verdict
from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.actions import Turn, name_of, sequential
from cacheproof.prove.implementation.cells import Cell, evaluated, term
from cacheproof.prove.implementation.correspondence import (
    INITIAL,
    LARGEST,
    Correspondence,
    numbers_of,
)
from cacheproof.prove.implementation.execution import Executed, executed
from cacheproof.prove.implementation.finite import agree, cell_of
from cacheproof.prove.implementation.following import finite
from cacheproof.prove.implementation.step import Step, step_of
from cacheproof.prove.implementation.tensors import CellTensor, of
from cachespec.kernel import Outcome

EQUAL, FORM, INSIDE, WIDTHS = "equal", "form", "inside", "widths"
STATEMENTS = {
    EQUAL: "the tensor operation leads to the specification's state and answer",
    FORM: "the tensors keep their invariant",
    INSIDE: "every index is inside its tensor, and every divisor positive",
    WIDTHS: "no number leaves its type, as long as all are within 2**40 of 0",
}
DEPTH_LIMIT = 200
"""Decisions on one path of the specification."""
MOST_RUNS = 12
"""Paths of one operation for which a state is run on both sides."""


def ends_alike(turn: Turn, outcome: Outcome | None) -> Cell:
    """The code and the integers of an answer; of a turn that was not answered nothing but that."""
    if outcome is None:
        return cells.equal(turn.code, tensor_answer.UNANSWERED)
    wanted = [cell_of(value) for value in outcome.values]
    if len(wanted) > len(turn.values):
        return False
    same = (cells.equal(mine, its) for mine, its in zip(turn.values, wanted, strict=False))
    code = int(tensor_answer.Code[outcome.code.name])
    return cells.every((cells.equal(turn.code, code), cells.equal(turn.length, len(wanted)), *same))


@dataclass(slots=True)
class Judgement:
    """The result of one row so far."""

    checks: int = 0
    verdict: Verdict = Verdict.PROVED_AT_SHAPES
    detail: str = ""
    seconds: float = 0.0
    witnessed: bool = False
    runs: int = 0
    """How many states were run on both sides."""

    @property
    def open(self) -> bool:
        """Whether nothing has failed yet."""
        return self.verdict is Verdict.PROVED_AT_SHAPES


def prove_place(one: Correspondence, place: str, *, only: str | None = None) -> Iterator[Finding]:
    """The rows of the initial state, or of one kind of operation; or the row of this name."""
    if place == INITIAL:
        yield _finding(one, FORM, place, _initial(one))
        return
    rows = {name: Judgement() for name in STATEMENTS if only in (None, name)}
    for operation in one.operations():
        if name_of(operation) != place or not any(row.open for row in rows.values()):
            continue
        try:
            step = step_of(one, operation)
        except NotFollowedError as error:
            for row in rows.values():
                row.verdict, row.detail = Verdict.UNKNOWN, f"cannot be followed: {error}"
            break
        except (IndexError, RuntimeError, ValueError) as error:
            for row in rows.values():
                row.verdict, row.detail = Verdict.CRASHED, f"torch cannot trace it: {str(error).splitlines()[0]}"
            break
        for name, row in rows.items():
            if row.open:
                started = perf_counter()
                JUDGES[name](step, row)
                row.seconds += perf_counter() - started
                row.witnessed = row.witnessed or (only not in (None, EQUAL) and _satisfiable(step))
    witnessed = any(row.witnessed for row in rows.values())
    for name, row in rows.items():
        row.witnessed = witnessed
        yield _finding(one, name, place, row)


def _finding(one: Correspondence, name: str, place: str, row: Judgement) -> Finding:
    if row.open and not row.witnessed:
        row.verdict, row.detail = Verdict.VACUOUS, "no state satisfies the invariant and the promises"
    return Finding(
        component=one.component,
        name=f"{name}/{place}",
        statement=STATEMENTS[name],
        method=IMPLEMENTATION,
        verdict=row.verdict,
        bound=one.bound,
        seconds=row.seconds,
        detail=row.detail,
        checks=row.checks,
    )


def _initial(one: Correspondence) -> Judgement:
    """The initial tensors have the invariant, and stand for the specification's initial state."""
    started = perf_counter()
    row, config = Judgement(witnessed=True), one.unknown()
    model = one.model()
    state = type(model.initial)(*_initial_cells(one, config))
    premises = [term(condition) for condition in one.valid(config, one.decode(config, state), None)]
    if model.decode(model.rows(type(model.initial)(*(tensor.unsqueeze(0) for tensor in model.initial)))[0]) != (
        model.variant.start(model.config)
    ):
        row.verdict, row.detail = Verdict.REFUTED, f"the initial tensors are not those of {model.config}"
    for condition in one.invariant(config, state):
        _ask(row, one, premises, condition, lambda found: f"the initial state is not in form: {found}")
    row.seconds = perf_counter() - started
    return row


def _initial_cells(one: Correspondence, config: Any) -> Sequence[CellTensor]:
    """The initial tensors; numbers of the configuration stay unknown in them if the component names their positions."""
    if one.initial is not None:
        return tuple(one.initial(config))
    return tuple(of(tensor) for tensor in one.model().initial)


def _equal(step: Step, row: Judgement) -> None:
    one = step.correspondence
    seen: dict[tuple[int, ...], tuple[Any, ...]] = {}  # paths with a common beginning raise its demands again

    premises = [*step.premises, *step.choices]
    before, decoded = (one.decode(step.config, tensors) for tensors in (step.before, step.after))

    def body() -> None:
        for premise in premises:
            path().assume(premise)
        after, outcomes = sequential(partial(one.variant.call, step.config), before, step.operation, step.turns)
        answers = map(ends_alike, step.turns, outcomes)
        path().demand(EQUAL, term(cells.every((agree(*map(one.compared, (after, decoded))), *answers))))

    try:
        with finite(one.modules, one.instead):
            for followed in explore(body, solver=z3.SimpleSolver, depth=DEPTH_LIMIT, quantified=False):
                for demand in followed.demands:
                    terms = (demand.formula, *demand.assumptions)
                    if seen.setdefault(tuple(term.get_id() for term in terms), terms) is terms:
                        _check(step, row, demand)
                if not row.open:
                    return
    except NotFollowedError as error:
        row.verdict, row.detail = Verdict.UNKNOWN, f"the specification cannot be followed: {error}"


def _check(step: Step, row: Judgement, demand: Demand) -> None:
    one = step.correspondence
    if not row.open:
        return
    found = _ask(row, one, demand.assumptions, demand.formula, lambda model: executed(step, model).shown(demand.name))
    if not found:
        return
    if demand.name != EQUAL or row.runs >= MOST_RUNS:
        return
    solver = _question(demand.assumptions)
    if answer_of(solver) == z3.sat:
        row.runs += 1
        model = model_of(solver)
        run: Executed = executed(step, model)
        row.witnessed = True
        if not run.as_followed and not _allowed(step, model, run):
            row.verdict, row.detail = Verdict.CRASHED, f"torch does not do what was followed:\n{run.shown(EQUAL)}"


def _allowed(step: Step, model: Any, run: Executed) -> bool:
    """Whether torch's result is among the results that the interpreter leaves open, in the numbers of the model."""
    unknown = (*numbers_of(step.config, step.operation), *(cell for tensor in step.before for cell in tensor.cells))
    given = [cell == term(evaluated(model, cell)) for cell in unknown if cells.is_term(cell)]
    results = [
        cells.equal(mine, its)
        for tensor, numbers in zip(step.after, run.after, strict=True)
        for mine, its in zip(tensor.cells, numbers.reshape(-1).tolist(), strict=True)
    ]
    return bool(answer_of(_question([*step.choices, *given, *map(term, results)])) == z3.sat)


def _satisfiable(step: Step) -> bool:
    """Whether a state exists; with `equal`, the equalities are tried by themselves."""
    return bool(answer_of(_question(step.premises)) == z3.sat)


def _form(step: Step, row: Judgement) -> None:
    one = step.correspondence
    premises = [*step.premises, *step.choices]
    formula = cells.every(one.invariant(step.config, step.after))
    _ask(row, one, premises, formula, lambda model: executed(step, model).shown("the invariant"))


def _inside(step: Step, row: Judgement) -> None:
    formula = cells.every(step.duties.inside)
    premises = [*step.premises, *step.choices]
    _ask(row, step.correspondence, premises, formula, lambda model: executed(step, model).shown("an index"))


def _widths(step: Step, row: Judgement) -> None:
    bounded = [
        z3.And(number >= -LARGEST, number <= LARGEST) for number in numbers_of(step.config, step.before, step.operation)
    ]
    premises = [*step.premises, *step.choices, *bounded]
    formula = step.duties.fits()
    _ask(row, step.correspondence, premises, formula, lambda model: executed(step, model).shown("a width"))


JUDGES: dict[str, Callable[[Step, Judgement], None]] = {EQUAL: _equal, FORM: _form, INSIDE: _inside, WIDTHS: _widths}


def _question(formulas: Sequence[Any]) -> Any:
    return question(alone(formulas), z3.SimpleSolver)


def _ask(
    row: Judgement, one: Correspondence, premises: Sequence[Any], condition: Cell, shown: Callable[[Any], str]
) -> bool:
    """Whether the condition follows; the row records the result."""
    row.checks += 1
    formula = z3.simplify(term(condition))
    if z3.is_true(formula):
        return True
    solver = _question([*premises, z3.Not(formula)])
    answer = answer_of(solver)
    if answer == z3.unsat:
        return True
    if answer == z3.sat:
        row.verdict, row.detail = Verdict.REFUTED, shown(model_of(solver))
    else:
        row.verdict = Verdict.GAVE_UP
        row.detail = f"{no_answer()} at {one.shape}"
    return False
