"""The state of the KV blocks: tables of requests, the free queue, and the prefix map.

A request, a block and a content are rows. Each of the three has one row more than there are: the last one stands for
nobody, the null block, and no content. What a masked element of a burst reads or writes is there, so no operation asks
whether an index exists, and nothing is read from that row that decides anything.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.constants import constant


class Config(NamedTuple):
    """What the state refers to. `requests`, `positions`, `blocks` and `contents` are counts without the last row."""

    block_size: Tensor
    """[] int64, tokens"""
    limit: Tensor
    """[] int64, tokens: the longest request that the engine admits"""
    contents: Tensor
    """[requests + 1, positions + 1] int64: the content of each full block of each request; where there is none, the
    row `contents` (see `configuration`)"""
    lengths: Tensor
    """[requests + 1] int64, tokens: how many a request has at most; 0 for nobody"""
    hashes: Tensor
    """[contents + 1] int64: the hash of each content. No answer depends on it: a block is found by what it holds."""


class Pool(NamedTuple):
    """Unused cells of tables, of the queue, and of the stamps hold anything; nothing is read from them."""

    tables: Tensor
    """[requests + 1, positions + 1] int32: the block at each position of each table, the null block behind its end"""
    blocks: Tensor
    """[requests + 1] int64: the length of each table; 0 where a request has none"""
    registered: Tensor
    """[requests + 1] int64: so many of its blocks, from the first, were hits or have been registered"""
    severed: Tensor
    """[requests + 1] bool (derived): whether the last of those cannot be found any more; then nothing that becomes full
    behind it will be"""
    origin: Tensor
    """[requests + 1] int64, tokens: history, from where on the request computes by itself"""
    computed: Tensor
    """[requests + 1] int64, tokens: those before this one have their KV written"""
    scheduled: Tensor
    """[requests + 1] int64, tokens: there are slots for those before this one"""
    references: Tensor
    """[blocks + 1] int64: how many places in tables a block has"""
    order: Tensor
    """[cells + 1] int64: the free queue, a circular buffer of a power of two cells (see `wrapped`); the last cell is
    nowhere"""
    head: Tensor
    """[] int64: where the queue begins, the block that is taken next"""
    free: Tensor
    """[] int64: how many blocks are in the queue"""
    carried: Tensor
    """[blocks + 1] int64: the content under which a block can be found, -1 where under none"""
    stamp: Tensor
    """[blocks + 1] int64: when the block was registered; of copies the one with the least is found"""
    clock: Tensor
    """[] int64: not less than any stamp"""
    bytes: Tensor
    """[blocks + 1] int64: history, of which content the block really has the KV, -1 of none"""


def configuration(
    contents: Tensor, lengths: Tensor, *, block_size: int, limit: int, hashes: Tensor | None = None, count: int = 0
) -> Config:
    """The configuration of requests with these contents ([requests, positions] int64, -1 where there is none).

    `lengths`: [requests] int64, tokens. `hashes`: [contents] int64; where it is not given, no two of the `count`
    contents have the same. A table has as many positions as the longest request needs, so `limit` must not need more.
    """
    device = contents.device
    known = torch.arange(count, device=device) if hashes is None else hashes
    none = known.shape[0]
    padded = torch.nn.functional.pad(torch.where(contents < 0, none, contents), (0, 1, 0, 1), value=none)
    return Config(
        block_size=torch.tensor(block_size, device=device),
        limit=torch.tensor(limit, device=device),
        contents=padded,
        lengths=torch.nn.functional.pad(lengths, (0, 1)),
        hashes=torch.cat((known, known.new_tensor((none,)))),
    )


def empty(config: Config, blocks: int) -> Pool:
    """So many blocks, all free, the first one first."""
    rows, positions = config.contents.shape
    device = config.contents.device

    def filled(count: int, value: int) -> Tensor:
        return torch.full((count,), value, dtype=torch.int64, device=device)

    return Pool(
        tables=torch.full((rows, positions), blocks, dtype=torch.int32, device=device),
        blocks=filled(rows, 0),
        registered=filled(rows, 0),
        severed=filled(rows, 0).bool(),
        origin=filled(rows, 0),
        computed=filled(rows, 0),
        scheduled=filled(rows, 0),
        references=filled(blocks + 1, 0),
        order=torch.arange(cells_for(blocks) + 1, device=device).clamp(max=blocks),
        head=torch.tensor(0, device=device),
        free=torch.tensor(blocks, device=device),
        carried=filled(blocks + 1, -1),
        stamp=filled(blocks + 1, 0),
        clock=torch.tensor(0, device=device),
        bytes=filled(blocks + 1, -1),
    )


def severed(pool: Pool) -> Tensor:
    """[requests + 1] bool: the column of this name, from the tables and from what can be found."""
    newest = (pool.registered - 1).clamp(min=0)
    last = pool.tables.gather(1, newest[:, None]).squeeze(1)
    return (pool.registered > 0) & (pool.carried.index_select(0, last) < 0)


def nobody(pool: Pool) -> int:
    """The row that stands for no request."""
    return pool.blocks.shape[0] - 1


def null_block(pool: Pool) -> int:
    """The row that stands for no block; also how many blocks there are."""
    return pool.references.shape[0] - 1


def nothing_of_nobody(pool: Pool) -> int:
    """The last cell of the tables, counted row by row: where a masked element of a burst reads and writes.

    It is one cell for all of them, so what is masked is not fetched from memory either.
    """
    rows, cells = pool.tables.shape
    return rows * cells - 1


def cells_for(blocks: int) -> int:
    """The least power of two with room for so many blocks: then a place is wrapped by masking, not by dividing."""
    return 1 << (blocks - 1).bit_length()


def wrapped(pool: Pool, places: Tensor) -> Tensor:
    """The cells of the free queue's buffer for places that count on beyond its end, or back before its beginning."""
    return places & constant(pool.order.shape[0] - 2, places.device)


def nowhere(pool: Pool) -> int:
    """The cell of the free queue's buffer that is not in it."""
    return pool.order.shape[0] - 1
