"""Maps and queues as terms answer as the frozen ones do, and their ghosts say what those count."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.containers import SymbolicMap, SymbolicQueue
from cacheproof.prove.executor import NotFollowedError, Path, boolean_term, following, integer_term
from cacheproof.prove.shapes import INTEGER, shape_of
from cacheproof.prove.states import fresh_map, fresh_queue, map_of, queue_of, tallied
from cachespec.kernel.containers import FrozenMap, FrozenQueue

KEYS = range(4)
NOBODY = -1


@contextmanager
def a_path() -> Iterator[Path]:
    with following(Path()) as path:
        yield path


def number(value: Any) -> int:
    """The number that a term of constants is."""
    return int(z3.simplify(integer_term(value)).as_long())


def truth(value: Any) -> bool:
    return bool(z3.is_true(z3.simplify(boolean_term(value))))


def chosen(path: Path, value: Any) -> int:
    """The number that the path's assumptions leave: there is exactly one."""
    solver = z3.Solver()
    solver.add(*path.assumptions)
    assert solver.check() == z3.sat
    found = solver.model().eval(integer_term(value), model_completion=True)
    solver.add(integer_term(value) != found)
    assert solver.check() == z3.unsat
    return int(found.as_long())


@pytest.mark.parametrize("seed", range(5))
def test_a_map_follows_the_frozen_one(seed: int) -> None:
    random_number = random.Random(seed)
    with a_path():
        frozen: FrozenMap[int, int] = FrozenMap()
        symbolic: Any = map_of(INTEGER, INTEGER, ())
        for _ in range(12):
            key, value = random_number.choice(KEYS), random_number.randrange(5)
            if random_number.random() < 0.6:
                frozen, symbolic = frozen.set(key, value), symbolic.set(key, value)
            else:
                frozen, symbolic = frozen.remove(key), symbolic.remove(key)
            assert [truth(symbolic.has(one)) for one in KEYS] == [frozen.has(one) for one in KEYS]
            assert [number(symbolic.get(one, NOBODY)) for one in KEYS] == [frozen.get(one, NOBODY) for one in KEYS]
            assert (number(symbolic.length), number(symbolic.total)) == (frozen.length, frozen.total)


@pytest.mark.parametrize("seed", range(5))
def test_a_queue_follows_the_frozen_one(seed: int) -> None:
    random_number = random.Random(seed)
    frozen: FrozenQueue[int] = FrozenQueue()
    for _ in range(6):
        key, weight = random_number.choice(KEYS), random_number.randrange(5)
        change = random_number.choice([frozen.push, frozen.push, frozen.push_front])
        frozen = change(key, weight) if random_number.random() < 0.7 else frozen.remove(key)
        excluded = FrozenMap.of((one, 1) for one in KEYS if random_number.random() < 0.4)
        with a_path():
            symbolic = queue_of(INTEGER, frozen)
            assert [truth(symbolic.has(one)) for one in KEYS] == [frozen.has(one) for one in KEYS]
            weights = [number(symbolic.weight(one, NOBODY)) for one in KEYS]
            assert weights == [frozen.weight(one, NOBODY) for one in KEYS]
            assert (number(symbolic.length), number(symbolic.total)) == (frozen.length, frozen.total)
        assert eldest(frozen, None) == {frozen.oldest(NOBODY)}
        assert eldest(frozen, excluded) == {frozen.oldest_outside(excluded, NOBODY)}


def eldest(frozen: FrozenQueue[int], excluded: FrozenMap[int, int] | None) -> set[int]:
    """What the queue as terms gives as its oldest, on every way that is possible."""
    found = set()
    for prefix in ((True,), (False,)):
        with following(Path(prefix=prefix)) as path:
            symbolic = queue_of(INTEGER, frozen)
            if excluded is None:
                first = symbolic.oldest(NOBODY)
            else:
                first = symbolic.oldest_outside(map_of(INTEGER, INTEGER, excluded), NOBODY)
            solver = z3.Solver()
            if solver.check(*path.assumptions) == z3.sat:
                found.add(chosen(path, first))
    return found


def test_keys_may_be_pairs() -> None:
    with a_path():
        pairs = map_of(shape_of(tuple[int, int]), INTEGER, (((1, 2), 3),))
        assert truth(pairs.has((1, 2)))
        assert not truth(pairs.has((2, 1)))
        assert number(pairs.set((2, 1), 4).total) == 7


def test_a_tally_counts_the_keys_of_each_kind() -> None:
    with a_path():
        numbers = tallied(map_of(INTEGER, INTEGER, ((1, 0), (2, 0), (3, 0))), lambda key: key % 2, (1, 2, 3))
        more = numbers.set(5, 1).set(5, 2).remove(2).remove(2)
        assert numbers.tally is not None
        assert more.tally is not None
        assert [number_at(numbers.tally.counts, kind) for kind in (0, 1)] == [1, 2]
        assert [number_at(more.tally.counts, kind) for kind in (0, 1)] == [0, 3]


def number_at(array: Any, place: int) -> int:
    return int(z3.simplify(array[place]).as_long())


def test_a_negative_weight_is_demanded_away() -> None:
    with a_path() as path:
        fresh_map(INTEGER, INTEGER, "map").set(0, -1)
        fresh_queue(INTEGER, "queue").push(0, -1)
    assert [bool(z3.is_false(z3.simplify(one.formula))) for one in path.demands] == [True, True]


@pytest.mark.parametrize("use", [lambda one: one.items(), lambda one: one == (), lambda one: {one: 1}])
def test_a_container_of_unknown_length_is_not_listed_or_compared(use: Any) -> None:
    with a_path():
        for one in (fresh_map(INTEGER, INTEGER, "map"), fresh_queue(INTEGER, "queue")):
            assert type(one) in (SymbolicMap, SymbolicQueue)
            with pytest.raises((NotFollowedError, TypeError)):
                use(one)
