"""Slots for requests that bring hits along: what they found is theirs before a block is taken for anybody.

The sequential rule takes the blocks of one turn before it touches the hits of the next, so a turn can lose its hits to
one before it. A burst is served up to the first turn of which it cannot be said at once that this does not happen.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.kv_blocks.prefix import Hits
from cacheimpl.kv_blocks.slots import Ask, Slots, asked, with_slots
from cacheimpl.kv_blocks.state import Config, Pool, nowhere, null_block, wrapped
from cacheimpl.writing import COPYING, Writing


def admit(
    config: Config,
    pool: Pool,
    requests: Tensor,
    computed: Tensor,
    tokens: Tensor,
    hits: Hits,
    *,
    width: int,
    write: Writing = COPYING,
) -> tuple[Pool, Slots]:
    """`allocate_slots` for requests of which some have found blocks ([turns] each); one request is always answered.

    The turns from `Slots.served` on that are UNANSWERED are asked again, with hits that are looked up again.
    """
    held, written, planned = (
        column.index_select(0, requests) for column in (pool.blocks, pool.computed, pool.scheduled)
    )
    found = hits.lengths
    end = computed + found * config.block_size + tokens
    large, present = end > config.limit, (found > 0) & (held > 0)
    stale = (computed < written) | (computed > planned) | ~are_cached(config, pool, requests, hits)
    ask = asked(config, pool, requests, end, planned, held + found, ~(large | present | stale), width)
    adopted = where_within(hits, ask.possible, null_block(pool))
    adopters = first_adopters(pool, adopted)
    revived = revived_by(pool, adopted, adopters)
    queue = queue_of(pool)
    lost = may_lose_hits(ask, adopters, queue)
    refused = ~lost & ((tokens <= 0) | (ask.up_to + revived.cumsum(0) > pool.free))
    stops = (ask.possible & (refused | ask.too_wide | lost)).cumsum(0)
    done = ask.possible & (stops == 0)
    adopting = adopt(config, pool, requests, hits, done, write, queue)
    after, blocks, given = with_slots(adopting, ask, done, write)
    return after, Slots(done, large, present, stale, refused, stops, blocks, given)


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


def first_adopters(pool: Pool, adopted: Tensor) -> Tensor:
    """[blocks + 1] int64: the first turn that has each block among its hits; the number of turns where none has."""
    turns = adopted.shape[0]
    turn = torch.arange(turns, device=adopted.device)[:, None].expand_as(adopted).flatten()
    nobody = torch.full_like(pool.references, turns)
    return nobody.scatter_reduce(0, adopted.flatten(), turn, "amin")


def revived_by(pool: Pool, adopted: Tensor, adopters: Tensor) -> Tensor:
    """[turns] int64: how many free blocks each turn is the first to adopt."""
    flat = adopted.flatten()
    turn = torch.arange(adopted.shape[0], device=adopted.device)[:, None]
    first = adopters.index_select(0, flat).reshape(adopted.shape) == turn
    idle = (pool.references.index_select(0, flat) == 0).reshape(adopted.shape)
    return (first & idle & (adopted < null_block(pool))).sum(1)


def queue_of(pool: Pool) -> tuple[Tensor, Tensor]:
    """Each [cells]: the blocks of the buffer from the head on, and which of them are in the queue."""
    place = torch.arange(nowhere(pool), device=pool.order.device)
    return pool.order.index_select(0, wrapped(pool, pool.head + place)), place < pool.free


def may_lose_hits(ask: Ask, adopters: Tensor, queue: tuple[Tensor, Tensor]) -> Tensor:
    """[turns] bool: who adopts a free block that turns before it may have taken.

    They have not where so many blocks stand before it that nobody in the burst adopts: those are taken instead.
    """
    turns = ask.needs.shape[0]
    blocks, live = queue
    adopter = adopters.index_select(0, blocks)
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
    queue: tuple[Tensor, Tensor] | None = None,
) -> Pool:
    """The hits of these turns ([turns] bool), which have no table, become the beginning of their tables.

    `queue` is the free queue (see `queue_of`), where the caller has it.
    """
    null, cells = null_block(pool), pool.tables.shape[1]
    adopted = where_within(hits, done, null)
    flat = adopted.flatten()
    found = hits.lengths * done
    tokens = found * config.block_size
    first = (requests * cells)[:, None]
    place = torch.arange(cells, device=requests.device)
    at = torch.where(adopted < null, first + place, first + (cells - 1)).flatten()
    held = torch.zeros_like(pool.references, dtype=torch.bool).scatter(0, flat, value=True)
    order, free = without_held(pool, held, queue_of(pool) if queue is None else queue, write)
    return pool._replace(
        tables=write.put(pool.tables, at, flat.to(pool.tables.dtype)),
        blocks=write.add(pool.blocks, requests, found),
        registered=write.add(pool.registered, requests, found),
        origin=write.add(pool.origin, requests, tokens),
        computed=write.add(pool.computed, requests, tokens),
        references=write.add(pool.references, flat, torch.ones_like(flat)),
        order=order,
        free=free,
    )


def without_held(pool: Pool, held: Tensor, queue: tuple[Tensor, Tensor], write: Writing) -> tuple[Tensor, Tensor]:
    """The free queue without these blocks ([blocks + 1] bool), the others moved up; and how many there are."""
    blocks, live = queue
    kept = live & ~held.index_select(0, blocks)
    count = kept.cumsum(0)
    place = wrapped(pool, (pool.head - 1) + count)
    return write.put(pool.order, torch.where(kept, place, nowhere(pool)), blocks), count[-1]
