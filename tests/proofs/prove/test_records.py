"""Tuples of records of unknown length: how code cuts and joins them, and where a record is found."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import NotFollowedError, SymbolicBoolean, assume, both, demand, explore, integer
from cacheproof.prove.loops import followed
from cacheproof.prove.records import Records
from cacheproof.prove.sequences import length
from cacheproof.prove.solvers import Answer, first_opinion, goal_of

KEY = z3.Int("key")


def without(several: Any, place: Any) -> Any:
    """All but one."""
    return (*several[:place], *several[place + 1 :])


def followed_by_a_range(several: Any, first: Any, last: Any) -> Any:
    """With a record for each number of a range."""
    return (*several, *((number, 2 * number) for number in range(first, last)))


def followed_by_some(several: Any, count: Any) -> Any:
    """With a record for each number, and two that are known."""
    return (*several, *tuple((number, 7) for number in range(count)), *((-1, 8), (-2, 9)))


def all_differ(several: Any, key: Any) -> bool:
    """Whether no record has the key."""
    return all(one != key for one, _ in several)


def verdicts(body: Callable[[Records], Any]) -> list[bool]:
    """Whether each demand of the body follows, for any tuple of pairs."""

    def on_any() -> None:
        several = Records.any(lambda *parts: parts, 2, 0, "several")
        assume(SymbolicBoolean(several.are_found()))
        body(several)

    with followed((sys.modules[__name__],), ()):
        goals = [goal_of(one) for path in explore(on_any) for one in path.demands]
    return [goal is None or first_opinion(goal, ())[0] is Answer.FOLLOWS for goal in goals]


def test_one_is_left_out() -> None:
    def body(several: Records) -> None:
        place = integer("place")
        assume(both(place >= 0, place < length(several)))
        key, _ = several[place]
        left = without(several, place)
        demand("length", length(left) == length(several) - 1)
        demand("found", SymbolicBoolean(left.are_found()))
        others = z3.And(several.has(KEY), key.term != KEY)
        demand("the others stay", SymbolicBoolean(left.has(KEY) == others))
        demand("nothing else", SymbolicBoolean(left.has(KEY) == several.has(KEY)))

    assert verdicts(body)[-4:] == [True, True, True, False]


def test_a_range_is_put_behind() -> None:
    def body(several: Records) -> None:
        first, last = integer("first"), integer("last")
        assume(SymbolicBoolean(z3.Implies(several.has(KEY), first.term > KEY)))
        longer = followed_by_a_range(several, first, last)
        new = z3.And(first.term <= KEY, last.term > KEY)
        demand("members", SymbolicBoolean(longer.has(KEY) == z3.Or(several.has(KEY), new)))
        demand("values", SymbolicBoolean(z3.Implies(new, longer.columns[1][longer.place_of[KEY]] == 2 * KEY)))
        demand("length", length(longer) == length(several) + (last - first))
        assume(last >= first)
        demand("length if it does not run backwards", length(longer) == length(several) + (last - first))

    assert verdicts(body) == [True, True, False, True]


def test_known_records_are_put_behind() -> None:
    def body(several: Records) -> None:
        count = integer("count")
        assume(count >= 0)
        longer = followed_by_some(several, count)
        demand("length", length(longer) == length(several) + count + 2)
        demand("last", longer[length(longer) - 1][1] == 9)
        demand("before it", longer[length(several) + count][0] == -1)
        demand("place", SymbolicBoolean(longer.place_of[z3.IntVal(-2)] == longer.next - 1))

    assert set(verdicts(body)) == {True}


def test_what_is_said_of_all_is_followed() -> None:
    def body(several: Records) -> None:
        key = integer("key")
        said = all_differ(several, key)
        demand("it is so", SymbolicBoolean(several.has(key.term) != z3.BoolVal(bool(said))))

    assert set(verdicts(body)) == {True}


def test_a_known_tuple_is_listed() -> None:
    def body(several: Records) -> None:
        known = Records.of(lambda *parts: parts, 2, 0, [(5, 6), (7, 8)])
        (last,) = known[1:]
        demand("the last", both(last[0] == 7, last[1] == 8))

    assert set(verdicts(body)) == {True}


@pytest.mark.parametrize("use", [len, list, lambda one: one[1:2], lambda one: one[::2]])
def test_other_uses_are_refused(use: Callable[[Records], Any]) -> None:
    with pytest.raises(NotFollowedError):
        verdicts(use)


def test_a_position_that_may_be_missing_is_noticed() -> None:
    assert verdicts(lambda several: several[2:]) == [False]
    assert verdicts(lambda several: several[:1]) == [False]
