"""A queue of unknown length: what code may do with it, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import NotFollowedError, SymbolicInteger, assume, both, demand, explore
from cacheproof.prove.fifo import Fifo
from cacheproof.prove.histories import spliced
from cacheproof.prove.sequences import length
from cacheproof.prove.solvers import Answer, first_opinion, goal_of
from cachespec.mirror.protocol import Answer as Entry


def with_queue(body: Callable[[Fifo], Any]) -> list[bool]:
    """Whether each demand of the body follows, for any queue of answers."""
    paths = explore(lambda: body(Fifo.fresh(Entry, (z3.IntSort(),) * 3, "queue")))
    goals = [goal_of(one) for path in paths for one in path.demands]
    return [goal is None or first_opinion(goal, ())[0] is Answer.FOLLOWS for goal in goals]


def test_what_joins_comes_last() -> None:
    def body(queue: Fifo) -> None:
        longer = spliced((True, queue), (False, Entry(5, 6, 7)))
        assert type(longer) is Fifo
        demand("length", length(longer) == length(queue) + 1)
        demand("last", longer[length(queue)].expected == 6)
        assume(queue != ())
        demand("the first stays", longer[0].expected == queue[0].expected)

    assert set(with_queue(body)) == {True}


def test_the_second_becomes_the_first() -> None:
    def body(queue: Fifo) -> None:
        assume(length(queue) > 1)
        demand("the second", queue[1:][0].verdict == queue[1].verdict)
        demand("length", length(queue[1:]) == length(queue) - 1)

    assert set(with_queue(body)) == {True}


def test_a_position_that_may_be_missing_is_noticed() -> None:
    assert with_queue(lambda queue: queue[0]) == [False]
    assert with_queue(lambda queue: queue[1:]) == [False]


def test_what_holds_of_every_entry_holds_of_the_first() -> None:
    def body(queue: Fifo) -> None:
        assume(both(queue.every(lambda _, entry: entry.generation > 3), queue != ()))
        demand("first", queue[0].generation > 3)
        demand("of one more", spliced((True, queue), (False, Entry(3, 0, 0))).every(lambda _, one: one.generation > 3))

    assert with_queue(body) == [True, True, False]


@pytest.mark.parametrize(
    "use",
    [
        len,
        list,
        lambda queue: queue[2:],
        lambda queue: queue[:1],
        lambda queue: queue[1:2],
        lambda queue: queue == (Entry(0, 0, 0),),
        lambda queue: spliced((False, Entry(0, 0, 0)), (True, queue)),
        lambda queue: spliced((True, queue), (True, queue)),
        lambda queue: SymbolicInteger(queue.first) in queue,
    ],
)
def test_other_uses_are_refused(use: Callable[[Fifo], Any]) -> None:
    with pytest.raises(NotFollowedError):
        with_queue(use)
