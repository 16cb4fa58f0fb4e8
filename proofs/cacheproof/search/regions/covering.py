"""Which configurations no region covers yet: a solver names one, the least first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cacheproof.search.regions.decisions import Decisions, Symbol, Weights
from cacheproof.search.regions.unknowns import Unknown

MOST = 1 << 12
"""Numbers up to this are preferred, the least first; beyond it there is no order."""


class Covering:
    """The unknowns within their bounds, without the regions that were explored."""

    def __init__(self, every: Sequence[Unknown]) -> None:
        import z3  # type: ignore[import-untyped]  # noqa: PLC0415  # comes with an extra, and ships no types

        self.z3 = z3
        self.symbols = [z3.Int(str(one)) for one in every]
        self.solver = z3.SolverFor("QF_LIA")
        for symbol, one in zip(self.symbols, every, strict=True):
            self.solver.add(symbol >= one.low)
            if one.high is not None:
                self.solver.add(symbol <= one.high)
        self.most: int | None = max((one.low for one in every), default=0) or 1

    def uncovered(self) -> tuple[int, ...] | None:
        """Values of the unknowns in no region that was explored; None if there are none."""
        while True:
            limits = [] if self.most is None else [symbol <= self.most for symbol in self.symbols]
            answer = self.solver.check(*limits)
            if answer == self.z3.unknown:
                raise UndecidedError(self.solver.reason_unknown())
            if answer == self.z3.sat:
                model = self.solver.model()
                return tuple(model.eval(symbol, model_completion=True).as_long() for symbol in self.symbols)
            if self.most is None:
                return None
            self.most = 2 * self.most if self.most < MOST else None

    def cover(self, decisions: Decisions) -> None:
        """The configurations that answer as these decisions say are explored."""
        self.solver.add(self.z3.Or(*self._otherwise(decisions)))

    def _otherwise(self, decisions: Decisions) -> Iterator[Any]:
        for weights, (low, high) in decisions.intervals.items():
            if low is not None:
                yield self._sum(weights) < low
            if high is not None:
                yield self._sum(weights) > high
        for weights, values in decisions.holes.items():
            yield from (self._sum(weights) == value for value in sorted(values))

    def _sum(self, weights: Weights) -> Any:
        return self.z3.Sum([weight * self._term(symbol) for symbol, weight in weights])

    def _term(self, symbol: Symbol) -> Any:
        """For a positive divisor, the solver divides as Python does."""
        if symbol[0] == 0:
            return self.symbols[symbol[1]]
        _, form, divisor = symbol
        return (form.constant + self._sum(form.weights)) / divisor


class UndecidedError(Exception):
    """The solver does not know whether a configuration is left."""
