"""The executor follows every path, and says so loudly where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.asking import question
from cacheproof.prove.executor import (
    DEPTH_LIMIT,
    NotFollowedError,
    SymbolicInteger,
    assume,
    demand,
    explore,
    has_quantifier,
    integer,
)
from cacheproof.prove.solvers import Answer, first_opinion, goal_of, second_opinion


def answers(body: Callable[[], None]) -> list[Answer]:
    """What z3 says of every demand, path by path."""
    goals = [(path, goal_of(one)) for path in explore(body) for one in path.demands]
    return [first_opinion(goal, path.hints)[0] for path, goal in goals if goal is not None]


def test_every_way_through_a_function_is_taken() -> None:
    signs: list[int] = []

    def body() -> None:
        number = integer("number")
        signs.append(-1 if number < 0 else 0 if number == 0 else 1)

    assert len(list(explore(body))) == 3
    assert sorted(signs) == [-1, 0, 1]


def test_what_is_assumed_is_not_taken_otherwise() -> None:
    def body() -> None:
        number = integer("number")
        assume(number > 3)
        demand("more", number >= 4)
        assert number != 2

    assert answers(body) == [Answer.FOLLOWS]


def test_a_contradiction_ends_a_path() -> None:
    def body() -> None:
        number = integer("number")
        assume(number > 3)
        assume(number < 2)
        if number == 0:
            demand("anything", number == 1)

    assert list(explore(body)) == []


def test_built_in_functions_that_compare_are_followed() -> None:
    def body() -> None:
        one, other = integer("one"), integer("other")
        least, most = sorted([one, other])
        demand("ordered", min(one, other) == least)
        demand("ordered", max(one, other) == most)
        demand("sum", least + most == one + other)
        if 0 <= one <= 5 and not other < one:
            demand("chained", other >= 0)

    found = answers(body)
    assert set(found) == {Answer.FOLLOWS}


def test_what_does_not_follow_is_found() -> None:
    def body() -> None:
        number = integer("number")
        demand("wrong", number * 2 != 14)

    assert answers(body) == [Answer.FAILS]


def test_both_solvers_are_asked_the_same() -> None:
    def body() -> None:
        number = integer("number")
        assume(number > 3)
        demand("right", number > 2)
        demand("wrong", number > 5)

    (path,) = explore(body)
    goals = [goal_of(one) for one in path.demands]
    assert [second_opinion(question(goal.negated())) for goal in goals if goal] == [Answer.FOLLOWS, Answer.FAILS]


@pytest.mark.parametrize("remainder", [False, True])
def test_division_demands_a_positive_divisor(*, remainder: bool) -> None:
    def body() -> None:
        number, divisor = integer("number"), integer("divisor")
        quotient = number % divisor if remainder else number // divisor
        demand("bounded", quotient < divisor if remainder else quotient * divisor <= number)

    assert answers(body) == [Answer.FAILS, Answer.FOLLOWS]


def test_ceiling_division_is_proved_for_any_divisor() -> None:
    def body() -> None:
        number, divisor = integer("number"), integer("divisor")
        assume(divisor > 0)
        rounded = (number + divisor - 1) // divisor
        demand("enough", rounded * divisor >= number)
        demand("not too much", (rounded - 1) * divisor < number)

    assert answers(body) == [Answer.FOLLOWS] * 3


UNFOLLOWED: dict[str, Callable[[Any], Any]] = {
    "a key of a dict": lambda number: {number: 1},
    "a member of a set": lambda number: {number},
    "range": lambda number: list(range(number)),
    "indexing": lambda number: (1, 2)[number],
    "int": int,
    "float": float,
    "abs": abs,
    "str": str,
    "f-string": lambda number: f"{number}",
    "true division": lambda number: number / 2,
    "power": lambda number: number**2,
    "shift": lambda number: 1 << number,
    "isinstance": lambda number: isinstance(number, int),
    "a float": lambda number: number + 0.5,
    "len": len,
    "in": lambda number: 1 in number,
}


@pytest.mark.parametrize("use", UNFOLLOWED.values(), ids=UNFOLLOWED)
def test_what_cannot_be_followed_fails_loudly(use: Callable[[Any], Any]) -> None:
    with pytest.raises((NotFollowedError, TypeError)):
        list(explore(lambda: use(integer("number"))))


def test_a_loop_without_an_end_fails_loudly() -> None:
    def body() -> None:
        number = integer("number")
        while number > 0:
            number = number + 1

    with pytest.raises(NotFollowedError, match=str(DEPTH_LIMIT)):
        list(explore(body))


def test_a_symbolic_value_has_no_truth_outside_of_an_exploration() -> None:
    with pytest.raises(NotFollowedError, match="outside"):
        bool(SymbolicInteger(z3.Int("number")) > 0)


def test_a_replay_of_a_prefix_gives_the_same_names() -> None:
    names: list[str] = []

    def body() -> None:
        one = integer("one")
        if one > 0:
            names.append(repr(integer("other")))
        else:
            names.append(repr(integer("other")))

    list(explore(body))
    assert len(set(names)) == 1
    assert len(names) == 2


X, Y, TRUTH = z3.Int("x"), z3.Int("y"), z3.Bool("truth")
EACH = z3.ForAll([X], X > Y)


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (X > Y, False),
        (z3.K(z3.IntSort(), Y)[X] == 3, False),
        (EACH, True),
        (z3.Or(TRUTH, z3.Not(z3.Exists([X], X > Y))), True),
        (z3.And(TRUTH, z3.Implies(TRUTH, EACH)), True),
        (z3.Lambda([X], X + 1)[Y] > 3, True),
    ],
    ids=str,
)
def test_quantifiers_are_seen_wherever_they_are(formula: Any, *, expected: bool) -> None:
    """The solver that decides which way a path goes is not given them."""
    assert has_quantifier(formula) is expected
