"""Kinds that read and write by index: if-then-else over the cells. An index outside is an obligation of its own.

If several writes meet in one element, any of them may stay: the result is any of these values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import torch

from cacheproof.prove.executor import NotFollowedError
from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.call import Call, Kind
from cacheproof.prove.implementation.cells import Cell, number
from cacheproof.prove.implementation.tensors import CellTensor, lines


def in_range(call: Call, index: Cell, size: int) -> None:
    """The index has to lie in an axis of this size."""
    call.duties.demand_inside(cells.every((cells.at_most(0, index), cells.less(index, size))))


def selected(call: Call, tensor: CellTensor, axis: int, index: CellTensor) -> CellTensor:
    """Whole slices of an axis."""
    size = tensor.shape[axis]
    for cell in index.cells:
        in_range(call, cell, size)
    made: list[Cell] = [0] * len(call.places)
    for source, result in zip(lines(tensor.shape, axis), lines(call.shape, axis), strict=True):
        elements = [tensor.cells[place] for place in source]
        for place, cell in zip(result, index.cells, strict=True):
            made[place] = cells.select(elements, cell)
    return call.tensor(made)


def gathered(call: Call, tensor: CellTensor, axis: int, index: CellTensor, **_: Any) -> CellTensor:
    """For each element of the index, the element of its line with this number."""
    if not tensor.shape:
        return call.tensor(tensor.cells)
    places = tensor.places.movedim(axis, -1)
    numbers = index.places.movedim(axis, -1)
    made: list[Cell] = [0] * len(index.cells)
    for at in _cut(places, numbers):
        elements = [tensor.cells[place] for place in at.line]
        for place in at.writers:
            in_range(call, index.cells[place], len(elements))
            made[place] = cells.select(elements, index.cells[place])
    return call.tensor(made)


class _Line(NamedTuple):
    """The elements of a table along the axis, and those of the index that refer to them."""

    line: list[int]
    writers: list[int]


def _cut(places: torch.Tensor, numbers: torch.Tensor) -> Iterator[_Line]:
    """Line by line. An index may be shorter than the table along the other axes."""
    inner = places[tuple(slice(0, size) for size in numbers.shape[:-1])]
    rows = inner.reshape(-1, places.shape[-1]).tolist()
    for line, writers in zip(rows, numbers.reshape(-1, numbers.shape[-1]).tolist(), strict=True):
        yield _Line(line, writers)


class Write(NamedTuple):
    """One value that goes to an element under a condition."""

    condition: Cell
    value: Cell


Settle = Callable[[Call, Cell, list[Write]], Cell]
"""`(call, old value, writes) -> new value`."""


def any_of(call: Call, there: Cell, writes: list[Write]) -> Cell:
    """Any of the values that are written here; the old value if there is none."""
    result = there
    for write in reversed(writes):
        result = cells.choose(write.condition, write.value, result)
    clash = cells.some(
        cells.every((one.condition, other.condition, cells.inverse(cells.equal(one.value, other.value))))
        for one, other in combinations(writes, 2)
    )
    if clash is False:
        return result
    winner = call.duties.fresh("winner", truth=cells.is_truth(there))
    written = cells.some(cells.every((one.condition, cells.equal(winner, one.value))) for one in writes)
    call.duties.choices.append(cells.some((cells.inverse(clash), written)))
    return cells.choose(clash, winner, result)


def added(call: Call, there: Cell, writes: list[Write]) -> Cell:
    """The sum of the old value and of all written values."""
    return cells.total([number(there), *(cells.choose(one.condition, number(one.value), 0) for one in writes)])


def extreme(better: Callable[[Cell, Cell], Cell]) -> Settle:
    """The best of the old value and of all written values."""

    def settle(call: Call, there: Cell, writes: list[Write]) -> Cell:
        result = there
        for one in writes:
            result = cells.choose(one.condition, better(result, one.value), result)
        return result

    return settle


REDUCTIONS: dict[str, Settle] = {"amax": extreme(cells.larger), "amin": extreme(cells.smaller), "sum": added}


def scattered(settle: Settle, *, arithmetic: bool = False) -> Kind:
    """Values go to the elements of their lines that the index names."""

    def kind(call: Call, tensor: CellTensor, axis: int, index: CellTensor, values: Any, **_: Any) -> CellTensor:
        made = list(tensor.cells)
        numbers = index.places.movedim(axis, -1)
        given = _values_for(call, values, index, tensor.dtype)
        for at in _cut(tensor.places.movedim(axis, -1), numbers):
            for place in at.writers:
                in_range(call, index.cells[place], len(at.line))
            for turn, place in enumerate(at.line):
                writes = [Write(cells.equal(index.cells[one], turn), given[one]) for one in at.writers]
                made[place] = settle(call, made[place], [one for one in writes if one.condition is not False])
        return call.computed(made) if arithmetic else call.tensor(made)

    return kind


def _values_for(call: Call, values: Any, index: CellTensor, dtype: torch.dtype) -> Sequence[Cell]:
    """One value for each element of the index; a tensor of values may be longer."""
    if not isinstance(values, CellTensor):
        convert = cells.truth if dtype == torch.bool else number
        return (convert(values),) * len(index.cells)
    inner = values.places[tuple(slice(0, size) for size in index.shape)]
    return values.at(inner).to(dtype).cells


def reduced(
    call: Call, tensor: CellTensor, axis: int, index: CellTensor, values: CellTensor, how: str, **more: Any
) -> CellTensor:
    """By the name of the reduction, with the old value."""
    if how not in REDUCTIONS or not more.get("include_self", True):
        raise NotFollowedError(f"{call.target} by '{how}' without what is there is not followed")
    made: CellTensor = scattered(REDUCTIONS[how], arithmetic=how == "sum")(call, tensor, axis, index, values)
    return made


def rows_written(call: Call, tensor: CellTensor, axis: int, index: CellTensor, values: CellTensor) -> CellTensor:
    """Whole slices; if the index repeats, each element has any of the values for it."""
    shape = list(tensor.shape)
    shape[axis] = len(index.cells)
    turned = [1] * len(shape)
    turned[axis] = len(index.cells)
    wide = index.at(index.places.reshape(turned).broadcast_to(shape))
    made: CellTensor = scattered(any_of)(call, tensor, axis, wide, values)
    return made


def rows_filled(call: Call, tensor: CellTensor, axis: int, index: CellTensor, value: Any) -> CellTensor:
    """One value in whole slices."""
    shape = list(tensor.shape)
    shape[axis] = len(index.cells)
    count = math.prod(shape)
    values = CellTensor(tuple(shape), tensor.dtype, (value,) * count).to(tensor.dtype)
    return rows_written(call, tensor, axis, index, values)


KINDS: dict[str, Kind] = {
    "aten.index_fill.int_Scalar": rows_filled,
    "aten.index_select.default": selected,
    "aten.gather.default": gathered,
    "aten.scatter.src": scattered(any_of),
    "aten.scatter.value": scattered(any_of),
    "aten.scatter_add.default": scattered(added, arithmetic=True),
    "aten.scatter_reduce.two": reduced,
    "aten.index_copy.default": rows_written,
}
