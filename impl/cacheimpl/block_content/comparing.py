"""What was found is compared: parents, tokens and extras decide, and nothing else does.

A parent is compared by its name: the row of the block before, or the item of the burst that has claimed to be it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.block_content.bursts import Burst, Looked
from cacheimpl.block_content.probing import first_of
from cacheimpl.block_content.state import NONE, Contents

EIGHT, EIGHT_TIMES_TRUE = 8, 0x0101010101010101
"""Bytes of a word, and a word of which each byte is `True`."""


class Compared(NamedTuple):
    """By item."""

    equal: Tensor
    """[items] bool: its content is the row's, or that of the item that has the slot"""
    unequal: Tensor
    """[items] bool: it is not"""


class Named(NamedTuple):
    """Contents of rows or of items, as they are compared."""

    words: Tensor
    """[names, words of a block] int64"""
    extras: Tensor | None
    parents: Tensor
    """[names] int64"""


def compared(contents: Contents, burst: Burst, looked: Looked, *, rows: int, items: int) -> Compared:
    """With so many rows and so many items of the burst; without any, no word is read.

    If anything is unequal, nothing that was compared with an item counts: that item may not become a content.
    """
    equal = unequal = torch.zeros_like(looked.owned)
    if not (rows or items):
        return Compared(equal, unequal)
    extras = None if burst.extras is None else burst.extras.flatten()
    ours = Named(burst.words.flatten(0, 1), extras, parents_in(contents, burst, looked))
    holder = looked.holder
    if rows:
        theirs = Named(contents.words, contents.extras, contents.parents)
        same, other = _with(theirs, holder, ours, looked.among_rows, rows)
        passed = holder == contents.rows
        equal, unequal = same & ~passed, other | (same & passed)
    if items:
        same, other = _with(ours, holder - (contents.rows + 1), ours, looked.among_items, items)
        unequal = unequal | other
        equal = equal | (same & ~unequal.any())
    return Compared(equal, unequal)


def parents_in(contents: Contents, burst: Burst, looked: Looked) -> Tensor:
    """[items] int64: the name of the content before: a row, an item, or NONE. Where none was found, the item itself."""
    requests, blocks, _ = burst.words.shape
    itself = torch.arange(contents.rows + 1, contents.rows + 1 + requests * blocks, device=looked.holder.device)
    found = looked.among_rows | looked.among_items | looked.owned
    names = torch.where(found, looked.holder, itself).reshape(requests, blocks)
    first = names.new_full((requests,), NONE) if burst.parents is None else burst.parents
    return torch.cat((first[:, None], names[:, :-1]), 1).flatten()


def _with(theirs: Named, names: Tensor, ours: Named, asked: Tensor, lanes: int) -> tuple[Tensor, Tensor]:
    """[items] bool twice: of those asked that have a lane, whose content is that of its name, and whose is not."""
    if lanes >= asked.shape[0]:
        same = agree(theirs, names.clamp(0, theirs.parents.shape[0] - 1), ours)
        return asked & same, asked & ~same
    chosen = first_of(asked, lanes)
    mine = Named(
        ours.words.index_select(0, chosen),
        None if ours.extras is None else ours.extras.index_select(0, chosen),
        ours.parents.index_select(0, chosen),
    )
    same = agree(theirs, names.index_select(0, chosen).clamp(0, theirs.parents.shape[0] - 1), mine)
    has_lane = asked & (asked.cumsum(0) <= lanes)
    same = torch.zeros_like(asked).scatter(0, chosen, same)
    return has_lane & same, has_lane & ~same


def agree(theirs: Named, names: Tensor, ours: Named) -> Tensor:
    """[n] bool: whether the contents of these names ([n] int64) have the parents, tokens and extras of ours."""
    tokens = all_of(theirs.words.index_select(0, names) == ours.words)
    same = tokens & (theirs.parents.index_select(0, names) == ours.parents)
    if theirs.extras is None:
        return same
    return same & (theirs.extras.index_select(0, names) == (0 if ours.extras is None else ours.extras))


def all_of(equal: Tensor) -> Tensor:
    """[...] bool: whether all of the last axis ([..., words] bool) are true; eight at a time where there are eight."""
    if equal.shape[-1] % EIGHT:
        return equal.all(-1)
    return (equal.view(torch.int64) == EIGHT_TIMES_TRUE).all(-1)
