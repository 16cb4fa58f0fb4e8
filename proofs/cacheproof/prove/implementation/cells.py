"""One element of a tensor: a Python number or truth value, or a z3 term. Known values are computed at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

Cell = Any
"""An `int`, a `bool`, or a z3 term of sort Int or Bool."""


def is_term(cell: Cell) -> bool:
    """Whether the solver has to find its value."""
    return isinstance(cell, z3.ExprRef)


def is_truth(cell: Cell) -> bool:
    """Whether it is a truth value."""
    return z3.is_bool(cell) if is_term(cell) else type(cell) is bool


def known(cell: Cell) -> Cell:
    """A term that is a plain number or truth value, as that."""
    if not is_term(cell):
        return cell
    if z3.is_int_value(cell):
        return cell.as_long()
    if z3.is_true(cell):
        return True
    return False if z3.is_false(cell) else cell


def term(cell: Cell) -> Any:
    """The z3 term of a cell."""
    if is_term(cell):
        return cell
    return z3.BoolVal(cell) if type(cell) is bool else z3.IntVal(cell)


def same(one: Cell, other: Cell) -> bool:
    """Whether both are the same as they stand."""
    if is_term(one) and is_term(other):
        return bool(one.eq(other))
    return type(one) is type(other) and bool(one == other) if not (is_term(one) or is_term(other)) else False


def add(one: Cell, other: Cell) -> Cell:
    """The sum of two numbers."""
    if not is_term(one) and one == 0:
        return other
    return one if not is_term(other) and other == 0 else one + other


def subtract(one: Cell, other: Cell) -> Cell:
    """The difference of two numbers."""
    if same(one, other):
        return 0
    return one if not is_term(other) and other == 0 else one - other


def multiply(one: Cell, other: Cell) -> Cell:
    """The product of two numbers."""
    for factor, rest in ((one, other), (other, one)):
        if not is_term(factor) and factor in (0, 1):
            return rest if factor == 1 else 0
    return one * other


def negate(one: Cell) -> Cell:
    """The number with the other sign."""
    return -one


def quotient(one: Cell, other: Cell) -> Cell:
    """The largest integer that is not above the quotient. The divisor must be positive."""
    return term(one) / term(other) if is_term(one) or is_term(other) else one // other


def remainder(one: Cell, other: Cell) -> Cell:
    """The remainder of the division: not negative. The divisor must be positive."""
    return term(one) % term(other) if is_term(one) or is_term(other) else one % other


def equal(one: Cell, other: Cell) -> Cell:
    """Whether two cells of the same sort are equal."""
    if same(one, other):
        return True
    if not is_term(one) and not is_term(other):
        return bool(one == other)
    return term(one) == term(other)


def less(one: Cell, other: Cell) -> Cell:
    """Whether the first number is below the second."""
    if same(one, other):
        return False
    return one < other


def at_most(one: Cell, other: Cell) -> Cell:
    """Whether the first number is not above the second."""
    return True if same(one, other) else one <= other


def inverse(one: Cell) -> Cell:
    """Whether a condition does not hold."""
    if not is_term(one):
        return not one
    return one.arg(0) if z3.is_not(one) else z3.Not(one)


def every(conditions: Iterable[Cell]) -> Cell:
    """Whether all conditions hold."""
    open_ones = [one for one in conditions if is_term(one) or not one]
    if any(not is_term(one) for one in open_ones):
        return False
    if len(open_ones) <= 1:
        return open_ones[0] if open_ones else True
    return z3.And(*open_ones)


def some(conditions: Iterable[Cell]) -> Cell:
    """Whether at least 1 of the conditions holds."""
    open_ones = [one for one in conditions if is_term(one) or one]
    if any(not is_term(one) for one in open_ones):
        return True
    if len(open_ones) <= 1:
        return open_ones[0] if open_ones else False
    return z3.Or(*open_ones)


def choose(condition: Cell, met: Cell, unmet: Cell) -> Cell:
    """`one` if the condition holds, otherwise `other`."""
    if not is_term(condition):
        return met if condition else unmet
    if same(met, unmet):
        return met
    if is_truth(met):
        return _chosen_truth(condition, met, unmet)
    return z3.If(condition, term(met), term(unmet))


def _chosen_truth(condition: Cell, met: Cell, unmet: Cell) -> Cell:
    if not is_term(met):
        return some((condition, unmet)) if met else every((inverse(condition), unmet))
    if not is_term(unmet):
        return some((inverse(condition), met)) if unmet else every((condition, met))
    return z3.If(condition, met, unmet)


def total(cells: Iterable[Cell]) -> Cell:
    """The sum of numbers."""
    cells = list(cells)
    constant = sum(one for one in cells if not is_term(one))
    terms = [one for one in cells if is_term(one)]
    if not terms:
        return constant
    return z3.Sum(*terms, *([z3.IntVal(constant)] if constant else [])) if len(terms) + bool(constant) > 1 else terms[0]


def larger(one: Cell, other: Cell) -> Cell:
    """The larger of two numbers."""
    return choose(at_most(one, other), other, one)


def smaller(one: Cell, other: Cell) -> Cell:
    """The smaller of two numbers."""
    return choose(at_most(one, other), one, other)


def number(cell: Cell) -> Cell:
    """A truth value as 0 or 1; a number as it is."""
    if not is_truth(cell):
        return cell
    return choose(cell, 1, 0)


def truth(cell: Cell) -> Cell:
    """A number as the condition that it is not 0; a truth value as it is."""
    return cell if is_truth(cell) else inverse(equal(cell, 0))


def count(conditions: Iterable[Cell]) -> Cell:
    """How many of the conditions hold."""
    return total(number(one) for one in conditions)


def select(cells: list[Cell], index: Cell) -> Cell:
    """The cell of this index, from 0; of an index outside, the last."""
    if not is_term(index):
        return cells[index] if 0 <= index < len(cells) else cells[-1]
    chosen = cells[-1]
    for place in reversed(range(len(cells) - 1)):
        chosen = choose(equal(index, place), cells[place], chosen)
    return chosen


def fold(combine: Callable[[Cell, Cell], Cell], cells: Iterable[Cell]) -> Cell:
    """All cells, from the first to the last."""
    return reduce(combine, cells)


def evaluated(model: Any, cell: Cell) -> int | bool:
    """The value of a cell in a model of the solver."""
    if not is_term(cell):
        return bool(cell) if type(cell) is bool else int(cell)
    value: int | bool = known(model.eval(cell, model_completion=True))
    if is_term(value):
        raise ValueError(f"the model gives no value: {value}")
    return value
