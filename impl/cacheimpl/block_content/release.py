"""Giving rows back: all but what is held, and what comes before that, are free again, and the others get slots anew.

Rows keep their numbers. A row may be given back only with everything that comes after it, because the identity of a
content names the row of its parent; so whoever holds a content holds all that come before it.
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
    return contents.depths[:-1] >= 0


def cleared(contents: Contents, live: Tensor, write: Writing = COPYING) -> Contents:
    """All rows but the live ones ([rows] bool) are free, and no slot is taken: every live row has to be placed."""
    rows = contents.rows
    dead = ~live
    position = torch.where(dead, dead.cumsum(0) - 1, rows)
    kept = torch.nn.functional.pad(live, (0, 1))
    return contents._replace(
        extras=torch.where(kept, contents.extras, 0),
        depths=torch.where(kept, contents.depths, NONE),
        slots=write.fill(contents.slots, EMPTY),
        free=write.put(contents.free, position, torch.arange(rows, device=live.device)),
        free_rows=dead.sum(),
        used_slots=live.sum(),
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
