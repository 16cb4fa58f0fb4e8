"""Lets the specification's loops go up to an unknown number: each turn asks whether there is one more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from cacheproof.prove.executor import NotFollowedError, SymbolicInteger
from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.finite import cell_of, value_of
from cacheproof.prove.implementation.finite_copies import Copies
from cacheproof.prove.implementation.finite_lists import FiniteRow
from cacheproof.prove.loops import SPLICED, followed


def finite_range(*bounds: Any) -> Iterable[Any]:
    """`range`, between unknown numbers too; an unknown start is not negative, and the path decides which it is."""
    if all(type(bound) is not SymbolicInteger for bound in bounds):
        return range(*bounds)
    return _counted(*bounds)


def _counted(*bounds: Any) -> Iterator[Any]:
    first, last = (0, bounds[0]) if len(bounds) == 1 else bounds
    number = _told(first) if type(first) is SymbolicInteger else first
    while number < last:
        yield number
        number = number + 1


def _told(number: SymbolicInteger) -> int:
    """The number on this path."""
    if number < 0:
        raise NotFollowedError("a range starts at an unknown negative number")
    told = 0
    while number > told:
        told += 1
    return told


def finite_max(*numbers: Any, **options: Any) -> Any:
    """`max`; of unknown numbers without a decision."""
    if all(type(one) is not SymbolicInteger for one in numbers):
        return max(*numbers, **options)
    return value_of(cells.fold(cells.larger, map(cell_of, numbers)))


def finite_min(*numbers: Any, **options: Any) -> Any:
    """`min`; of unknown numbers without a decision."""
    if all(type(one) is not SymbolicInteger for one in numbers):
        return min(*numbers, **options)
    return value_of(cells.fold(cells.smaller, map(cell_of, numbers)))


def finite_len(one: Any) -> Any:
    """`len`; how many copies there are stays unknown."""
    return one.length if type(one) is Copies else len(one)


def finite_splice(*parts: tuple[bool, Any]) -> Any:
    """`(*several, one)`, each part with whether it was starred."""
    (starred, several), *others = parts
    if starred and type(several) is Copies and [is_starred for is_starred, _ in others] == [False]:
        return several.with_last(others[0][1])
    return FiniteRow(item for starred, part in parts for item in (part if starred else (part,)))


@contextmanager
def finite(modules: Iterable[ModuleType], instead: Iterable[tuple[ModuleType, str, Any]] = ()) -> Iterator[None]:
    """Run these modules with the functions of this one; the names in `instead` have these values."""
    everywhere = tuple(modules)
    own = (
        ("range", finite_range),
        ("len", finite_len),
        ("max", finite_max),
        ("min", finite_min),
        (SPLICED, finite_splice),
    )
    replaced = [*((module, name, value) for module in everywhere for name, value in own), *instead]
    with followed(everywhere, (), replaced):
        yield
