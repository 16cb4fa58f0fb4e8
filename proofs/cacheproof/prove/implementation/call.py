"""One call of a graph as its kind sees it: the shape of the result, and where demands go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import NotFollowedError
from cacheproof.prove.implementation.cells import Cell, every, is_term, known, term
from cacheproof.prove.implementation.tensors import CellTensor, filled


@dataclass(slots=True)
class Duties:
    """The demands and assumptions of one run over a graph."""

    inside: list[Cell] = field(default_factory=list)
    """Every index lies in its tensor, every divisor is positive, and every searched tensor is sorted."""
    widths: list[tuple[Cell, torch.dtype]] = field(default_factory=list)
    """Every number that arithmetic made, with the type that has to hold it."""
    choices: list[Cell] = field(default_factory=list)
    """Assumptions on values that torch leaves open: which of several writes to one element stays."""

    def fresh(self, name: str, *, truth: bool = False) -> Cell:
        """A value of which nothing is known. No path names one like this."""
        return z3.FreshConst(z3.BoolSort() if truth else z3.IntSort(), f"{name}?")

    def demand_inside(self, condition: Cell) -> None:
        """Without this the call is undefined."""
        if is_term(condition) or not condition:
            self.inside.append(condition)

    def fits(self) -> Cell:
        """Whether every number fits its type."""
        seen: dict[tuple[int, torch.dtype], Cell] = {}
        for cell, dtype in self.widths:
            seen[(cell.get_id(), dtype)] = cell
        return every(_within(cell, dtype) for (_, dtype), cell in seen.items())


def _within(cell: Cell, dtype: torch.dtype) -> Cell:
    limits = torch.iinfo(dtype)
    return z3.And(term(cell) >= limits.min, term(cell) <= limits.max)


@dataclass(frozen=True, slots=True)
class Result:
    """Shape and type of one result."""

    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class Call:
    """One node of a graph."""

    target: Callable[..., Any]
    duties: Duties
    results: tuple[Result, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the only result."""
        return self.results[0].shape

    @property
    def dtype(self) -> torch.dtype:
        """Of the only result."""
        return self.results[0].dtype

    def tensor(self, cells: Any, place: int = 0) -> CellTensor:
        """The result of these cells."""
        return filled(self.results[place].shape, self.results[place].dtype, map(known, cells))

    def computed(self, cells: Any, place: int = 0) -> CellTensor:
        """The result of these cells, which arithmetic has made: each has to fit its type."""
        made = self.tensor(cells, place)
        if made.dtype != torch.bool:
            self.duties.widths.extend((cell, made.dtype) for cell in made.cells if is_term(cell))
            limits = torch.iinfo(made.dtype)
            if any(not is_term(cell) and not limits.min <= cell <= limits.max for cell in made.cells):
                raise NotFollowedError(f"a known number does not fit {made.dtype}")
        return made

    def operand(self, value: Any) -> CellTensor:
        """A tensor or a number as a tensor of the shape of the result."""
        if isinstance(value, CellTensor):
            return value.broadcast(self.shape)
        if type(value) not in (int, bool):
            raise NotFollowedError(f"{self.target}: a number of type {type(value).__name__} is not followed")
        count = len(self.places)
        return CellTensor(self.shape, torch.bool if type(value) is bool else torch.int64, (value,) * count)

    @property
    def places(self) -> range:
        """The numbers of the elements of the result."""
        count = 1
        for size in self.shape:
            count *= size
        return range(count)


Kind = Callable[..., Any]
"""`(call, *arguments, **keywords)`, tensors as tensors of cells, to the result or results."""
