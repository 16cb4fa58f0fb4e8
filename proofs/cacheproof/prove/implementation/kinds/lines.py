"""Kinds that go along an axis: sums, running sums, extremes, sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from cacheproof.prove.executor import NotFollowedError
from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.call import Call, Kind
from cacheproof.prove.implementation.cells import Cell, number
from cacheproof.prove.implementation.tensors import CellTensor, lines, listed

Fold = Callable[[list[Cell]], Cell]


def groups(tensor: CellTensor, axes: int | Sequence[int] | None) -> list[list[Cell]]:
    """The elements that a reduction over these axes combines; without axes, it combines all of them."""
    wanted = [axes] if isinstance(axes, int) else list(axes or range(len(tensor.shape)))
    if not tensor.shape:
        return [list(tensor.cells)]
    reduced = sorted(axis % len(tensor.shape) for axis in wanted)
    kept = [axis for axis in range(len(tensor.shape)) if axis not in reduced]
    places = tensor.places.permute(*kept, *reduced).flatten(len(kept)) if reduced else tensor.places.unsqueeze(-1)
    rows = places.reshape(-1, places.shape[-1]).unbind(0)
    return [[tensor.cells[place] for place in listed(row)] for row in rows]


def reducing(fold: Fold, *, truths: bool = False, arithmetic: bool = False) -> Kind:
    """One element for each group: of truth values, or of numbers."""
    convert = cells.truth if truths else number

    def kind(call: Call, tensor: CellTensor, axes: Any = None, keep: Any = None, **_: Any) -> CellTensor:
        made = [fold(list(map(convert, group))) for group in groups(tensor, axes)]
        return call.computed(made) if arithmetic else call.tensor(made)

    return kind


def first_largest(call: Call, tensor: CellTensor, axis: int | None = None, keep: Any = None) -> CellTensor:
    """The first index of the largest element."""

    def index(group: list[Cell]) -> Cell:
        best: Cell = 0
        largest = group[0]
        for place, cell in enumerate(group[1:], 1):
            better = cells.less(largest, cell)
            best, largest = cells.choose(better, place, best), cells.choose(better, cell, largest)
        return best

    return call.tensor(index(list(map(number, group))) for group in groups(tensor, axis))


def running(combine: Callable[[Cell, Cell], Cell]) -> Kind:
    """Each element with all before it on its line."""

    def kind(call: Call, tensor: CellTensor, axis: int, **_: Any) -> CellTensor:
        made: list[Cell] = list(map(number, tensor.cells))
        for line in lines(tensor.shape, axis):
            for place, cell in zip(line, accumulate((made[place] for place in line), combine), strict=True):
                made[place] = cell
        return call.computed(made)

    return kind


def running_extreme(better: Callable[[Cell, Cell], Cell]) -> Kind:
    """The extreme so far, and its position; any position among equal elements is allowed."""

    def kind(call: Call, tensor: CellTensor, axis: int) -> tuple[CellTensor, CellTensor]:
        values: list[Cell] = list(map(number, tensor.cells))
        indices: list[Cell] = [0] * len(values)
        for line in lines(tensor.shape, axis):
            elements = [values[place] for place in line]
            for turn, place in enumerate(line):
                values[place] = cells.fold(better, elements[: turn + 1])
                indices[place] = _any_index(call, elements[: turn + 1], values[place])
        return call.tensor(values), call.tensor(indices, 1)

    return kind


def _any_index(call: Call, elements: list[Cell], wanted: Cell) -> Cell:
    if len(elements) == 1:
        return 0
    index = call.duties.fresh("index")
    call.duties.choices.append(
        cells.some(cells.every((index == place, cells.equal(one, wanted))) for place, one in enumerate(elements))
    )
    return index


def sorting(*, stable: bool) -> Kind:
    """Ascending or descending; equal elements keep their order if the sort is stable, and otherwise have any order."""

    def kind(call: Call, tensor: CellTensor, *arguments: Any, **keywords: Any) -> tuple[CellTensor, CellTensor]:
        axis, descending = _sorting_arguments(arguments, keywords, stable=stable)
        keeps = stable and keywords.get("stable", True) is not False
        values: list[Cell] = list(map(number, tensor.cells))
        indices: list[Cell] = [0] * len(values)
        for line in lines(tensor.shape, axis):
            elements = [values[place] for place in line]
            ranks = _ranks(call, elements, descending=descending, keeps=keeps)
            for turn, place in enumerate(line):
                here = [cells.equal(rank, turn) for rank in ranks]
                index: Cell = len(line) - 1
                for source in reversed(range(len(line) - 1)):
                    index = cells.choose(here[source], source, index)
                indices[place], values[place] = index, cells.select(elements, index)
        return call.tensor(values), call.tensor(indices, 1)

    return kind


def _sorting_arguments(arguments: Sequence[Any], keywords: dict[str, Any], *, stable: bool) -> tuple[int, bool]:
    axis = keywords.get("dim", arguments[0] if arguments else -1)
    descending = keywords.get("descending", arguments[1] if len(arguments) > 1 else False)
    return axis, descending


def _ranks(call: Call, elements: list[Cell], *, descending: bool, keeps: bool) -> list[Cell]:
    """The place of each element in the sorted line."""
    ties: list[Cell] = list(range(len(elements)))
    if not keeps:
        ties = [call.duties.fresh("tie") for _ in elements]
        call.duties.choices.extend(a != b for place, a in enumerate(ties) for b in ties[:place])

    def before(one: int, other: int) -> Cell:
        first, second = (elements[other], elements[one]) if descending else (elements[one], elements[other])
        level = cells.every((cells.equal(first, second), cells.less(ties[one], ties[other])))
        return cells.some((cells.less(first, second), level))

    places = range(len(elements))
    return [cells.count(before(other, one) for other in places if other != one) for one in places]


def searched(call: Call, tensor: CellTensor, values: CellTensor, **keywords: Any) -> CellTensor:
    """The number of elements of a sorted line before each value; from the right, equal elements count too."""
    if len(tensor.shape) != 1 or keywords.get("side") not in (None, "left", "right"):
        raise NotFollowedError(f"{call.target} of several lines is not followed")
    elements = list(map(number, tensor.cells))
    for one, other in pairwise(elements):
        call.duties.demand_inside(cells.at_most(one, other))
    right = keywords.get("right", False) or keywords.get("side") == "right"
    before = cells.at_most if right else cells.less
    return call.tensor(cells.count(before(one, number(value)) for one in elements) for value in values.cells)


KINDS: dict[str, Kind] = {
    "aten.searchsorted.Tensor": searched,
    "aten.sum.default": reducing(cells.total, arithmetic=True),
    "aten.sum.dim_IntList": reducing(cells.total, arithmetic=True),
    "aten.any.default": reducing(cells.some, truths=True),
    "aten.any.dim": reducing(cells.some, truths=True),
    "aten.all.default": reducing(cells.every, truths=True),
    "aten.all.dim": reducing(cells.every, truths=True),
    "aten.amax.default": reducing(lambda group: cells.fold(cells.larger, group)),
    "aten.amin.default": reducing(lambda group: cells.fold(cells.smaller, group)),
    "aten.argmax.default": first_largest,
    "aten.cumsum.default": running(cells.add),
    "aten.cumprod.default": running(cells.multiply),
    "aten.cummax.default": running_extreme(cells.larger),
    "aten.cummin.default": running_extreme(cells.smaller),
    "aten.sort.default": sorting(stable=False),
    "aten.sort.stable": sorting(stable=True),
}
