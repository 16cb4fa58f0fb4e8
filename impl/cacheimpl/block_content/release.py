"""Giving rows back: all rows are free again except held ones and their ancestors, which get new slots.

Rows keep their numbers. A row may be given back only with everything that comes after it, because the identity of a
content names the row of its parent; so a holder of a content holds all that come before it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.block_content.probing import Search, hash_in, place_in, rounds_for, searched, stepped
from cacheimpl.block_content.state import ABOVE, EMPTY, NONE, Contents, slots_for
from cacheimpl.writing import COPYING, Writing


class Placed(NamedTuple):
    """How far the building of the table has come."""

    stands: Tensor
    """[lanes] int64: for the next call"""
    waiting: Tensor
    """[lanes] bool: for the next call"""
    remaining: Tensor
    """[] int64: rows that have no slot yet: the call is made again, with these"""


def held_in(contents: Contents, *holders: Tensor) -> Tensor:
    """[rows] bool: the contents that are named in any of these tensors (of any shape, negative for none)."""
    named = torch.cat([contents.free[:0], *(rows.flatten().long() for rows in holders)])
    index = torch.where(named >= 0, named, contents.rows)
    held = torch.zeros(contents.rows + 1, dtype=torch.bool, device=named.device)
    return held.scatter(0, index, value=True)[: contents.rows]


def with_ancestors(contents: Contents, held: Tensor) -> Tensor:
    """[rows] bool: the held contents ([rows] bool) and all that come before any of them.

    Each round doubles how far back one looks, so their number is that of the digits of the rows.
    """
    nobody = contents.rows
    up = torch.where(contents.parents >= 0, contents.parents.long(), nobody)
    up = torch.where(torch.arange(nobody + 1, device=up.device) == nobody, nobody, up)
    marked = torch.nn.functional.pad(held, (0, 1)).to(torch.uint8)
    for _ in range(nobody.bit_length()):
        marked = marked.scatter_reduce(0, up, marked, "amax")
        up = up.index_select(0, up)
    return marked[:nobody] > 0


def is_closed(contents: Contents, held: Tensor, rows: Tensor) -> Tensor:
    """[] bool: whether with every content that is held ([rows] bool, and their numbers) the one before it is."""
    parents = contents.parents.index_select(0, rows)
    return ((parents < 0) | held.index_select(0, parents.clamp(min=0))).all()


def occupied(contents: Contents) -> Tensor:
    """[rows] bool: which rows have a content."""
    return contents.depths[:-1] >= 0


def cleared(contents: Contents, dead: Tensor, write: Writing = COPYING) -> Contents:
    """These rows ([dead] int64, distinct) are free, and no slot is taken: every other row has to be placed."""
    places = torch.arange(dead.shape[0], device=dead.device)
    return contents._replace(
        extras=write.put(contents.extras, dead, torch.zeros_like(dead)),
        depths=write.put(contents.depths, dead, torch.full_like(dead, NONE, dtype=torch.int32)),
        slots=write.fill(contents.slots, EMPTY),
        free=write.put(contents.free, places, dead),
        free_rows=torch.full_like(contents.free_rows, dead.shape[0]),
        used_slots=torch.full_like(contents.used_slots, contents.rows - dead.shape[0]),
    )


def place(
    contents: Contents, live: Tensor, stands: Tensor | None, waiting: Tensor, write: Writing = COPYING
) -> tuple[Contents, Placed]:
    """Live rows ([lanes] int64, distinct) get slots, each its own, after `cleared`.

    Where they stand ([lanes] int64) is known from the call before; `waiting` ([lanes] bool) is true the first time.
    """
    sums = contents.sums.index_select(0, live)
    begins = contents.begins.index_select(0, live) if stands is None else stands
    entries = (live << ABOVE) + hash_in(sums)
    sought = entries + ((contents.rows + 1) << ABOVE)  # a claim, which must not take the slot of any row
    claims = torch.where(waiting, sought, EMPTY)
    rounds = rounds_for(2 * contents.rows + 1, whose=True)
    slots, search = searched(contents.slots, Search(sums, sought, claims, begins, claims, waiting), rounds, write)
    mine = waiting & ~search.going_on
    index = torch.where(mine, place_in(slots, search.stands), slots.shape[0] - 1)
    slots = write.put(slots, index, entries)
    return contents._replace(slots=slots), Placed(
        stepped(search).stands, search.going_on, torch.count_nonzero(search.going_on)
    )


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
        begins=longer(contents.begins),
        slots=contents.slots.new_full((slots_for(rows) + 1,), EMPTY),
        free=contents.free.new_full((rows + 1,), rows),
        free_rows=torch.zeros_like(contents.free_rows),
        used_slots=torch.zeros_like(contents.used_slots),
    )
