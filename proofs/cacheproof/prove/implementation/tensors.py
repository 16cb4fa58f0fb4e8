"""A tensor of cells: a shape, a type, and the elements row by row.

torch itself does operations that only move elements, on the numbers of the elements: `moved` asks the operation of the
graph for the origin of each element of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from cacheproof.prove.executor import NotFollowedError
from cacheproof.prove.implementation.cells import Cell, number, truth


@dataclass(frozen=True, slots=True)
class CellTensor:
    """A tensor of fixed shape whose elements are cells: truth values if the type is bool, otherwise numbers."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    cells: tuple[Cell, ...]

    def __post_init__(self) -> None:
        if prod(self.shape) != len(self.cells):
            raise NotFollowedError(f"{len(self.cells)} cells for the shape {self.shape}")

    @property
    def places(self) -> Tensor:
        """The number of each element, in the shape of the tensor."""
        return torch.arange(len(self.cells)).reshape(self.shape)

    def at(self, places: Tensor) -> CellTensor:
        """The elements of these numbers, in the shape of the numbers."""
        return CellTensor(tuple(places.shape), self.dtype, tuple(self.cells[place] for place in listed(places)))

    def broadcast(self, shape: Sequence[int]) -> CellTensor:
        """Repeated along new axes and axes of size 1."""
        return self if self.shape == tuple(shape) else self.at(self.places.broadcast_to(tuple(shape)))

    def to(self, dtype: torch.dtype) -> CellTensor:
        """The tensor with another type; widths are checked when the result is made."""
        if dtype.is_floating_point or dtype.is_complex:
            raise NotFollowedError(f"numbers of type {dtype} are not followed")
        convert = truth if dtype == torch.bool else number
        return CellTensor(self.shape, dtype, tuple(convert(cell) for cell in self.cells))


def listed(places: Tensor) -> list[int]:
    """The numbers row by row."""
    numbers: list[int] = places.reshape(-1).tolist()
    return numbers


def of(tensor: Tensor) -> CellTensor:
    """A tensor whose elements are known."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        raise NotFollowedError(f"numbers of type {tensor.dtype} are not followed")
    return CellTensor(tuple(tensor.shape), tensor.dtype, tuple(tensor.reshape(-1).tolist()))


def filled(shape: Sequence[int], dtype: torch.dtype, cells: Iterable[Cell]) -> CellTensor:
    """A tensor of these cells, as its type has them."""
    return CellTensor(tuple(shape), dtype, tuple(cells)).to(dtype)


def moved(tensors: Sequence[CellTensor], move: Callable[..., Tensor]) -> CellTensor:
    """The result of an operation that only moves the elements of several tensors of one type."""
    pool: list[Cell] = []
    numbers = []
    for tensor in tensors:
        numbers.append(tensor.places + len(pool))
        pool.extend(tensor.cells)
    return CellTensor((len(pool),), tensors[0].dtype, tuple(pool)).at(move(*numbers))


def lines(shape: Sequence[int], axis: int) -> list[list[int]]:
    """The numbers of the elements of a tensor of this shape, one list for each line along the axis."""
    places = torch.arange(prod(shape)).reshape(tuple(shape))
    if not shape:
        return [[0]]
    return [listed(line) for line in places.movedim(axis, -1).reshape(-1, shape[axis]).unbind(0)]
