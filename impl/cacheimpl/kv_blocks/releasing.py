"""Release of tables, a burst at a time: unreferenced blocks go to one end of the free queue."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.answer import Code
from cacheimpl.kv_blocks.execution import filled
from cacheimpl.kv_blocks.marking import least_by_block
from cacheimpl.kv_blocks.spreading import spread, whole_blocks
from cacheimpl.kv_blocks.state import Config, Pool, nowhere, null_block, wrapped
from cacheimpl.writing import COPYING, Writing


def free_request(
    config: Config, pool: Pool, requests: Tensor, *, marks: Tensor | None = None, write: Writing = COPYING
) -> tuple[Pool, Tensor]:
    """Requests ([turns] int64: distinct rows, or nobody's) are finished or preempted, one after the other.

    What is in flight for them is still written. Returns the code of each turn: DONE or ABSENT. `marks`: see
    `least_by_block`.
    """
    return release(landed(config, pool, requests, write) if write.history else pool, requests, marks, write)


def landed(config: Config, pool: Pool, requests: Tensor, write: Writing) -> Pool:
    """What is in flight for these requests ([turns] int64) is written into their blocks. That is history."""
    planned, lengths, first = (
        column.index_select(0, requests) for column in (pool.scheduled, config.lengths, pool.registered)
    )
    tokens = torch.minimum(planned, lengths) - first * config.block_size
    counts = whole_blocks(tokens, config.block_size, pool.tables.shape[1] - 1)
    flying = filled(config, pool, requests, first, spread(counts, pool.tables.shape[1] - 1))
    return pool._replace(bytes=write.put(pool.bytes, flying.blocks, flying.contents))


def withdraw(
    config: Config, pool: Pool, requests: Tensor, *, marks: Tensor | None = None, write: Writing = COPYING
) -> tuple[Pool, Tensor]:
    """The same, of requests whose step is never executed."""
    return release(pool, requests, marks, write)


def release(pool: Pool, requests: Tensor, marks: Tensor | None, write: Writing) -> tuple[Pool, Tensor]:
    """Each request gives back its blocks, and has no table any more.

    A block is free when the last request that holds it lets go. One that cannot be found comes to the front of the
    queue; one that can, behind all others, the end of its sequence first.
    """
    null, cells = null_block(pool), pool.tables.shape[1]
    lengths = pool.blocks.index_select(0, requests)
    places = torch.arange(cells, device=requests.device)
    its = places < lengths[:, None]
    blocks = torch.where(its, pool.tables.index_select(0, requests).long(), null)
    flat = blocks.flatten()
    references = write.add(pool.references, flat, -its.flatten().long())
    freed = its & (references.index_select(0, flat) == 0).reshape(its.shape) & is_last(pool, blocks, marks, write)
    cached = (pool.carried.index_select(0, flat) >= 0).reshape(its.shape)
    # One table row is read forwards for the front, and backwards for the back: so places behind come as they are freed.
    front, back = (freed & ~cached).flatten(), (freed & cached).flip(1).flatten()
    before_first = wrapped(pool, pool.head - front.cumsum(0))
    behind_last = wrapped(pool, pool.head + pool.free + back.cumsum(0) - 1)
    order = write.put(pool.order, torch.where(front, before_first, nowhere(pool)), flat)
    order = write.put(order, torch.where(back, behind_last, nowhere(pool)), blocks.flip(1).flatten())
    first = front.sum()
    after = pool._replace(
        tables=write.put(
            pool.tables, ((requests * cells)[:, None] + places).flatten(), torch.full_like(flat, null).int()
        ),
        references=references,
        order=order,
        head=wrapped(pool, pool.head - first),
        free=pool.free + first + back.sum(),
        **{name: cleared(getattr(pool, name), requests, write) for name in COLUMNS},
    )
    return after, torch.where(lengths > 0, int(Code.DONE), int(Code.ABSENT))


COLUMNS = ("blocks", "registered", "severed", "origin", "computed", "scheduled")


def cleared(column: Tensor, requests: Tensor, write: Writing) -> Tensor:
    """All zeros for these requests."""
    return write.put(column, requests, torch.zeros_like(requests, dtype=column.dtype))


def is_last(pool: Pool, blocks: Tensor, marks: Tensor | None, write: Writing) -> Tensor:
    """[turns, places] bool: whether no later turn holds the block of this place."""
    turns = torch.arange(blocks.shape[0], device=blocks.device)
    flat, before = blocks.flatten(), -turns[:, None].expand_as(blocks).flatten()
    return (least_by_block(pool, flat, before, flat, marks, write) == before).reshape(blocks.shape)
