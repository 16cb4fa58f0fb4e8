"""A planted bug is found by the shape of the code, and one that is not there, or is there twice, is refused."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from tests.planting import Change, planted

from cacheproof.model.rewriting import tree_of
from cacheproof.releases.planted.child.bugs.patterns import PatternError, replaced


def clamped(value: int, least: int, most: int) -> int:
    """A value between two others."""
    if value < least:  # a comment
        value = abs(least)
    return max(
        (value, most),
        key=lambda number: -number, default=0
    )  # fmt: skip


def doubled(numbers: list[int]) -> list[int]:
    total = 0
    for number in numbers:
        total += number
        numbers = [*numbers, number]
    return numbers


def adding(step: int) -> Callable[[int], int]:
    def add(number: int) -> int:
        return number + step

    return add


class Counter:
    """A class with what a function takes from around it: `super()`."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def more(self, by: int = 1) -> int:
        self.count += by
        return self.count


def text_of(function: Any, right: str, wrong: str) -> str:
    """The changed function's body, without its docstring."""
    tree = tree_of(function)
    assert tree is not None
    body = replaced(tree, right, wrong).body
    return "\n".join(ast.unparse(ast.fix_missing_locations(statement)) for statement in body)


@pytest.mark.parametrize(
    ("function", "right", "wrong", "changed"),
    [
        (clamped, "value<least", "value <= least", "if value <= least:"),
        (clamped, "($number < $bound)", "$number > $bound", "if value > least:"),
        (clamped, "max((value, $most), key=$by, default=0)", "min($most, $most)", "return min(most, most)"),
        (clamped, "max(default=0, key=$by, *$all)", "max(*$all)", "return max((value, most))"),
        (clamped, "max(*$all, **$others)", "min(*$all, **$others)", "return min((value, most), key="),
        (
            clamped,
            "max(*$all, default=$value, **$others)",
            "max(*$all, **$others)",
            "(value, most), key=lambda number: -number)",
        ),
        (clamped, "default=0", "default=1", "default=1)"),
        (clamped, "key=$by", "", "return max((value, most), default=0)"),
        (clamped, "lambda $name: -$name", "lambda $name: $name", "key=lambda number: number"),
        (clamped, "if $small:\n    $body", "if not $small:\n    $body", "if not value < least:"),
        (clamped, "value = $bound", "pass", "    pass"),
        (clamped, "value = abs(least)", "", "if value < least:"),
        (clamped, "return $value", "return ($value, 1)", "default=0), 1)"),
        (clamped, "$body", "value = 0\n$body", "value = 0"),
        (doubled, "$total = 0\n$body", "$total = 1\n$body", "total = 1\nfor number in numbers:"),
        (doubled, "$total += $number\n$numbers = $new", "$numbers = $new", "for number in numbers:\n    numbers = "),
        (doubled, "[*$old, $new]", "[$new, *$old]", "[number, *numbers]"),
        (doubled, "$total += $number", "$total = [*$total, *$number]", "total = [*total, *number]"),
        (doubled, "for $one in $all:\n    $body", "for $one in $all[1:]:\n    $body", "in numbers[1:]:\n    total"),
        (Counter.more, "self.$name += $by", "self.$name -= $by", "self.count -= by"),
        (Counter.more, "$whose.count += by", "$whose.count = by", "self.count = by"),
    ],
)
def test_what_is_matched_and_what_stands_there_then(function: Any, right: str, wrong: str, changed: str) -> None:
    assert changed in text_of(function, right, wrong)


@pytest.mark.parametrize(
    ("function", "right", "wrong", "message"),
    [
        (clamped, "value > least", "True", "clamped has 0 parts like this, not one: value > least"),
        (clamped, "value > $least", "True", r"clamped has 0 parts like this, not one: value > \$least"),
        (clamped, "least", "most", "clamped has 2 parts like this, not one: least"),
        (clamped, "$value < $value", "True", "0 parts"),
        (clamped, "key=0", "", "0 parts"),
        (doubled, "$a = $b", "pass", "2 parts"),
        (doubled, "$total += $number\n$body", "$body", "0 parts"),
        (doubled, "numbers = $b\nreturn numbers", "pass", "0 parts"),
        (clamped, "$value < $bound", "$bound > $other", r"nothing is known of \$other"),
        (clamped, "value < least", "value  <(least)", "nothing changes in clamped"),
        (clamped, "value <", "value <=", "neither an expression nor statements: 'value <'"),
        (clamped, "", "pass", "no part of clamped is named"),
    ],
)
def test_what_is_refused(function: Any, right: str, wrong: str, message: str) -> None:
    before = function.__code__
    with pytest.raises(PatternError, match=message), planted(Change(function, right, wrong)):
        raise NotImplementedError("this must not be reached")
    assert function.__code__ is before


def test_a_bug_is_there_for_the_length_of_the_block() -> None:
    assert clamped(1, 3, 9) == 3
    with planted(Change(clamped, "$value < $least", "$value > $least"), Change(clamped, "-$key", "$key")):
        assert clamped(1, 3, 9) == 9
        assert clamped(10, 3, 9) == 9
        assert "value > least" in inspect.getsource(clamped)
    assert clamped(1, 3, 9) == 3


def test_it_is_taken_back_where_the_block_fails() -> None:
    with pytest.raises(ZeroDivisionError), planted(Change(clamped, "$value < $least", "1 / 0")):
        clamped(1, 3, 9)
    assert clamped(1, 3, 9) == 3


def test_what_a_function_takes_from_around_it_stays() -> None:
    add, other = adding(3), adding(5)
    with planted(Change(add, "$number + $step", "$number - $step")):
        assert (add(1), other(1)) == (-2, 6)
    with planted(Change(add, "$number + step", "$number")):
        assert add(1) == 1
    assert add(1) == 4


def test_methods_and_their_defaults() -> None:
    with planted(Change(Counter.__init__, "self.count = 0", "self.count = 10")):
        assert Counter().more() == 11
    assert Counter().more() == 1


def test_one_bug_in_another() -> None:
    with planted(Change(clamped, "$value < $least", "$value > $least")):
        with planted(Change(clamped, "$value > $least", "$value == 1")):
            assert clamped(1, 3, 9) == 3
        assert clamped(1, 3, 9) == 1
    assert clamped(1, 3, 9) == 3


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(AssertionError, match="no function"), planted(Change(len, "$a", "$b")):
        pass
