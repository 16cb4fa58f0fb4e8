"""Interning: for every full block of a burst of requests the row of its content, found or made.

Two blocks get one row if and only if their parents, their tokens and their extras are equal. A hash says where to look;
what is found is compared, all of a burst at once. That a parent is compared as a row and not as a chain is exact by
induction over the depth: rows of first blocks are compared whole, and a row stays that content until it is given back.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.block_content.hashing import of_prefixes
from cacheimpl.block_content.probing import index_in, place_of, search_of, searched
from cacheimpl.block_content.state import EMPTY, NONE, Config, Contents
from cacheimpl.writing import COPYING, Writing

EIGHT, EIGHT_TIMES_TRUE = 8, 0x0101010101010101
"""Bytes of a word, and a word of which each byte is `True`."""


class Burst(NamedTuple):
    """Blocks of requests, each request's in order."""

    words: Tensor
    """[requests, blocks, words of a block] int64"""
    extras: Tensor
    """[requests, blocks] int64: the number of what the block depends on beside tokens; 0 is nothing"""
    parents: Tensor
    """[requests] int64: the content before the first of these blocks, or NONE"""
    counts: Tensor
    """[requests] int64: how many blocks there really are"""
    walked: Tensor
    """[requests, blocks] int64: where the search goes on; 0 the first time"""
    claiming: Tensor
    """[requests, blocks] bool: whose search may take a slot; all the first time"""


class Interned(NamedTuple):
    """What was found or made."""

    rows: Tensor
    """[requests, blocks] int64: the row of each block, NONE where there is no block or the search has not ended"""
    walked: Tensor
    """[requests, blocks] int64: for the next call with the same burst"""
    remaining: Tensor
    """[] int64: blocks whose search has not ended: the call is made again, with this"""
    lacking: Tensor
    """[] int64: of these, contents that there was no free row for"""
    created: Tensor
    """[] int64: rows that were taken"""


def burst_of(words: Tensor, extras: Tensor, parents: Tensor, counts: Tensor) -> Burst:
    """The burst as it is interned the first time."""
    return Burst(words, extras, parents, counts, torch.zeros_like(extras), torch.ones_like(extras, dtype=torch.bool))


def again(burst: Burst, found: Interned, calls: int) -> Burst:
    """The burst for the next call, after so many.

    As a rule the search for a block may now take a slot only if the block before it is settled: what is claimed for one
    whose turn has not come may be claimed in vain, and slots that are passed make every search longer. After 1, 2, 4, 8
    calls and so on all may, because most of what remains then settles at once.
    """
    settled = torch.nn.functional.pad(found.rows[:, :-1] >= 0, (1, 0), value=True)
    everybody = calls & (calls - 1) == 0
    return burst._replace(walked=found.walked, claiming=torch.ones_like(settled) if everybody else settled)


class _Found(NamedTuple):
    """By item, requests one after the other."""

    slots: Tensor
    place: Tensor
    """The slot before which the search stands."""
    walked: Tensor
    stride: Tensor
    matched: Tensor
    """There is something of this hash in it."""
    claimed: Tensor
    """It is the item's own claim."""
    holder: Tensor
    """What is in it: a row, or, from rows + 1 on, an item."""


def intern(config: Config, contents: Contents, burst: Burst, write: Writing = COPYING) -> tuple[Contents, Interned]:
    """The row of every block of the burst. The same call again, with what was walked, ends what has not ended."""
    requests, blocks, _ = burst.words.shape
    wanted = torch.arange(blocks, device=burst.counts.device) < burst.counts[:, None]
    sums, depths = of_prefixes(config, contents, burst.parents, burst.words, burst.extras)
    found = _found(config, contents, burst, sums.flatten(), wanted.flatten(), write)
    rank = found.claimed.cumsum(0) - 1
    fits = found.claimed & (rank < contents.free_rows)
    nobody = contents.rows
    fresh = contents.free.index_select(0, (contents.free_rows - 1 - rank).clamp(0, nobody))
    made = torch.where(fits, fresh, nobody)
    rows = _rows_of(found, made, nobody).reshape(requests, blocks)
    parents = torch.cat((burst.parents[:, None], rows[:, :-1]), 1)
    contents = contents._replace(
        words=write.put_rows(contents.words, made, burst.words.flatten(0, 1)),
        parents=write.put(contents.parents, made, parents.flatten()),
        extras=write.put(contents.extras, made, burst.extras.flatten()),
        sums=write.put(contents.sums, made, sums.flatten()),
        depths=write.put(contents.depths, made, depths.flatten()),
        slots=found.slots,
    )
    settled = wanted & (rows >= 0) & ~((~_equal(contents, burst, parents, rows)).cumsum(1) > 0)
    contents = _committed(contents, found, fits & settled.flatten(), fits, made, write)
    ended = torch.cat((torch.ones_like(wanted[:, :1]), settled[:, :-1]), 1)
    mismatch = found.matched.reshape(requests, blocks) & ended & ~settled
    return contents, Interned(
        rows=torch.where(settled, rows, NONE),
        walked=(found.walked + found.stride * mismatch.flatten()).reshape(requests, blocks),
        remaining=(wanted & ~settled).sum(),
        lacking=(found.claimed & ~fits).sum(),
        created=(fits & settled.flatten()).sum(),
    )


def _found(config: Config, contents: Contents, burst: Burst, sums: Tensor, wanted: Tensor, write: Writing) -> _Found:
    """Where each item stands after the rounds, and what is there."""
    known = torch.cat((contents.sums, sums))
    claiming = wanted & burst.claiming.flatten()
    search = search_of(config, sums, burst.walked.flatten(), wanted, claiming, contents.rows)
    slots, search = searched(contents.slots, known, search, write)
    place = place_of(search, slots)
    seen = slots.index_select(0, place)
    holder = index_in(known, seen)
    matched = wanted & (seen != EMPTY) & (known.index_select(0, holder) == sums)
    claimed = matched & (holder == search.claims)
    return _Found(slots, place, search.walked, search.stride, matched, claimed, holder)


def _rows_of(found: _Found, made: Tensor, nobody: int) -> Tensor:
    """[items] int64: the row that may be each item's content; NONE where there is none."""
    claimant = (found.holder - (nobody + 1)).clamp(min=0)
    row = torch.where(found.holder > nobody, made.index_select(0, claimant), found.holder.long())
    return torch.where(found.matched & (row != nobody), row, NONE)


def _equal(contents: Contents, burst: Burst, parents: Tensor, rows: Tensor) -> Tensor:
    """[requests, blocks] bool: whether the row has the block's parent, tokens and extras; this alone decides."""
    row = rows.clamp(min=0).flatten()
    words = contents.words.index_select(0, row).reshape(burst.words.shape)
    tokens = all_of(words == burst.words)
    others = (contents.extras.index_select(0, row) == burst.extras.flatten()) & (
        contents.parents.index_select(0, row) == parents.flatten()
    )
    return tokens & others.reshape(rows.shape) & (rows >= 0)


def all_of(equal: Tensor) -> Tensor:
    """[...] bool: whether all of the last axis ([..., words] bool) are true; eight at a time where there are eight."""
    if equal.shape[-1] % EIGHT:
        return equal.all(-1)
    return (equal.view(torch.int64) == EIGHT_TIMES_TRUE).all(-1)


def _committed(
    contents: Contents, found: _Found, committed: Tensor, fits: Tensor, made: Tensor, write: Writing
) -> Contents:
    """Slots of committed claims have their rows; those of others are passed for good; rows of others come back."""
    nobody, nowhere = contents.rows, contents.slots.shape[0] - 1
    entry = torch.where(committed, made, nobody)
    place = torch.where(found.claimed, found.place, nowhere)
    height = contents.free_rows - fits.sum()
    back = fits & ~committed
    position = torch.where(back, height + back.cumsum(0) - 1, nobody)
    return contents._replace(
        slots=write.put(contents.slots, place, entry.int()),
        homes=write.put(contents.homes, entry, place),
        free=write.put(contents.free, position, made),
        free_rows=height + back.sum(),
        used_slots=contents.used_slots + found.claimed.sum(),
    )
