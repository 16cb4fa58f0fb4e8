"""Interning: for every full block of a burst of requests the row of its content, found or made.

Two blocks get one row if and only if their parents, their tokens and their extras are equal. A hash says where to look;
what is found is compared, all of a burst at once. That a parent is compared by its name and not as a chain is exact by
induction over the depth: first blocks are compared whole, and a row stays that content until it is given back.

It is two functions: `look` finds for each block a row, a claim of the burst, or its own claim; `settle` compares where
there is something to compare, in as many lanes as the host was told, and makes rows of claims.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.block_content.bursts import Burst, Looked
from cacheimpl.block_content.comparing import Compared, compared
from cacheimpl.block_content.hashing import of_prefixes, strides
from cacheimpl.block_content.probing import Search, hash_in, place_in, rounds_for, searched
from cacheimpl.block_content.state import ABOVE, EMPTY, LOW, NONE, Config, Contents
from cacheimpl.writing import COPYING, Writing


class Lanes(NamedTuple):
    """How much there is to settle at most: shapes, so that nothing is done for what is not there."""

    rows: int
    """Comparisons with rows."""
    items: int
    """Comparisons with items."""
    claims: int
    """Claims; not 0 unless there are none."""


class Interned(NamedTuple):
    """What was found or made."""

    rows: Tensor
    """[requests, blocks] int64: the row of each block, NONE where there is no block or the search has not ended"""
    stands: Tensor
    """[requests, blocks] int64: the slot before which the search stands, before it is wrapped"""
    moving: Tensor
    """[requests, blocks] bool: whose search goes on behind that slot in the next call with the same burst"""
    sums: Tensor
    """[requests, blocks] int64: the hashes, which say how"""
    remaining: Tensor
    """[] int64: blocks whose search has not ended: the call is made again (see `again`)"""
    lacking: Tensor
    """[] int64: contents for which no row is free; where there are any, no row was made"""
    created: Tensor
    """[] int64: rows that were made"""


def burst_of(words: Tensor, extras: Tensor | None, parents: Tensor | None, counts: Tensor) -> Burst:
    """The burst as it is interned the first time."""
    return Burst(words, extras, parents, counts, None, None)


def again(burst: Burst, found: Interned, calls: int, *, patient: bool = False) -> Burst:
    """The burst for the next call, after so many.

    As a rule the search for a block may now take a slot only if the block before it is settled: what is claimed for one
    whose turn has not come may be claimed in vain, and slots that are passed make every search longer. After 1, 2, 4, 8
    calls and so on all may, because most of what remains then settles at once. A `patient` search has no such calls.
    """
    settled = torch.nn.functional.pad(found.rows[:, :-1] >= 0, (1, 0), value=True)
    everybody = not patient and calls & (calls - 1) == 0
    stands = found.stands + strides(found.sums) * found.moving
    return burst._replace(stands=stands, claiming=torch.ones_like(settled) if everybody else settled)


def from_the_start(burst: Burst) -> Burst:
    """The burst for the next call after the table was built anew: no search has come anywhere.

    Only first blocks may take a slot, because no block before another one is known to be settled.
    """
    requests, blocks, _ = burst.words.shape
    claiming = torch.zeros(requests, blocks, dtype=torch.bool, device=burst.words.device)
    claiming[:, :1] = True
    return burst._replace(stands=None, claiming=claiming)


def most_calls(items: int, slots: int) -> int:
    """After how many calls the search for these items is over.

    The first `slots` calls may be made with everybody's claims. Afterwards the search is patient: nothing is claimed in
    vain. In each call the first item that is not settled passes a slot, or some item settles; no search passes a slot
    twice. So `items + 1` times `slots + 1` calls are enough, unless the table is built anew: once because of the slots
    that were passed before, and whenever it grows, to twice its rows or more, for at most `items` new contents.
    """
    return slots + (items.bit_length() + 2) * (items + 1) * (slots + 1)


def intern(config: Config, contents: Contents, burst: Burst, write: Writing = COPYING) -> tuple[Contents, Interned]:
    """The row of every block of the burst. The same call again, with what was walked, ends what has not ended."""
    contents, looked = look(config, contents, burst, write)
    items = looked.wanted.shape[0]
    return settle(contents, burst, looked, Lanes(items, items, items), write)


def look(config: Config, contents: Contents, burst: Burst, write: Writing = COPYING) -> tuple[Contents, Looked]:
    """Every block looks for its slot. `settle` is next, before anything else is done to the table."""
    requests, blocks, _ = burst.words.shape
    first, end = contents.rows + 1, contents.rows + 1 + requests * blocks
    wanted = (torch.arange(blocks, device=burst.counts.device) < burst.counts[:, None]).flatten()
    prefixes = of_prefixes(config, contents, burst.parents, burst.words, burst.extras)
    sums, stands = prefixes.sums.flatten(), (prefixes.begins if burst.stands is None else burst.stands).flatten()
    sought = hash_in(sums)
    claiming = wanted if burst.claiming is None else wanted & burst.claiming.flatten()
    mine = torch.arange(first << ABOVE, end << ABOVE, 1 << ABOVE, device=sums.device) + sought
    claims = torch.where(claiming, mine, EMPTY)
    rounds = rounds_for(end, whose=False)
    search = Search(sums, sought, claims, stands, claims, wanted)
    slots, search = searched(contents.slots, search, rounds, write)
    found = search.seen & rounds.whose
    owned = found == claims
    matched = wanted & ~(search.going_on | owned) & (search.seen != EMPTY)
    old = found < first << ABOVE
    among_rows, among_items = matched & old, matched & ~old
    counts = torch.stack([torch.count_nonzero(some) for some in (among_rows, among_items, owned)])
    looked = Looked(
        prefixes, sought, search.stands, wanted, search.going_on, found, owned, among_rows, among_items, counts
    )
    return contents._replace(slots=slots), looked


def settle(
    contents: Contents, burst: Burst, looked: Looked, lanes: Lanes, write: Writing = COPYING
) -> tuple[Contents, Interned]:
    """Blocks are compared with what they have found, and claims become rows; best with lanes as `Looked.counts` says.

    What has no lane is not settled. A block is settled with all before it, and has its row then.
    """
    requests, blocks, _ = burst.words.shape
    same = compared(contents, burst, looked, rows=lanes.rows, items=lanes.items)
    settled = _whole(looked.owned | same.equal, requests, blocks)
    lacking = created = torch.zeros_like(contents.free_rows)
    if lanes.claims:
        wanted = torch.count_nonzero(settled & looked.owned)
        lacking = (wanted - contents.free_rows).clamp(min=0)
        settled = settled & (lacking == 0)
        own = settled & looked.owned
        fresh = contents.free.index_select(0, contents.free_rows.int() - own.cumsum(0, dtype=torch.int32))
        made = torch.where(own, fresh, contents.rows)
        created = torch.where(lacking == 0, wanted, 0)
        named = _rows_of(contents, looked, made, lanes)
    else:
        named = looked.holder
    rows = torch.where(settled, named, NONE).reshape(requests, blocks)
    if lanes.claims:
        contents = _made(contents, burst, looked, rows, made, write)._replace(free_rows=contents.free_rows - created)
    moving = looked.going_on.reshape(requests, blocks)
    return contents, Interned(
        rows=rows,
        stands=looked.stands.reshape(requests, blocks),
        moving=moving | _met_another(same, settled, requests, blocks) if lanes.rows or lanes.items else moving,
        sums=looked.prefixes.sums,
        remaining=torch.count_nonzero(looked.wanted) - torch.count_nonzero(settled),
        lacking=lacking,
        created=created,
    )


def _rows_of(contents: Contents, looked: Looked, made: Tensor, lanes: Lanes) -> Tensor:
    """[items] int64: of each item that is settled the row."""
    if not (lanes.rows or lanes.items):
        return made
    found = torch.where(looked.owned, made, looked.holder)
    if not lanes.items:
        return found
    claimant = (looked.holder - (contents.rows + 1)).clamp(min=0)
    return torch.where(looked.among_items, made.index_select(0, claimant), found)


def _whole(right: Tensor, requests: int, blocks: int) -> Tensor:
    """[items] bool: all blocks of the request up to this one are right ([items] bool)."""
    return ((~right).reshape(requests, blocks).cumsum(1, dtype=torch.int32) == 0).flatten()


def _met_another(same: Compared, settled: Tensor, requests: int, blocks: int) -> Tensor:
    """[requests, blocks] bool: who stands before another content, behind a settled block."""
    before = torch.nn.functional.pad(settled.reshape(requests, blocks)[:, :-1], (1, 0), value=True)
    return same.unequal.reshape(requests, blocks) & before


def _made(contents: Contents, burst: Burst, looked: Looked, rows: Tensor, made: Tensor, write: Writing) -> Contents:
    """Rows of settled claims ([items]: `rows` where there is none) have their contents, and slots have these rows.

    The slots of other claims are passed for good.
    """
    requests, blocks, _ = burst.words.shape
    nowhere, prefixes = contents.slots.shape[0] - 1, looked.prefixes
    parents = torch.nn.functional.pad(rows[:, :-1].int(), (1, 0), value=NONE)
    if burst.parents is not None:
        parents = torch.cat((burst.parents[:, None].int(), parents[:, 1:]), 1)
    place = torch.where(looked.owned, place_in(contents.slots, looked.stands), nowhere)
    # The hash in a slot that is passed is not the one of whoever claimed it: or else it would be compared with nothing
    # time and again, and each block of a chain would have to wait for the one before.
    entry = (made << ABOVE) + torch.where(made == contents.rows, looked.sought ^ LOW, looked.sought)
    extras = contents.extras
    return contents._replace(
        words=write.put_rows(contents.words, made, burst.words.flatten(0, 1)),
        parents=write.put(contents.parents, made, parents.flatten()),
        extras=extras if burst.extras is None else write.put(extras, made, burst.extras.flatten()),
        sums=write.put(contents.sums, made, prefixes.sums.flatten()),
        depths=write.put(contents.depths, made, prefixes.depths.expand(requests, blocks).flatten()),
        begins=write.put(contents.begins, made, prefixes.begins.flatten()),
        slots=write.put(contents.slots, place, entry),
        used_slots=contents.used_slots + torch.count_nonzero(looked.owned),
    )
