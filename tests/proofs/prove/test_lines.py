"""Lines, pairs and counted tuples do what tuples do; what they cannot follow is refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import NotFollowedError, Path, following
from cacheproof.prove.histories import spliced
from cacheproof.prove.lines import Line, Shares
from cacheproof.prove.sequences import SymbolicSequence, filtered, numbered
from cacheproof.prove.shapes import INTEGER
from cacheproof.prove.solvers import satisfiable
from cacheproof.prove.two_of_many import mapped


def must_hold(formula: Any, path: Path) -> bool:
    """Whether the formula follows from what the path assumes."""
    return not satisfiable((*path.assumptions, z3.Not(formula)))


@pytest.mark.parametrize("members", [(), (3,), *permutations((1, 2, 3))])
@pytest.mark.parametrize("gone", [1, 2, 3, 4])
def test_a_member_is_left_out_and_the_others_move_up(members: tuple[int, ...], gone: int) -> None:
    with following(Path()) as path:
        left = filtered(lambda member: member != gone, Line.of(members))
        wanted = tuple(member for member in members if member != gone)
        assert must_hold(left.equals(Line.of(wanted)).term, path)
        assert must_hold(left.distinct().term, path)
        assert not must_hold(left.equals(Line.of((*wanted, 9))).term, path)
        assert all(must_hold(demand.formula, path) for demand in path.demands)


def test_a_line_with_a_member_twice_is_not_distinct() -> None:
    with following(Path()) as path:
        line = Line.of((1, 2, 1))
        assert must_hold(z3.Not(line.distinct().term), path)
        line.without(z3.IntVal(2))
        assert not all(must_hold(demand.formula, path) for demand in path.demands)


def test_the_first_member_is_taken_away_and_others_are_added() -> None:
    with following(Path()) as path:
        line = spliced((True, Line.of((4, 5))[1:]), (False, 6))
        assert must_hold(line.equals(Line.of((5, 6))).term, path)
        assert [str(member.term) for member in line] == ["5", "6"]


def test_pairs_have_a_sum_and_a_number_for_each_request() -> None:
    with following(Path()) as path:
        pairs = spliced((True, Shares.of((7, 2))), (False, 8), (False, 3))
        assert must_hold(pairs.total == 5, path)
        assert must_hold(z3.And(pairs.served[8], pairs.given[8] == 3, z3.Not(pairs.served[9])), path)
        assert must_hold(pairs[::2].equals(Line.of((7, 8))).term, path)


def test_one_value_is_replaced_and_the_counts_follow() -> None:
    with following(Path()) as path:
        values = SymbolicSequence.of(INTEGER, (1, 2, 1)).counted()
        after = spliced((True, values[:1]), (False, 1), (True, values[2:]))
        assert must_hold(after.same_as(SymbolicSequence.of(INTEGER, (1, 1, 1))).term, path)
        assert must_hold(z3.And(after.count(1).term == 3, after.count(2).term == 0), path)
        assert not must_hold(values.same_as(after).term, path)


def test_a_tuple_of_unknown_length_is_mapped_to_a_constant() -> None:
    with following(Path()) as path:
        values = mapped(lambda value: 0, SymbolicSequence.fresh(INTEGER, "values")).counted()
        assert must_hold(values.count(0).term == values.length, path)


@pytest.mark.parametrize(
    "use",
    [
        lambda line, values: line[2:],
        lambda line, values: line[:1],
        lambda line, values: list(line),
        lambda line, values: filtered(lambda member: member > 3, line),
        lambda line, values: filtered(lambda member: member == 3, line),
        lambda line, values: line == values,
        lambda line, values: spliced((False, 1), (True, line)),
        lambda line, values: spliced((True, line), (True, line)),
        lambda line, values: Shares.empty()[1::2],
        lambda line, values: mapped(lambda value: value + 1, values),
        lambda line, values: list(numbered(values)),
        lambda line, values: values.count(1),
        lambda line, values: values.counted(),
        lambda line, values: spliced((True, values[:1]), (False, 1), (True, values[3:])),
        lambda line, values: spliced((True, values[:1]), (False, 1)),
        lambda line, values: spliced((True, values[:1]), (False, 1), (False, 1), (True, values[2:])),
    ],
)
def test_what_cannot_be_followed_is_refused(use: Callable[[Line, SymbolicSequence], Any]) -> None:
    with following(Path()):
        line, values = Line.fresh("line"), SymbolicSequence.fresh(INTEGER, "values")
        with pytest.raises(NotFollowedError):
            use(line, values)
