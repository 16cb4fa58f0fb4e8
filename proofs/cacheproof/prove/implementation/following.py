"""Lets the specification's loops go up to an unknown number: each turn asks whether there is one more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from cacheproof.prove.executor import SymbolicInteger
from cacheproof.prove.loops import followed


def finite_range(*bounds: Any) -> Iterable[Any]:
    """`range`, up to unknown numbers too; where it begins must be known."""
    if all(type(bound) is not SymbolicInteger for bound in bounds):
        return range(*bounds)
    return _counted(*bounds)


def _counted(*bounds: Any) -> Iterator[Any]:
    number, last = (0, bounds[0]) if len(bounds) == 1 else bounds
    while number < last:
        yield number
        number = number + 1


@contextmanager
def finite(modules: Iterable[ModuleType]) -> Iterator[None]:
    """Run these modules with that `range`, and their own `len`."""
    everywhere = tuple(modules)
    replaced = [
        (module, name, value) for module in everywhere for name, value in (("range", finite_range), ("len", len))
    ]
    with followed(everywhere, (), replaced):
        yield
