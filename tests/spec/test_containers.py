"""Frozen and rerooting containers are the same containers: histories that branch, and old versions read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachespec.kernel import FROZEN, REROOTING, Map, Queue
from cachespec.kernel.containers.rerooting import RerootingQueue

KEYS = st.integers(0, 5)
WEIGHTS = st.integers(0, 4)


class Move(NamedTuple):
    """A change of one version; `version` counts backwards from the newest."""

    version: int
    removes: bool
    key: int
    weight: int
    front: bool = False


MOVES = st.lists(
    st.builds(
        Move,
        version=st.one_of(st.just(0), st.integers(0, 30)),
        removes=st.booleans(),
        key=KEYS,
        weight=WEIGHTS,
        front=st.booleans(),
    ),
    max_size=40,
)
READS = st.lists(st.integers(0, 30), max_size=20)


def changed_map(version: Map[int, int], move: Move) -> Map[int, int]:
    return version.remove(move.key) if move.removes else version.set(move.key, move.weight)


def changed_queue(version: Queue[int], move: Move) -> Queue[int]:
    if move.removes:
        return version.remove(move.key)
    return version.push_front(move.key, move.weight) if move.front else version.push(move.key, move.weight)


def history(first: Any, change: Callable[[Any, Move], Any], moves: list[Move]) -> list[Any]:
    """All versions: each is made from the one that its move names."""
    versions = [first]
    for move in moves:
        versions.append(change(versions[max(0, len(versions) - 1 - move.version)], move))
    return versions


def map_shown(version: Map[int, int]) -> Any:
    """Everything that the interface shows."""
    members = [(version.has(key), version.get(key, -1)) for key in range(6)]
    return version.length, version.total, members, list(version.items())


def queue_shown(version: Queue[int], excluded: Map[int, int]) -> Any:
    members = [(version.has(key), version.weight(key, -1)) for key in range(6)]
    oldest = version.oldest(-1), version.oldest_outside(excluded, -1)
    return version.length, version.total, oldest, members, list(version.items())


@settings(max_examples=300, deadline=None)
@given(MOVES, READS)
def test_maps_agree_on_every_version(moves: list[Move], reads: list[int]) -> None:
    frozen = history(FROZEN.map(), changed_map, moves)
    rerooting = history(REROOTING.map(), changed_map, moves)
    for read in [*reads, *range(len(frozen)), *reversed(range(len(frozen)))]:
        assert map_shown(rerooting[read % len(frozen)]) == map_shown(frozen[read % len(frozen)])


@settings(max_examples=300, deadline=None)
@given(MOVES, READS, st.sets(KEYS))
def test_queues_agree_on_every_version(moves: list[Move], reads: list[int], excluded: set[int]) -> None:
    frozen = history(FROZEN.queue(), changed_queue, moves)
    rerooting = history(REROOTING.queue(), changed_queue, moves)
    outside: Any = FROZEN.map()
    for key in sorted(excluded):
        outside = outside.set(key, 1)
    for read in [*reads, *range(len(frozen)), *reversed(range(len(frozen)))]:
        expected = queue_shown(frozen[read % len(frozen)], outside)
        assert queue_shown(rerooting[read % len(frozen)], outside) == expected


@settings(max_examples=200, deadline=None)
@given(MOVES, MOVES)
def test_rerooting_containers_are_equal_where_frozen_ones_are(moves: list[Move], others: list[Move]) -> None:
    frozen = [history(FROZEN.queue(), changed_queue, each)[-1] for each in (moves, others)]
    rerooting = [history(REROOTING.queue(), changed_queue, each)[-1] for each in (moves, others)]
    assert (rerooting[0] == rerooting[1]) == (frozen[0] == frozen[1])
    frozen = [history(FROZEN.map(), changed_map, each)[-1] for each in (moves, others)]
    rerooting = [history(REROOTING.map(), changed_map, each)[-1] for each in (moves, others)]
    assert (rerooting[0] == rerooting[1]) == (frozen[0] == frozen[1])


def test_containers_of_different_sorts_are_not_equal() -> None:
    assert REROOTING.map() != REROOTING.queue()
    assert REROOTING.queue() != FROZEN.queue()


def test_rerooting_containers_have_no_hash() -> None:
    with pytest.raises(TypeError):
        hash(REROOTING.map())


def test_a_change_leaves_the_old_version_as_it_was() -> None:
    old = REROOTING.queue().push(1, 5).push(2, 6)
    new = old.push(1, 7).remove(2)
    assert list(new.items()) == [(1, 7)]
    assert list(old.items()) == [(1, 5), (2, 6)]
    assert list(new.items()) == [(1, 7)]


@pytest.mark.parametrize("containers", [FROZEN, REROOTING])
def test_the_front_is_taken_first_and_the_newest_at_the_front_before_that(containers: Any) -> None:
    queue = containers.queue().push(1, 5).push(2, 6).push_front(3, 7).push_front(2, 8)
    assert list(queue.items()) == [(2, 8), (3, 7), (1, 5)]
    assert (queue.oldest(-1), queue.remove(2).oldest(-1), queue.total) == (2, 3, 20)


class Counting:
    """Stands for a body, and counts the changes that are made to it and to its copies."""

    made = 0

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.turned = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __iter__(self) -> Any:
        return iter(self.inner)

    def apply(self, change: Any) -> Any:
        Counting.made += 1
        return self.inner.apply(change)

    def copy(self) -> Any:
        Counting.made += len(self.inner.weights)
        return Counting(self.inner.copy())


def counted_work(rounds: int) -> int:
    """Changes and copied keys of two branches of a long queue that are changed in turn."""
    base = REROOTING.queue()
    for key in range(1000):
        base = base.push(key, 1)
    assert isinstance(base, RerootingQueue)
    base._body = Counting(base._body)
    Counting.made = 0
    left: Any = base
    right: Any = base
    for turn in range(rounds):
        left, right = left.push(turn, 2), right.push(turn, 3)
    assert (left.total, right.total) == (1000 + rounds, 1000 + 2 * rounds)
    return Counting.made


def test_two_branches_that_are_changed_in_turn_part_and_stop_paying_for_the_way_between_them() -> None:
    """Turning the chain each time would take about 500 x 500 changes for 500 rounds of this queue."""
    assert counted_work(500) < 5000


def test_a_run_that_only_goes_forward_makes_one_change_for_each_operation() -> None:
    queue: Any = REROOTING.queue()
    queue._body = Counting(queue._body)
    Counting.made = 0
    for key in range(300):
        queue = queue.push(key, 1)
        queue = queue.remove(queue.oldest(-1)) if queue.length > 100 else queue
    assert Counting.made == 500
