"""Lets the specification's loops go up to an unknown number: each turn asks whether there is one more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from cacheproof.prove.executor import SymbolicInteger
from cacheproof.prove.implementation.finite_lists import FiniteRow
from cacheproof.prove.loops import SPLICED, followed


def finite_range(*bounds: Any) -> Iterable[Any]:
    """`range`, up to unknown numbers too; its start must be known."""
    if all(type(bound) is not SymbolicInteger for bound in bounds):
        return range(*bounds)
    return _counted(*bounds)


def _counted(*bounds: Any) -> Iterator[Any]:
    number, last = (0, bounds[0]) if len(bounds) == 1 else bounds
    while number < last:
        yield number
        number = number + 1


def finite_splice(*parts: tuple[bool, Any]) -> FiniteRow:
    """`(*several, one)`, each part with whether it was starred."""
    return FiniteRow(item for starred, part in parts for item in (part if starred else (part,)))


@contextmanager
def finite(modules: Iterable[ModuleType]) -> Iterator[None]:
    """Run these modules with that `range`, tuples that are read at unknown positions, and their own `len`."""
    everywhere = tuple(modules)
    own = (("range", finite_range), ("len", len), (SPLICED, finite_splice))
    replaced = [(module, name, value) for module in everywhere for name, value in own]
    with followed(everywhere, (), replaced):
        yield
