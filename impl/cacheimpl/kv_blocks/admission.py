"""Slots for requests with hits: all hits are held before a free block is taken for any request.

The sequential rule takes the blocks of one turn before it touches the hits of the next, so a turn can lose its hits to
one before it. A burst is served up to the first turn of which it cannot be said at once that this does not happen.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.kv_blocks.marking import least_by_block
from cacheimpl.kv_blocks.prefix import Hits
from cacheimpl.kv_blocks.slots import Ask, Slots, asked, with_slots
from cacheimpl.kv_blocks.state import Config, Pool, nowhere, null_block, wrapped
from cacheimpl.writing import COPYING, Writing


class Reach(NamedTuple):
    """The part of the free queue that hits are taken out of: so many cells at one end of it."""

    places: Tensor
    """[blocks + 1] int64: the cell of the queue's buffer that each free block is in"""
    cells: int
    """How many cells. A turn with a hit that is free and in none of them is not answered"""
    behind: bool
    """Whether it is the back of the queue, and not its front"""
    marks: Tensor
    """[blocks + 1] int64: NEVER everywhere (see `least_by_block`)"""


def admit(
    config: Config,
    pool: Pool,
    requests: Tensor,
    computed: Tensor,
    tokens: Tensor,
    hits: Hits,
    *,
    width: int,
    reach: Reach | None = None,
    spare: Tensor | None = None,
    write: Writing = COPYING,
) -> tuple[Pool, Slots]:
    """`allocate_slots` for requests of which some have found blocks ([turns] each); one request is always answered.

    The turns from `Slots.served` on that are UNANSWERED are asked again, with hits that are looked up again. Without a
    `reach` the whole free queue is passed over; with one that is too short, the first turn may be unanswered too.
    `spare`: free blocks that each turn has to leave ([turns] int64), 0 if None.
    """
    held, written, planned = (
        column.index_select(0, requests) for column in (pool.blocks, pool.computed, pool.scheduled)
    )
    hit_blocks = hits.lengths
    end = computed + hit_blocks * config.block_size + tokens
    large, present = end > config.limit, (hit_blocks > 0) & (held > 0)
    stale = (computed < written) | (computed > planned) | ~are_cached(config, pool, requests, hits)
    ask = asked(config, pool, requests, end, planned, held + hit_blocks, ~(large | present | stale), width)
    adopted = where_within(hits, ask.possible, null_block(pool))
    front = front_of(pool, requests.shape[0] * width + adopted.numel())
    adopters = first_adopters(pool, adopted, front, None if reach is None else reach.marks, write)
    revived = revived_by(pool, adopted, adopters[: adopted.numel()])
    lost = may_lose_hits(pool, ask, front, adopters[adopted.numel() :])
    if reach is not None:
        lost = lost | (distance(pool, adopted, reach.places, behind=reach.behind) >= reach.cells).any(1)
    taken = ask.up_to + revived.cumsum(0)
    refused = ~lost & ((tokens <= 0) | ((taken if spare is None else taken + spare) > pool.free))
    reached = (ask.possible & (refused | ask.too_wide | lost)).cumsum(0) == 0
    done = ask.possible & reached
    adopting = adopt(config, pool, requests, hits, done, write, reach)
    after, blocks, given = with_slots(adopting, ask, done, write)
    return after, Slots(done, large, present, stale, refused, reached, blocks, given)


def are_cached(config: Config, pool: Pool, requests: Tensor, hits: Hits) -> Tensor:
    """[turns] bool: whether the hits still hold the beginning of the request."""
    contents = config.contents.index_select(0, requests)
    carried = pool.carried.index_select(0, hits.blocks.flatten()).reshape(contents.shape)
    same = (carried == contents) & (hits.blocks < null_block(pool))
    return (same | ~is_within(hits)).all(1)


def is_within(hits: Hits) -> Tensor:
    """[turns, positions + 1] bool: which elements are hits."""
    return torch.arange(hits.blocks.shape[1], device=hits.lengths.device) < hits.lengths[:, None]


def where_within(hits: Hits, turns: Tensor, null: int) -> Tensor:
    """[turns, positions + 1] int64: the hits of these turns ([turns] bool), and the null block elsewhere."""
    return torch.where(is_within(hits) & turns[:, None], hits.blocks, null)


def front_of(pool: Pool, cells: int) -> Tensor:
    """[at most `cells`] int64: what is in the first cells of the free queue, and behind its end anything."""
    offsets = torch.arange(min(cells, nowhere(pool)), device=pool.order.device)
    return pool.order.index_select(0, wrapped(pool, pool.head + offsets))


def first_adopters(pool: Pool, adopted: Tensor, front: Tensor, marks: Tensor | None, write: Writing) -> Tensor:
    """[elements of `adopted`, then of `front`] int64: the first turn that has the block among its hits.

    It is the number of turns where none has.
    """
    turns, flat = adopted.shape[0], adopted.flatten()
    turn = torch.arange(turns, device=adopted.device)[:, None].expand_as(adopted).flatten()
    return least_by_block(pool, flat, turn, torch.cat((flat, front)), marks, write).clamp(max=turns)


def revived_by(pool: Pool, adopted: Tensor, adopters: Tensor) -> Tensor:
    """[turns] int64: how many free blocks each turn is the first to adopt."""
    turn = torch.arange(adopted.shape[0], device=adopted.device)[:, None]
    first = adopters.reshape(adopted.shape) == turn
    return (first & is_idle(pool, adopted)).sum(1)


def is_idle(pool: Pool, adopted: Tensor) -> Tensor:
    """[turns, positions + 1] bool: which of these are blocks in the free queue."""
    idle = (pool.references.index_select(0, adopted.flatten()) == 0).reshape(adopted.shape)
    return idle & (adopted < null_block(pool))


def distance(pool: Pool, adopted: Tensor, places: Tensor, *, behind: bool) -> Tensor:
    """[turns, positions + 1] int64: how many cells are before each free block, from its end of the queue; else -1."""
    cells = places.index_select(0, adopted.flatten()).reshape(adopted.shape)
    away = wrapped(pool, pool.head + pool.free - 1 - cells if behind else cells - pool.head)
    return torch.where(is_idle(pool, adopted), away, -1)


def may_lose_hits(pool: Pool, ask: Ask, front: Tensor, adopter: Tensor) -> Tensor:
    """[turns] bool: adopts a free block that earlier turns may have taken.

    They have not where so many blocks stand before it that nobody in the burst adopts: those are taken instead. So only
    as many cells count as all of them together could take or adopt: `front` is what is in them ([cells]), and `adopter`
    who adopts that first.
    """
    turns = ask.needs.shape[0]
    live = torch.arange(front.shape[0], device=front.device) < pool.free
    adopted = adopter < turns
    before = (live & ~adopted).cumsum(0, dtype=torch.int32)  # of one that is adopted; it is not among them
    taken = torch.nn.functional.pad(ask.up_to - ask.needs, (0, 1))
    lost = live & adopted & (before < taken.index_select(0, adopter))
    return torch.zeros_like(taken).scatter_reduce(0, adopter, lost.long(), "amax")[:turns] > 0


def adopt(
    config: Config,
    pool: Pool,
    requests: Tensor,
    hits: Hits,
    done: Tensor,
    write: Writing,
    reach: Reach | None = None,
) -> Pool:
    """The hits of these turns ([turns] bool), which have no table, become the beginning of their tables.

    Where there is a `reach`, those of them that are free are in it.
    """
    null, cells = null_block(pool), pool.tables.shape[1]
    adopted = where_within(hits, done, null)
    flat = adopted.flatten()
    hit_blocks = hits.lengths * done
    tokens = hit_blocks * config.block_size
    first = (requests * cells)[:, None]
    offsets = torch.arange(cells, device=requests.device)
    at = torch.where(adopted < null, first + offsets, first + (cells - 1)).flatten()
    after = pool._replace(
        tables=write.put(pool.tables, at, flat.to(pool.tables.dtype)),
        blocks=write.add(pool.blocks, requests, hit_blocks),
        registered=write.add(pool.registered, requests, hit_blocks),
        origin=write.add(pool.origin, requests, tokens),
        computed=write.add(pool.computed, requests, tokens),
        references=write.add(pool.references, flat, torch.ones_like(flat)),
    )
    return without_held(after, reach, write)


def without_held(pool: Pool, reach: Reach | None, write: Writing) -> Pool:
    """The free queue without the blocks that are held by now, the others moved up to it, or back from its front."""
    cells = nowhere(pool) if reach is None else min(reach.cells, nowhere(pool))
    behind = reach is None or reach.behind
    first = (pool.free - cells).clamp(min=0) if behind else torch.zeros_like(pool.free)
    # Cells are counted in 32 bits, and scalars are added up before: the whole queue of a large pool is many pages.
    offset = torch.arange(cells, dtype=torch.int32, device=pool.order.device)
    blocks = pool.order.index_select(0, wrapped(pool, offset + (pool.head + first)))
    live, held = offset < pool.free - first, pool.references.index_select(0, blocks) > 0
    kept, gone = live & ~held, (live & held).sum()
    moved = pool.head if behind else pool.head + gone
    cell = wrapped(pool, kept.cumsum(0, dtype=torch.int32) + (moved + first - 1))
    order = write.put(pool.order, torch.where(kept, cell, nowhere(pool)).long(), blocks)
    return pool._replace(order=order, head=wrapped(pool, moved), free=pool.free - gone)
