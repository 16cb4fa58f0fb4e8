"""Giving rows back: all but what is held, and what comes before that, are free again.

The slots that they had are passed from then on; where too many are, the table is built anew.
Rows keep their numbers. A row may be given back only with everything that comes after it, because the identity of a
content names the row of its parent; so whoever holds a content holds all that come before it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.block_content.hashing import ways
from cacheimpl.block_content.probing import Search, index_in, place_of, searched
from cacheimpl.block_content.state import EMPTY, Config, Contents, slots_for
from cacheimpl.writing import COPYING, Writing


class Placed(NamedTuple):
    """How far the building of the table has come."""

    walked: Tensor
    """[rows] int64: for the next call"""
    remaining: Tensor
    """[] int64: rows that have no slot yet: the call is made again, with what was walked"""


def held_in(contents: Contents, *holders: Tensor) -> Tensor:
    """[rows] bool: the contents that are named in any of these tensors (of any shape, negative for none)."""
    named = torch.cat([contents.free[:0], *(rows.flatten().long() for rows in holders)])
    index = torch.where(named >= 0, named, contents.rows)
    held = torch.zeros(contents.rows + 1, dtype=torch.int64, device=named.device)
    return held.scatter(0, index, 1)[: contents.rows] > 0


def with_ancestors(contents: Contents, held: Tensor) -> Tensor:
    """[rows] bool: the held contents ([rows] bool) and all that come before any of them.

    Each round doubles how far back one looks, so their number is that of the digits of the rows.
    """
    nobody = contents.rows
    up = torch.where(contents.parents >= 0, contents.parents, nobody)
    up = torch.where(torch.arange(nobody + 1, device=up.device) == nobody, nobody, up)
    marked = torch.nn.functional.pad(held, (0, 1)).to(torch.uint8)
    for _ in range(nobody.bit_length()):
        marked = marked.scatter_reduce(0, up, marked, "amax")
        up = up.index_select(0, up)
    return marked[:nobody] > 0


def is_closed(contents: Contents, held: Tensor) -> Tensor:
    """[] bool: whether with every held content ([rows] bool) the one before it is held too."""
    parents = contents.parents[:-1]
    return (~held | (parents < 0) | held.index_select(0, parents.clamp(min=0))).all()


def occupied(contents: Contents) -> Tensor:
    """[rows] bool: which rows have a content."""
    stack = torch.arange(contents.rows + 1, device=contents.free.device) < contents.free_rows
    index = torch.where(stack, contents.free, contents.rows)
    return torch.ones_like(contents.free).scatter(0, index, 0)[:-1] > 0


def with_free_rows(contents: Contents, live: Tensor) -> Contents:
    """All rows but the live ones ([rows] bool) are free."""
    rows = contents.rows
    dead = ~live
    position = torch.where(dead, dead.cumsum(0) - 1, rows)
    numbers = torch.arange(rows, device=live.device)
    free = torch.full_like(contents.free, rows).scatter(0, position, numbers)
    return contents._replace(free=free, free_rows=dead.sum())


def forgotten(contents: Contents, live: Tensor, write: Writing = COPYING) -> Contents:
    """All rows but the live ones ([rows] bool) are free, and the slots that they had are passed: they stay used."""
    leaving = occupied(contents) & ~live
    nowhere = contents.slots.shape[0] - 1
    place = torch.where(leaving, contents.homes[:-1], nowhere)
    slots = write.put(contents.slots, place, contents.rows)
    return with_free_rows(contents._replace(slots=slots), live)


def cleared(contents: Contents, live: Tensor) -> Contents:
    """All rows but the live ones ([rows] bool) are free, and no slot is taken: every live row has to be placed."""
    nothing = torch.full_like(contents.slots, EMPTY)
    return with_free_rows(contents, live)._replace(slots=nothing, used_slots=live.sum())


def place(
    config: Config, contents: Contents, live: Tensor, walked: Tensor, write: Writing = COPYING
) -> tuple[Contents, Placed]:
    """Live rows ([rows] bool) get slots, each its own, after `cleared`; `walked` ([rows] int64) is 0 the first time."""
    rows = contents.rows
    begin, stride = ways(config, contents.sums[:rows])
    claims = torch.arange(rows + 1, 2 * rows + 1, device=live.device)
    known = torch.cat((claims, claims.new_zeros(1), claims))  # of a row that has its slot, what its claim would be
    search = Search(claims, begin, stride, torch.where(live, claims, EMPTY).int(), walked, live)
    slots, search = searched(contents.slots, known, search, write)
    here = place_of(search, slots)
    mine = live & (index_in(known, slots.index_select(0, here)) == search.claims)
    index = torch.where(mine, here, slots.shape[0] - 1)
    slots = write.put(slots, index, torch.arange(rows, device=live.device, dtype=torch.int32))
    homes = write.put(contents.homes, torch.where(mine, claims - (rows + 1), rows), here)
    return contents._replace(slots=slots, homes=homes), Placed(search.walked, search.going_on.sum())


def grown(contents: Contents, rows: int) -> Contents:
    """With more rows, and no slot and no free row: `cleared` is next."""
    more = rows - contents.rows

    def longer(table: Tensor) -> Tensor:
        return torch.cat((table, table[-1:].expand(more, *table.shape[1:])))

    return Contents(
        words=longer(contents.words),
        parents=longer(contents.parents),
        extras=longer(contents.extras),
        sums=longer(contents.sums),
        depths=longer(contents.depths),
        homes=longer(contents.homes),
        slots=contents.slots.new_full((slots_for(rows) + 1,), EMPTY),
        free=contents.free.new_full((rows + 1,), rows),
        free_rows=torch.zeros_like(contents.free_rows),
        used_slots=torch.zeros_like(contents.used_slots),
    )
