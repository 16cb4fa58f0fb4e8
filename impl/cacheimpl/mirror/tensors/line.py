"""A few rows in their order: what is in flight, or not confirmed yet.

A line is a NamedTuple of tensors whose first axis has room for so many rows, and whose last field, `rows`, says how
many there are; the rest of every field is -1. Nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from cacheimpl.table import is_row, row

Line = TypeVar("Line", bound=tuple[Any, ...])

BLANK = -1
"""In every cell beyond the count."""


def of_rows(field: Tensor, like: Tensor) -> Tensor:
    """[rows, 1, ...] bool: a choice of rows ([rows] bool) in the shape of a field."""
    return field.reshape(-1, *[1] * (like.ndim - 1))


def rearranged(line: Line, origin: Tensor, count: Tensor) -> Line:
    """Every row from its origin ([rows] int64), and so many rows."""
    *fields, _ = line
    place = torch.arange(fields[0].shape[0], device=count.device)
    taken = origin.clamp(0, fields[0].shape[0] - 1)
    moved = (torch.where(of_rows(place < count, field), field.index_select(0, taken), BLANK) for field in fields)
    return _like(line, (*moved, count))


def without_first(line: Line, leaving: Tensor) -> Line:
    """Without so many rows ([] int64) at the front."""
    return rearranged(line, _places(line) + leaving, line[-1] - leaving)


def without(line: Line, which: Tensor) -> Line:
    """Without one row ([] int64), which is there."""
    places = _places(line)
    return rearranged(line, places + (places >= which), line[-1] - 1)


def overtaken(line: Line, which: Tensor) -> Line:
    """The row after this one ([] int64) comes first; both are there."""
    places = _places(line)
    origin = torch.where(places == which, places + 1, torch.where(places == which + 1, places - 1, places))
    return rearranged(line, origin, line[-1])


def doubled(line: Line, which: Tensor) -> Line:
    """One row ([] int64), which is there, comes twice in a row. There has to be room."""
    places = _places(line)
    return rearranged(line, torch.where(places > which, places - 1, places), line[-1] + 1)


def appended(line: Line, values: Sequence[Tensor]) -> Line:
    """One more row at the end, with a value for each field but the number of rows. There has to be room."""
    *fields, count = line
    here = is_row(fields[0], count)
    grown = (torch.where(of_rows(here, field), value, field) for field, value in zip(fields, values, strict=True))
    return _like(line, (*grown, count + 1))


def nothing_of(line: Line) -> Line:
    """The same without rows."""
    return _like(line, (*(torch.full_like(field, BLANK) for field in line[:-1]), torch.zeros_like(line[-1])))


def row_of(line: tuple[Any, ...], which: Tensor) -> tuple[Tensor, ...]:
    """One row ([] int64), a tensor for each field but the number of rows; whoever reads what is not there masks it."""
    return tuple(row(field, which.clamp(max=field.shape[0] - 1)) for field in line[:-1])


def _places(line: tuple[Any, ...]) -> Tensor:
    return torch.arange(line[0].shape[0], device=line[-1].device)


def _like(line: Line, fields: tuple[Tensor, ...]) -> Line:
    """A line of the same kind."""
    make: Any = type(line)
    made: Line = make(*fields)
    return made
