"""The free queue: blocks are taken at its front, come back at either end, and leave it where a hit adopts them."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.constants import constant
from cacheimpl.layer_groups.state import Pool, spare_block
from cacheimpl.writing import Writing


def wrapped(pool: Pool, places: Tensor) -> Tensor:
    """The cells of the buffer for places that count on beyond its end, or back before its beginning."""
    return places & constant(pool.order.shape[0] - 2, places.device)


def nowhere(pool: Pool) -> int:
    """The cell of the buffer that is not in it."""
    return pool.order.shape[0] - 1


def taken(pool: Pool, wanted: Tensor) -> tuple[Pool, Tensor]:
    """The next free blocks, in turn for each that is wanted ([n] bool): [n] int64, the spare row for the others.

    There are as many: the caller has looked.
    """
    cells = wrapped(pool, pool.head + wanted.cumsum(0) - 1)
    blocks = torch.where(wanted, pool.order.index_select(0, cells), spare_block(pool))
    total = wanted.sum()
    return pool._replace(head=wrapped(pool, pool.head + total), free=pool.free - total), blocks


def let_go(pool: Pool, blocks: Tensor, its: Tensor, write: Writing, *, forwards: bool) -> Pool:
    """Each of these places gives one reference back: [groups, positions] int64 and bool; no block is in two of them.

    The last reference makes a block free. One that can be found comes behind all others, each group from its end. One
    that cannot comes to the front: each group from its end too, or `forwards`.
    """
    blocks = torch.where(its, blocks, spare_block(pool))
    flat = blocks.flatten()
    references = write.add(pool.references, flat, -its.flatten().long())
    freed = its & (references.index_select(0, flat) == 0).reshape(its.shape)
    cached = (pool.carried.index_select(0, flat) >= 0).reshape(its.shape)
    useless, useful = freed & ~cached, (freed & cached).flip(1).flatten()
    backwards = blocks.flip(1).flatten()
    front, first = (useless.flatten(), flat) if forwards else (useless.flip(1).flatten(), backwards)
    before_first = wrapped(pool, pool.head - front.cumsum(0))
    behind_last = wrapped(pool, pool.head + pool.free + useful.cumsum(0) - 1)
    order = write.put(pool.order, torch.where(front, before_first, nowhere(pool)), first)
    order = write.put(order, torch.where(useful, behind_last, nowhere(pool)), backwards)
    came = front.sum()
    return pool._replace(
        references=references,
        order=order,
        head=wrapped(pool, pool.head - came),
        free=pool.free + came + useful.sum(),
    )


def without_held(pool: Pool, write: Writing) -> Pool:
    """The queue without the blocks that are held by now; the others move up to its front."""
    offsets = torch.arange(nowhere(pool), device=pool.order.device)
    blocks = pool.order.index_select(0, wrapped(pool, pool.head + offsets))
    kept = (offsets < pool.free) & (pool.references.index_select(0, blocks) == 0)
    cells = torch.where(kept, wrapped(pool, pool.head + kept.cumsum(0) - 1), nowhere(pool))
    return pool._replace(order=write.put(pool.order, cells, blocks), free=kept.sum())
