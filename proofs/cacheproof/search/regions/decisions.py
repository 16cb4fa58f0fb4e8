"""What a run in one configuration has asked about its numbers, and with which answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd
from typing import Any, NamedTuple

Symbol = tuple[Any, ...]
"""An unknown by its number, `(0, number)`, or the quotient of a form by a positive integer, `(1, form, divisor)`."""
Weights = tuple[tuple[Symbol, int], ...]
"""Symbols, ascending, each with its factor, which is not 0."""


class Form(NamedTuple):
    """A constant and a weighted sum of symbols."""

    constant: int
    weights: Weights = ()

    def plus(self, other: Form, factor: int = 1) -> Form:
        """The sum of this one and a multiple of the other."""
        if not other.weights:
            return Form(self.constant + factor * other.constant, self.weights)
        return _sum(self, other, factor)

    def minus(self, other: Form) -> Form:
        """The difference."""
        return self.plus(other, -1)

    def over(self, divisor: int) -> Form:
        """The quotient by a positive integer, rounded down. Parts that it divides are taken out."""
        whole = tuple((symbol, weight // divisor) for symbol, weight in self.weights if weight // divisor)
        rest = tuple((symbol, weight % divisor) for symbol, weight in self.weights if weight % divisor)
        if not rest:
            return Form(self.constant // divisor, whole)
        quotient: Symbol = (1, Form(self.constant % divisor, rest), divisor)
        return Form(self.constant // divisor, whole).plus(Form(0, ((quotient, 1),)))

    def at(self, values: Sequence[int]) -> int:
        """Its value in the configuration in which the unknowns have these."""
        return self.constant + sum(weight * value_of_symbol(symbol, values) for symbol, weight in self.weights)


def value_of_symbol(symbol: Symbol, values: Sequence[int]) -> int:
    """The value of an unknown or of a quotient."""
    if symbol[0] == 0:
        return values[symbol[1]]
    _, form, divisor = symbol
    return int(form.at(values) // divisor)


@lru_cache(1 << 16)
def _sum(form: Form, other: Form, factor: int) -> Form:
    """Few sums are met, and each very often."""
    sums = dict(form.weights)
    for symbol, weight in other.weights:
        sums[symbol] = sums.get(symbol, 0) + factor * weight
    weights = tuple(sorted((symbol, weight) for symbol, weight in sums.items() if weight))
    return Form(form.constant + factor * other.constant, weights)


NOTHING = Form(0)


class Interval(NamedTuple):
    """Whole numbers between two bounds, both included; None where there is no bound."""

    low: int | None = None
    high: int | None = None

    def above(self, low: int) -> Interval:
        """Those of at least so much."""
        return Interval(low if self.low is None else max(low, self.low), self.high)

    def below(self, high: int) -> Interval:
        """Those of at most so much."""
        return Interval(self.low, high if self.high is None else min(high, self.high))

    def has(self, number: int) -> bool:
        """Whether it is one of them."""
        return (self.low is None or self.low <= number) and (self.high is None or number <= self.high)


class Decisions:
    """An interval for each weighted sum that was compared, and values that it does not have.

    Where all sums are inside and none has such a value, all answers are the same. A sum is kept without a common
    divisor, and with a positive first factor, so that each is kept once.
    """

    def __init__(self) -> None:
        self.intervals: dict[Weights, Interval] = {}
        self.holes: dict[Weights, set[int]] = {}
        self.paused = False
        """Whether answers are given and not kept: what is done with them concerns this configuration only."""
        self._known: set[tuple[Form, bool]] = set()

    def at_least_zero(self, form: Form, value: int) -> bool:
        """Whether the form is at least 0, where it has this value in the configuration of the run."""
        if self._is_new(form, equal=False):
            total, divisor = normalised(form)
            least = -(form.constant // abs(divisor))
            interval = self.intervals.get(total, Interval())
            if (value >= 0) == (divisor > 0):
                self.intervals[total] = interval.above(least if value >= 0 else 1 - least)
            else:
                self.intervals[total] = interval.below(-least if value >= 0 else least - 1)
        return value >= 0

    def is_zero(self, form: Form, value: int) -> bool:
        """Whether it is 0."""
        if self._is_new(form, equal=True):
            total, divisor = normalised(form)
            zero, remainder = divmod(-form.constant, divisor)
            interval = self.intervals.get(total, Interval())
            if value == 0:
                self.intervals[total] = interval.above(zero).below(zero)
            elif remainder == 0 and interval.has(zero):
                self.holes.setdefault(total, set()).add(zero)
        return value == 0

    def _is_new(self, form: Form, *, equal: bool) -> bool:
        if self.paused or not form.weights or (form, equal) in self._known:
            return False
        self._known.add((form, equal))
        return True


def normalised(form: Form) -> tuple[Weights, int]:
    """The sum without its common divisor and with a positive first factor, and what it was divided by."""
    divisor = gcd(*(weight for _, weight in form.weights))
    factor = divisor if form.weights[0][1] > 0 else -divisor
    return tuple((symbol, weight // factor) for symbol, weight in form.weights), factor
