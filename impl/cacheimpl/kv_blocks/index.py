"""The prefix map by content, beside a pool: a look-up then costs what it asks for, however many blocks there are.

Nothing that serves a running request keeps it up to date. What a request's own blocks are found under changes while it
runs, and only there: a block that is taken is in one table, behind what is settled of it, until that table is given
back. So `settle` takes it up from there, when somebody is about to look up, or to let go of a table.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.kv_blocks.admission import distance, where_within
from cacheimpl.kv_blocks.prefix import NEVER, Hits, bits_of, block_of, first_copies
from cacheimpl.kv_blocks.spreading import spread
from cacheimpl.kv_blocks.state import Config, Pool, nothing_of_nobody, nowhere, null_block, wrapped
from cacheimpl.writing import COPYING, Writing


class Index(NamedTuple):
    """Of one pool. The last row of each is of no block, no content, nobody: nothing is read from it that decides."""

    counted: Tensor
    """[blocks + 1] int64: the content under which a block is counted, -1 where under none"""
    copies: Tensor
    """[contents + 1] int64: for each block that is counted under a content 1 above `above(pool)` bits and its number
    below, added up: so one copy alone says which block it is"""
    first: Tensor
    """[contents + 1] int64: no block that is counted under the content has a lesser key (see `first_copies`), so if one
    has this key, it is the one that is found; anything where none is counted"""
    settled: Tensor
    """[requests + 1] int64: so many blocks of each table, from the first, are counted as they are found"""
    places: Tensor
    """[blocks + 1] int64: the cell of the free queue's buffer that a block is in; of others anything"""


class Found(NamedTuple):
    """What a look-up says."""

    hits: Hits
    """The longest cached prefix of each request of the burst, where it is certain"""
    certain: Tensor
    """[turns] bool: whether the blocks are those. Its length is always right"""


def above(pool: Pool) -> int:
    """So many bits hold the numbers of all blocks, added up."""
    return 2 * bits_of(pool)


MOST_BLOCKS = (1 << 21) - 1
"""With more, a count of blocks does not fit into what is left of a word."""


def index_of(config: Config, pool: Pool) -> Index:
    """The index of a pool as it is: passes over all blocks."""
    null, none = null_block(pool), config.hashes.shape[0] - 1
    rows = torch.arange(null + 1, device=pool.carried.device)
    counted = torch.where(rows < null, pool.carried, -1)
    is_counted = counted >= 0
    copies = torch.zeros_like(config.hashes).scatter_add(
        0, torch.where(is_counted, counted, none), torch.where(is_counted, units(pool, rows), 0)
    )
    index = Index(counted, copies, first_copies(config, pool), pool.registered.clone(), torch.zeros_like(rows))
    return placed(pool, index, nowhere(pool), 0)


def units(pool: Pool, blocks: Tensor) -> Tensor:
    """What each block ([...] int64) adds to `copies`."""
    return blocks + (1 << above(pool))


def key_of(pool: Pool, blocks: Tensor) -> Tensor:
    """The key of each block ([...] int64), if it can be found (see `first_copies`)."""
    return (pool.stamp.index_select(0, blocks) << bits_of(pool)) + blocks


def settle(pool: Pool, index: Index, requests: Tensor, most: int, write: Writing = COPYING) -> Index:
    """The blocks of these requests ([turns] int64: distinct rows, or nobody's) are counted as they are found now.

    At most so many blocks that are not settled, in the order of the turns (see `waiting`); what is left is for another
    time. A block that is in two of the tables must be counted as it is already: so everything is settled before hits
    are adopted.
    """
    first, registered = (column.index_select(0, requests) for column in (index.settled, pool.registered))
    counts = pool.blocks.index_select(0, requests) - first
    up_to, columns = counts.cumsum(0), pool.tables.shape[1]
    pieces = spread(counts, columns, most, up_to=up_to)
    cells = torch.where(pieces.there, pieces.cells(requests, first, columns), nothing_of_nobody(pool))
    blocks = pool.tables.flatten().index_select(0, cells).long()
    counted = counted_as_found(pool, index, blocks, write)
    # Those that are not registered yet are looked at again: they come to be found without being taken.
    seen = torch.where(up_to <= most, torch.minimum(registered, first + counts), first)
    return counted._replace(settled=write.put(index.settled, requests, seen))


def waiting(pool: Pool, index: Index, requests: Tensor) -> Tensor:
    """[] int64: how many blocks of these requests ([turns] int64) are not settled."""
    return (pool.blocks.index_select(0, requests) - index.settled.index_select(0, requests)).sum()


def counted_as_found(pool: Pool, index: Index, blocks: Tensor, write: Writing) -> Index:
    """These blocks ([pieces] int64) are counted under what they are found under; one that changes is there once."""
    none = index.copies.shape[0] - 1
    now, was = pool.carried.index_select(0, blocks), index.counted.index_select(0, blocks)
    changed = (now != was) & (blocks < null_block(pool))
    leaving, coming = (torch.where(changed & (content >= 0), content, none) for content in (was, now))
    unit = units(pool, blocks)
    left = write.add(index.copies, leaving, -unit)
    alone = left.index_select(0, coming) >> above(pool) == 0
    first = write.put(index.first, torch.where(alone, coming, none), NEVER)
    return index._replace(
        counted=write.put(index.counted, blocks, now),
        copies=write.add(left, coming, unit),
        first=write.lower(first, coming, key_of(pool, blocks)),
    )


def look_up(config: Config, pool: Pool, index: Index, requests: Tensor, tokens: Tensor) -> Found:
    """The longest cached prefix of requests of so many tokens now ([turns] int64 each), where all tables are settled.

    It is uncertain only where a content has several copies and the one that was first of them is gone: `refreshed`
    makes it certain.
    """
    null, (turns, cells) = null_block(pool), (requests.shape[0], config.contents.shape[1])
    contents = config.contents.index_select(0, requests).flatten()
    copies, key = index.copies.index_select(0, contents), index.first.index_select(0, contents)
    count, alone = copies >> above(pool), (copies & ((1 << above(pool)) - 1)).clamp(max=null)
    led = block_of(pool, key).clamp(max=null)
    leads = (index.counted.index_select(0, led) == contents) & (key_of(pool, led) == key)
    single = count == 1
    blocks = torch.where(single, alone, led).reshape(turns, cells)
    there = ((count > 0) & (contents < index.copies.shape[0] - 1)).reshape(turns, cells)
    ends = (torch.arange(cells, device=requests.device) + 1) * config.block_size
    hit = (~there | (ends >= tokens[:, None])).cumsum(1, dtype=torch.int32) == 0
    certain = ((single | leads).reshape(turns, cells) | ~hit).all(1)
    return Found(Hits(torch.where(hit, blocks, null), hit.sum(1)), certain)


def distances(pool: Pool, index: Index, hits: Hits) -> Tensor:
    """[2] int64: within so many cells at the front, and at the back, of the free queue all hits are that are in it."""
    null = null_block(pool)
    brought = where_within(hits, torch.ones_like(hits.lengths, dtype=torch.bool), null)
    return torch.stack([distance(pool, brought, index.places, behind=end).max() + 1 for end in (False, True)])


def refreshed(config: Config, pool: Pool, index: Index) -> Index:
    """With the key of the first copy of every content, so that every look-up is certain: passes over all blocks."""
    return index._replace(first=first_copies(config, pool))


def adopted(pool: Pool, index: Index, requests: Tensor, write: Writing = COPYING) -> Index:
    """After an admission of these requests ([turns] int64), before which everything was settled: so are their hits."""
    return index._replace(settled=write.put(index.settled, requests, pool.registered.index_select(0, requests)))


def placed(pool: Pool, index: Index, front: int, back: int, write: Writing = COPYING) -> Index:
    """The blocks in so many cells at the front and at the back of the free queue are where they are now."""
    null, places = null_block(pool), index.places
    for cells, first in ((front, torch.zeros_like(pool.free)), (back, (pool.free - back).clamp(min=0))):
        offsets = first + torch.arange(min(cells, nowhere(pool)), device=places.device)
        cell = wrapped(pool, pool.head + offsets)
        blocks = torch.where(offsets < pool.free, pool.order.index_select(0, cell), null)
        places = write.put(places, blocks, cell)
    return index._replace(places=places)


def released(pool: Pool, index: Index, requests: Tensor, write: Writing = COPYING) -> Index:
    """After these requests ([turns] int64), which were settled, have given back their tables."""
    cells = requests.shape[0] * pool.tables.shape[1]
    settled = write.put(index.settled, requests, torch.zeros_like(requests))
    return placed(pool, index._replace(settled=settled), cells, cells, write)
