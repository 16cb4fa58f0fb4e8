"""How an operation writes: into a copy, for the explorer, or in place, for a serving engine.

Operations take a `Writing`, so the function that is explored is the one that serves, and what it costs in place is what
it touches. What is read after a write is read from the tensor that the write returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Write = Callable[[Tensor, Tensor, Tensor], Tensor]


class Writing(NamedTuple):
    """Each takes a table, an index ([n] int64) and values, and returns the table as it is then."""

    put: Callable[[Tensor, Tensor, Tensor | int], Tensor]
    """The index counts the elements of the table row by row; where it repeats, one of the values stays."""
    add: Write
    """Of a table of one axis; where the index repeats, all values are added."""
    lower: Write
    """Of a table of one axis: the least of what is there and all values for it."""
    put_rows: Write
    """The index counts rows, the values are rows ([n, ...]); where it repeats, one of them stays."""
    history: bool
    """Whether history is written: no answer depends on it, and only checkers read it"""
    fill: Callable[[Tensor, int], Tensor]
    """Of a whole table, without an index: the one value everywhere."""


def _put_into_copy(table: Tensor, index: Tensor, values: Tensor | int) -> Tensor:
    return table.flatten().scatter(0, index, values).reshape(table.shape)


def _put_in_place(table: Tensor, index: Tensor, values: Tensor | int) -> Tensor:
    (table if table.dim() == 1 else table.view(-1)).scatter_(0, index, values)
    return table


def _put_rows_in_place(table: Tensor, index: Tensor, values: Tensor) -> Tensor:
    wide = table.dtype == torch.int64 and table.dim() == 2 and table.shape[1] % 2 == 0 and values.is_contiguous()
    if wide:  # sixteen bytes at a time
        table.view(torch.complex128).index_copy_(0, index, values.view(torch.complex128))
    else:
        table.index_copy_(0, index, values)
    return table


COPYING = Writing(
    _put_into_copy,
    lambda table, index, values: table.scatter_add(0, index, values),
    lambda table, index, values: table.scatter_reduce(0, index, values, "amin"),
    lambda table, index, values: torch.index_copy(table, 0, index, values),
    True,
    torch.full_like,
)
"""The state that came in stays as it is."""

IN_PLACE = Writing(
    _put_in_place,
    lambda table, index, values: table.scatter_add_(0, index, values),
    lambda table, index, values: table.scatter_reduce_(0, index, values, "amin"),
    _put_rows_in_place,
    True,
    lambda table, value: table.fill_(value),
)
"""The state that came in is the one that goes out."""

SERVING = IN_PLACE._replace(history=False)
"""In place, and history stays as it was: what a check of it would say means nothing then."""
