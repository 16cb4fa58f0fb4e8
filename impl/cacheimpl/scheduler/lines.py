"""The two lines, as ranks: by priority, then by arrival. [requests] int64, -1 where a request is not in the line."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.constants import constant
from cacheimpl.recency import OUTSIDE, queued, total_of_older
from cacheimpl.writing import COPYING, Writing


def rows_in_order(line: Tensor, rows: Tensor, write: Writing = COPYING) -> Tensor:
    """[requests] int64: the rows of those in the line, the first one first; elsewhere the row behind all, nobody's.

    `line` may have gaps: then nobody is there. `rows`: [requests] int64, 0, 1, 2 and so on.
    """
    count = line.shape[0]
    behind_nobody = write.put(line.new_full((count + 1,), count), line + constant(1, line.device), rows)
    return behind_nobody[1:]


def by_request(line: Tensor, values: Tensor) -> Tensor:
    """[requests, ...]: each request's of the values of the first turns of a line ([turns, ...]).

    Arbitrary for those that have none of these turns.
    """
    return values.index_select(0, line.clamp(min=0, max=values.shape[0] - 1))


def by_row(rows: Tensor, values: Tensor, count: int, write: Writing) -> Tensor:
    """[count] int64: for each row the value of its turn in a line ([turns] int64 each), 0 where it has none.

    The row behind all is nobody's.
    """
    return write.put(values.new_zeros(count + 1), rows, values)[:count]


def closed_up(line: Tensor) -> Tensor:
    """The line without its gaps."""
    return torch.where(queued(line), total_of_older(line, queued(line)), OUTSIDE)


def behind_equals(priorities: Tensor, line: Tensor, joining: Tensor, turns: Tensor) -> Tensor:
    """The line with those that join ([requests] bool), placed one after the other in the order of the turns (int64).

    Each is placed behind its equals, so among equals the order is that of the turns.
    """
    count = line.shape[0]
    return _merged(priorities, queued(line) | joining, torch.where(joining, turns + count, line))


def before_equals(priorities: Tensor, line: Tensor, joining: Tensor, turns: Tensor) -> Tensor:
    """The line with those that join, placed one after the other in the order of the turns, each before its equals.

    So among equals the one of the last turn is the first.
    """
    return _merged(priorities, queued(line) | joining, torch.where(joining, -1 - turns, line))


def _merged(priorities: Tensor, members: Tensor, order: Tensor) -> Tensor:
    """Ranks by priority, then by this order ([requests] int64, distinct where there is a member)."""
    last = torch.iinfo(torch.int64).max
    by_order = torch.where(members, order, last).argsort()
    by_priority = torch.where(members, priorities, last).gather(0, by_order).argsort(stable=True)
    places = torch.arange(order.shape[0], dtype=torch.int64, device=order.device)
    ranks = torch.empty_like(places).scatter(0, by_order.gather(0, by_priority), places)
    return torch.where(members, ranks, OUTSIDE)
