"""A number computes as an integer does, and what a run decided holds of every configuration that answers alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from cacheproof.search.regions.decisions import Decisions, Form
from cacheproof.search.regions.number import Number, RefusedError

SYMBOLS = 3
Values = tuple[int, ...]
Program = Callable[[list[Any]], list[Any]]

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "//": lambda one, other: one // other if other else one,
    "%": lambda one, other: one % other if other else other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
    "min": min,
    "max": max,
    "or": lambda one, other: one or other,
    "in": lambda one, other: one in {other, 1},
    "sorted": lambda one, other: sorted((one, other, 2))[1],
    "repeated": lambda one, other: len((other,) * one) if 0 <= one < 9 else one,
    "range": lambda one, other: sum(range(min(one, 9))) + other,
    "abs": lambda one, other: abs(one) - other,
}
"""The last operand is a result as well, so programs grow long forms."""

VALUES = st.tuples(*[st.integers(-6, 6)] * SYMBOLS)
STEPS = st.lists(st.tuples(st.sampled_from(sorted(BINARY)), st.integers(0, 9), st.integers(0, 9)), max_size=8)


def run(steps: list[tuple[str, int, int]], inputs: list[Any]) -> list[Any]:
    """The results of a program: each step takes two numbers that there are, and adds one."""
    numbers = [*inputs, 0, 3]
    for name, one, other in steps:
        result = BINARY[name](numbers[one % len(numbers)], numbers[other % len(numbers)])
        numbers.append(int(result) if type(result) is bool else result)
    return numbers


def lifted(values: Values, decisions: Decisions) -> list[Any]:
    """Numbers with these values."""
    return [Number(value, Form(0, (((0, symbol), 1),)), decisions) for symbol, value in enumerate(values)]


def value_at(number: Any, values: Values) -> int:
    """What a number is with other values of the symbols."""
    return number.form.at(values) if type(number) is Number else int(number)


def answers_alike(decisions: Decisions, values: Values) -> bool:
    """Whether these values are in the region."""
    inside = all(interval.has(Form(0, weights).at(values)) for weights, interval in decisions.intervals.items())
    return inside and all(Form(0, weights).at(values) not in holes for weights, holes in decisions.holes.items())


@given(STEPS, VALUES, VALUES)
@example([("==", 0, 1)], (1, 1, 1), (2, 2, 2))
@example([("//", 0, 4), ("%", 0, 4)], (-5, 0, 0), (-4, 0, 0))
def test_what_was_decided_is_so_for_all_that_answer_alike(
    steps: list[tuple[str, int, int]], values: Values, others: Values
) -> None:
    decisions = Decisions()
    made = run(steps, lifted(values, decisions))
    assert [value_at(number, values) for number in made] == run(steps, list(values))
    assert answers_alike(decisions, values)
    assume(answers_alike(decisions, others))
    assert [value_at(number, others) for number in made] == run(steps, list(others))


@pytest.mark.parametrize(
    ("forgotten", "step", "others"), [("at_least_zero", ("<", 0, 2), (4, 2, 3)), ("is_zero", ("==", 0, 1), (2, 2, 3))]
)
def test_a_decision_that_is_not_kept_is_noticed(
    monkeypatch: pytest.MonkeyPatch, forgotten: str, step: tuple[str, int, int], others: Values
) -> None:
    def answered(decisions: Decisions) -> tuple[bool, list[int]]:
        made = run([step], lifted((1, 2, 3), decisions))
        return answers_alike(decisions, others), [value_at(number, others) for number in made]

    alike, _ = answered(Decisions())
    assert not alike
    monkeypatch.setattr(Decisions, forgotten, lambda self, form, value: ANSWERS[forgotten](value))
    alike, results = answered(Decisions())
    assert alike
    assert results != run([step], list(others))


ANSWERS: dict[str, Callable[[int], bool]] = {
    "at_least_zero": lambda value: value >= 0,
    "is_zero": lambda value: value == 0,
}
"""The answers alone."""


def test_numbers_of_different_runs_are_different_values() -> None:
    (one, *_), (other, *_) = lifted((1, 2, 3), Decisions()), lifted((1, 2, 3), Decisions())
    assert one != other
    assert one == 1


def test_a_question_for_the_type_is_refused() -> None:
    number, *_ = lifted((1, 2, 3), Decisions())
    with pytest.raises(RefusedError, match="isinstance"):
        isinstance(number, str)


def test_texts_do_not_depend_on_the_configuration() -> None:
    number, *_ = lifted((1, 2, 3), decisions := Decisions())
    assert f"{number} embeddings" == "? embeddings"
    assert not decisions.intervals
