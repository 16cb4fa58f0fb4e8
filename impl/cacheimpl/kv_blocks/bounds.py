"""The layout of the KV blocks: bounds, names, what is derived, and the normal state."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.kv_blocks.state import Config, Pool, cells_for, nowhere, null_block, severed, wrapped
from cacheimpl.layout import Field, Layout


def normal(config: Config, pool: Pool) -> Pool:
    """The state that behaves alike: its queue begins at the first cell, and its stamps count the copies of a hash.

    What nothing is read from holds one fixed value: the null block's cells, the stamps of blocks that cannot be found,
    and the cells of the buffer that are not in the queue.
    """
    null = null_block(pool)
    rows = torch.arange(null + 1, device=pool.order.device)
    real = rows < null
    cells = torch.arange(nowhere(pool) + 1, device=rows.device)
    queued = pool.order.index_select(0, wrapped(pool, pool.head + cells))
    carried = torch.where(real, pool.carried, -1)
    return pool._replace(
        references=torch.where(real, pool.references, 0),
        order=torch.where(cells < pool.free, queued, null),
        head=torch.zeros_like(pool.head),
        carried=carried,
        stamp=copies_before(config, carried, pool.stamp),
        clock=torch.full_like(pool.clock, null),
        bytes=torch.where(real, pool.bytes, -1),
    )


def copies_before(config: Config, carried: Tensor, stamp: Tensor) -> Tensor:
    """[blocks + 1] int64: of each block that can be found, how many of the same hash were registered before it."""
    none = config.hashes.shape[0] - 1
    registered = carried >= 0
    hashes = config.hashes.index_select(0, torch.where(registered, carried, none))
    before = (hashes[:, None] == hashes) & registered[:, None] & registered & (stamp < stamp[:, None])
    return before.sum(1)


def derive(config: Config, pool: Pool) -> Pool:
    """With what follows from the tables, and from how far each request is."""
    null = null_block(pool)
    its = torch.arange(pool.tables.shape[1], device=pool.tables.device) < pool.blocks[:, None]
    places = torch.where(its, pool.tables.long(), null).flatten()
    held = torch.zeros_like(pool.references).scatter_add(0, places, torch.ones_like(places))
    rows = torch.arange(null + 1, device=places.device)
    references = torch.where(rows < null, held, 0)
    registered = torch.div(pool.computed, config.block_size, rounding_mode="floor")
    return pool._replace(
        registered=registered,
        severed=severed(pool._replace(registered=registered)),
        references=references,
        free=(references == 0).sum() - 1,
        clock=torch.full_like(pool.clock, null),
    )


def layout(config: Config, blocks: int) -> Layout[Pool]:
    """Bounds for these requests and so many blocks."""
    rows, cells = config.contents.shape
    contents, limit = config.hashes.shape[0] - 1, int(config.limit)

    def column(name: str, high: int, *, derived: bool = False) -> Field:
        return Field(name, (rows,), torch.int64, 0, high, axes=("request",), derived=derived)

    def of_block(name: str, low: int, high: int, *, derived: bool = False) -> Field:
        return Field(name, (blocks + 1,), torch.int64, low, high, axes=("block",), derived=derived)

    return Layout(
        Pool,
        (
            Field("tables", (rows, cells), torch.int32, 0, blocks, axes=("request", ""), holds="block"),
            column("blocks", cells - 1),
            column("registered", cells - 1, derived=True),
            Field("severed", (rows,), torch.bool, 0, 1, axes=("request",), derived=True),
            column("origin", limit),
            column("computed", limit),
            column("scheduled", limit),
            of_block("references", 0, rows - 1, derived=True),
            Field("order", (cells_for(blocks) + 1,), torch.int64, 0, blocks, holds="block"),
            Field("head", (), torch.int64, 0, 0),
            Field("free", (), torch.int64, 0, blocks, derived=True),
            of_block("carried", -1, contents - 1),
            of_block("stamp", 0, blocks - 1),
            Field("clock", (), torch.int64, blocks, blocks, derived=True),
            of_block("bytes", -1, contents - 1),
        ),
        lambda pool: derive(config, pool),
        lambda pool: normal(config, pool),
    )
