"""A loop over a tuple of unknown length that is cut in order: its invariant knows how many turns there were."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cacheproof.prove.executor import NotFollowedError, both, demand, explore
from cacheproof.prove.loops import Locals, Loop, followed
from cacheproof.prove.sequences import SymbolicSequence, length
from cacheproof.prove.shapes import INTEGER
from cacheproof.prove.solvers import Answer, first_opinion, goal_of


def turns(several: Any) -> Any:
    """How many there are, one by one."""
    number = 0
    for one in several:
        number = number + (one - one) + 1
    return number


def turns_but_one(last: Any) -> Any:
    """Likewise, of a range that does not begin at 0."""
    number = 0
    for _ in range(1, last):
        number = number + 1
    return number


def cut(invariant: Callable[[Locals], Any]) -> Loop:
    """The loop with this and with a place in the tuple, or behind it."""

    def holds(entry: Locals, now: Locals) -> Iterator[Any]:
        yield both(now["one_at"] >= 0, length(now["several"]) >= now["one_at"])
        yield invariant(now)

    return Loop(turns, "loops", holds, in_order=True)


def verdicts(loop: Loop) -> list[bool]:
    """Whether each demand about the loop, and the last one about its result, follows."""

    def body() -> None:
        several = SymbolicSequence.fresh(INTEGER, "several")
        demand("all of them", turns(several) == length(several))

    with followed((sys.modules[__name__],), (loop,)):
        goals = [goal_of(one) for path in explore(body) for one in path.demands]
    return [goal is None or first_opinion(goal, ())[0] is Answer.FOLLOWS for goal in goals]


def test_every_turn_is_counted() -> None:
    assert set(verdicts(cut(lambda now: now["number"] == now["one_at"]))) == {True}


@pytest.mark.parametrize(
    "invariant",
    [lambda now: now["number"] >= 0, lambda now: now["number"] == 2 * now["one_at"]],
    ids=["forgets the number", "counts twice"],
)
def test_an_invariant_that_does_not_do_is_noticed(invariant: Any) -> None:
    assert False in verdicts(cut(invariant))


def test_other_loops_are_refused() -> None:
    loop = Loop(turns_but_one, "loops", lambda entry, now: [], in_order=True)
    with pytest.raises(NotFollowedError, match="in order"), followed((), (loop,)):
        pass
