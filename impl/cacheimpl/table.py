"""One row of a table, read, written and chosen without branches.

A table is a tensor whose first axis is a name. An index is a tensor of shape [] and may be negative for "none"; then
the row that is read is the first one, so whoever reads masks what does not exist.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor

State = TypeVar("State", bound=tuple[Any, ...])


def row(table: Tensor, index: Tensor) -> Tensor:
    """The row of this index: shape of the table without its first axis."""
    return table.index_select(0, index.clamp(min=0).reshape(1).long()).squeeze(0)


def cell(table: Tensor, index: Tensor, column: Tensor) -> Tensor:
    """[]: one element of a table of two axes."""
    return row(row(table, index), column)


def is_row(table: Tensor, index: Tensor) -> Tensor:
    """[rows] bool: which row has this index; none where the index is negative."""
    return torch.arange(table.shape[0], device=table.device) == index


def is_cell(table: Tensor, index: Tensor, column: Tensor) -> Tensor:
    """[rows, columns] bool: which element has these indices."""
    columns = torch.arange(table.shape[1], device=table.device) == column
    return is_row(table, index)[:, None] & columns


def choose(condition: Tensor, met: State, unmet: State) -> State:
    """Field by field, the one state where the condition (shape []) holds and the other elsewhere."""
    chosen = (torch.where(condition, new, other) for new, other in zip(met, unmet, strict=True))
    return type(met)(*chosen)
