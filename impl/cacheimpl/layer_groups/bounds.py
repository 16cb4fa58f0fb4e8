"""The layout of the state: bounds, names, what is derived, and the normal state."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.layer_groups.queue import nowhere, wrapped
from cacheimpl.layer_groups.state import Config, Pool, first_needed, slots_of, spare_block, spare_key
from cacheimpl.layout import Field, Layout


def normal(config: Config, pool: Pool) -> Pool:
    """The state that behaves alike: its queue begins at the first cell, and its stamps count the copies of a key.

    What nothing is read from holds one fixed value: the spare rows, the stamps of blocks that cannot be found, and the
    cells of the buffer that are not in the queue.
    """
    spare = spare_block(pool)
    real = torch.arange(spare + 1, device=pool.order.device) < spare
    cells = torch.arange(nowhere(pool) + 1, device=real.device)
    queued = pool.order.index_select(0, wrapped(pool, pool.head + cells))
    carried = torch.where(real, pool.carried, -1)
    keys = torch.arange(spare_key(pool) + 1, device=real.device)
    return pool._replace(
        references=torch.where(real, pool.references, 0),
        order=torch.where(cells < pool.free, queued, spare),
        head=torch.zeros_like(pool.head),
        carried=carried,
        stamp=copies_before(carried, pool.stamp),
        clock=torch.full_like(pool.clock, spare),
        this_step=pool.this_step & (keys < spare_key(pool)),
        bytes=torch.where(real, pool.bytes, -1),
    )


def copies_before(carried: Tensor, stamp: Tensor) -> Tensor:
    """[blocks + 1] int64: of each block that can be found, how many of the same key were registered before it."""
    same = (carried[:, None] == carried) & (carried >= 0)
    return (same & (stamp < stamp[:, None])).sum(1)


def derive(config: Config, pool: Pool) -> Pool:
    """With what follows from the tables, and from how far each request is."""
    spare = spare_block(pool)
    last = pool.ends.gather(1, (pool.flying - 1).clamp(min=0)[:, None]).squeeze(1)
    scheduled = torch.where(pool.flying > 0, last, pool.computed)
    places = torch.where(pool.tables == pool.null, spare, pool.tables.long()).flatten()
    held = torch.zeros_like(pool.references).scatter_add(0, places, torch.ones_like(places))
    references = torch.where(torch.arange(spare + 1, device=places.device) < spare, held, 0)
    return pool._replace(
        lengths=torch.where(scheduled[:, None] > 0, slots_of(config, scheduled[:, None]), 0),
        registered=torch.where(config.caches, registered(config, pool), 0),
        scheduled=scheduled,
        references=references,
        free=spare - 1 - (references > 0).sum(),
        clock=torch.full_like(pool.clock, spare),
    )


def registered(config: Config, pool: Pool) -> Tensor:
    """[requests, groups] int64: up to the hits until a step was executed, and then up to what is computed."""
    hits = torch.maximum(first_needed(config, pool.loaded[:, None]), pool.found[:, None] // config.size)
    has_executed = pool.computed > pool.loaded
    return torch.where(has_executed[:, None], pool.computed[:, None] // config.size, hits)


def layout(config: Config, pool: Pool) -> Layout[Pool]:
    """Bounds for these requests, and for as many blocks, keys and steps in flight as the pool has."""
    requests, groups, positions = config.keys.shape
    blocks, keys, steps, longest = spare_block(pool), spare_key(pool), pool.ends.shape[1], int(config.lengths.max())

    def column(name: str, high: int, *, derived: bool = False) -> Field:
        return Field(name, (requests,), torch.int64, 0, high, axes=("request",), derived=derived)

    def by_group(name: str) -> Field:
        return Field(name, (requests, groups), torch.int64, 0, positions, axes=("request", ""), derived=True)

    def of_block(name: str, low: int, high: int, *, derived: bool = False) -> Field:
        return Field(name, (blocks + 1,), torch.int64, low, high, axes=("block",), derived=derived)

    shape = tuple(pool.tables.shape)
    return Layout(
        Pool,
        (
            Field("tables", shape, torch.int32, 0, blocks - 1, axes=("request", "", ""), holds="block"),
            by_group("lengths"),
            by_group("registered"),
            column("found", longest),
            column("loaded", longest),
            column("computed", longest),
            Field("ends", (requests, steps), torch.int64, 0, longest, axes=("request", "")),
            column("flying", steps),
            column("scheduled", longest, derived=True),
            of_block("references", 0, requests, derived=True),
            Field("order", tuple(pool.order.shape), torch.int64, 0, blocks, holds="block"),
            Field("head", (), torch.int64, 0, 0),
            Field("free", (), torch.int64, 0, blocks, derived=True),
            of_block("carried", -1, keys - 1),
            of_block("stamp", 0, blocks - 1),
            Field("clock", (), torch.int64, blocks, blocks, derived=True),
            Field("this_step", (keys + 1,), torch.bool, 0, 1),
            Field("null", (), torch.int64, 0, blocks - 1, holds="block"),
            of_block("bytes", -1, keys - 1),
        ),
        lambda pool: derive(config, pool),
        lambda pool: normal(config, pool),
    )
