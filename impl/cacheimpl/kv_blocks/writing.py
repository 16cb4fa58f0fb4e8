"""How an operation writes: into a copy, as whoever explores wants it, or in place, as whoever serves does.

Every operation takes a `Writing`, decides first and writes last: of what it has written it reads only the value that
the write returned. So it is one function, and what it costs in place is what it touches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

Put = Callable[[Tensor, Tensor, Tensor | int], Tensor]


class Writing(NamedTuple):
    """`put(table, index, values)` and `add(table, index, values)`.

    The index ([n] int64) counts the elements of the table row by row; where it repeats, `put` leaves one of the values.
    """

    put: Put
    add: Callable[[Tensor, Tensor, Tensor], Tensor]


def _put_into_copy(table: Tensor, index: Tensor, values: Tensor | int) -> Tensor:
    return table.flatten().scatter(0, index, values).reshape(table.shape)


def _put_in_place(table: Tensor, index: Tensor, values: Tensor | int) -> Tensor:
    table.view(-1).scatter_(0, index, values)
    return table


COPIED = Writing(_put_into_copy, lambda table, index, values: table.scatter_add(0, index, values))
"""The state that came in stays as it is."""

IN_PLACE = Writing(_put_in_place, lambda table, index, values: table.scatter_add_(0, index, values))
"""The state that came in is the one that goes out."""
