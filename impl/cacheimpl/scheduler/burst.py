"""The longest part of a round that is known at once: many requests in one go, exactly as one after the other.

The sequential rule is a chain only where what one request does changes what is left for the next one in a way that is
not a sum: an item that is refused, a request that is preempted, a hit that is evicted. Up to the first request for
which that may be so, sums over the line give what the chain gives.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl import kv_blocks
from cacheimpl.constants import constant
from cacheimpl.recency import OUTSIDE, length, queued, without
from cacheimpl.scheduler.counts import aligned, known_length, length_in_sight, limited, wanted
from cacheimpl.scheduler.items import items_of
from cacheimpl.scheduler.lines import behind_equals, by_request, by_row, rows_in_order
from cacheimpl.scheduler.plans import Parts, with_parts
from cacheimpl.scheduler.readiness import candidates, has_adapter_there
from cacheimpl.scheduler.reserving import held_from_now_on, reserved, up_to_barred
from cacheimpl.scheduler.state import Config, State
from cacheimpl.scheduler.transferring import loading_in_step, waits_with_blocks
from cacheimpl.writing import Writing


def leading(good: Tensor) -> Tensor:
    """[turns] bool: the turns before the first one that is not good ([turns] bool)."""
    return (~good).cumsum(0) == 0


def serve_first(
    config: Config, state: State, turns: int, width: int, *, items: bool, most: int | None, write: Writing
) -> State:
    """Running requests get their tokens, from the next one to be served on, as long as each of them is settled.

    At most `turns` of them, and `most` new blocks in all, where that is given. `items`: whether any of them may have
    one ahead.

    A request is settled, given that all before it are, where

    - its count is a sum: everybody before it has got what it may have, whatever the budget, or chunks need no
      alignment, so that whoever meets the end of the budget uses it up. Then what is left for it is the budget less a
      cumulative sum, or nothing;
    - each item that its tokens touch is there or can be encoded (`reserved`). Where somebody waits for room already,
      its tokens end before the first item that it does not hold;
    - the blocks that it lacks are free, and no more than `width`: nobody is preempted, and its blocks are the next ones
      of the free queue, behind those of the requests before it.

    A request that gets no tokens changes nothing, as in the chain: the attempt that is given up has pinned nothing.
    """
    count = config.rows.shape[0]
    line = (state.running - state.served).clamp(min=OUTSIDE)
    rows, places = rows_in_order(line, config.rows, write)[:turns], config.rows[:turns]
    row = rows.clamp(max=count - 1)
    asked = places < state.to_serve - state.served
    sight = length_in_sight(config, state)
    start = state.computed.index_select(0, row)
    none = constant(0, row.device)
    wants = torch.where(asked, limited(config, wanted(config, state, sight)).index_select(0, row), none)
    prompt, known = config.prompts, sight
    if config.alignment > 0:
        prompt, known = prompt.index_select(0, row), known_length(config, state).index_select(0, row)
    barred = before_barred(config, state, row, start) if items else None
    counts = cut(aligned(config, prompt, known, start, wants), barred)
    left = (state.tokens_left + counts - counts.cumsum(0)).clamp(min=0)
    tokens = cut(aligned(config, prompt, known, start, torch.minimum(wants, left)), barred)
    reservation = reserved(config, state, row, items_of(config, row), start, tokens) if items else None
    asks, settled = tokens > none, None
    if config.alignment > 0:
        settled = wants <= left
    if reservation is not None:
        settled = reservation.settled if settled is None else settled & reservation.settled
    if settled is not None:
        settled = leading(settled)
        asks = asks & settled
    asking = torch.where(asks, rows, constant(count, row.device))
    kv, slots = kv_blocks.allocate_slots(
        config.kv, state.kv, asking, start, tokens, width=width, most=most, write=write
    )
    stop = torch.minimum(slots.served, state.to_serve - state.served)
    if settled is not None:
        stop = torch.minimum(stop, settled.sum())
    mine = by_row(rows, torch.where(slots.done, tokens, none), count, write)
    parts = Parts(
        chosen=mine > none,
        order=by_row(rows, slots.done.cumsum(0) - constant(1, row.device), count, write),
        start=state.computed,
        tokens=mine,
        encode=None if reservation is None else by_request(line, reservation.encode),
        relies=None if reservation is None else by_request(line, reservation.reads),
        fetch=None if reservation is None or reservation.fetch is None else by_request(line, reservation.fetch),
    )
    return with_parts(config, with_items(config, state, parts), parts, sight)._replace(
        kv=kv, served=state.served + stop
    )


def before_barred(config: Config, state: State, row: Tensor, start: Tensor) -> Tensor:
    """[turns] int64: so many tokens come before the first item that these requests may not ask for any more."""
    return up_to_barred(config, items_of(config, row), state.encoder.held.index_select(0, row), start, state.closed)


def with_items(config: Config, state: State, parts: Parts) -> State:
    """Those that are chosen hold what they read; what is encoded for them is paid for."""
    if parts.encode is None or parts.relies is None:
        return state
    encode, relies = parts.encode & parts.chosen[:, None], parts.relies & parts.chosen[:, None]
    new = encode if parts.fetch is None else encode | (parts.fetch & parts.chosen[:, None])
    return state._replace(
        encoder=held_from_now_on(config, state.encoder, relies, new),
        embeds_left=state.embeds_left - torch.where(encode, config.encoder.claims, 0).sum(),
    )


def cut(tokens: Tensor, barred: Tensor | None) -> Tensor:
    """[turns] int64: no more tokens than there are before what is barred, if anything may be."""
    return tokens if barred is None else torch.minimum(tokens, barred)


def admit_first(config: Config, state: State, *, turns: int, items: bool, write: Writing) -> State:
    """Waiting requests are admitted, the first `turns` of them at most, as long as each of them is settled.

    `items`: whether any of them may have one ahead.

    A request is settled, given that all before it are admitted, where

    - its count is a sum, as for those that run, or the budget ends before its whole prompt and prompts are not cut;
    - each item that its tokens touch is there or can be encoded, as for those that run;
    - its adapter, if it has one, is that of a request that runs;
    - its KV is not loaded before it is admitted, and no request that waits has blocks;
    - its hits are still there when its turn comes: no block that was taken before is one of them. Then to take the hits
      of all out of the free queue first, and the blocks that they lack afterwards, takes the same blocks as one request
      after the other.

    Where a settled request does not get its tokens or its blocks, nobody is admitted any more, as in the chain; and so
    where tokens or places among those that run are used up. A request behind others that has hits is not turned down
    here: it could have lost them, and then it asks for other tokens. Nor is one that touches items: its attempt pins
    some and gives them up again, and they are the youngest then.
    """
    line, nobody = candidates(config, state), config.rows.shape[0]
    rows, places = rows_in_order(line, config.rows, write)[:turns], config.rows[:turns]
    row = rows.clamp(max=nobody - 1)
    asked = (rows < nobody) & state.open & (state.served >= state.to_serve) & ~state.ended
    known = known_length(config, state).index_select(0, row)
    prompt = config.prompts.index_select(0, row)
    searched = known if config.caching else torch.zeros_like(known)
    hits = kv_blocks.get_computed_blocks(config.kv, state.kv, rows.masked_fill(~asked, nobody), searched)
    cached = hits.lengths * config.block_size
    start = torch.maximum(cached, torch.minimum(config.external.index_select(0, row), known - 1))
    most = limited(config, known - start) * asked
    barred = before_barred(config, state, row, start) if items else None
    counts = cut(aligned(config, prompt, known, start, most), barred)
    left = state.tokens_left + counts - counts.cumsum(0)
    run = length(state.running) + places
    considered = asked & (left > 0) & (run < config.max_running)
    tokens = aligned(config, prompt, known, start, torch.minimum(most, left.clamp(min=0)))
    settled = considered
    if not config.chunked:
        tokens = tokens.masked_fill(most > left, 0)
    elif config.alignment > 0:
        settled = settled & (most <= left)
    tokens = cut(tokens, barred)
    if config.most_adapters > 0:
        settled = settled & has_adapter_there(config, state, row)
    if config.loads:
        settled = settled & ~config.later.index_select(0, row) & ~waits_with_blocks(state).any()
    reservation = reserved(config, state, row, items_of(config, row), start, tokens) if items else None
    if reservation is not None:
        settled = settled & reservation.settled
    settled = leading(settled)
    asks = leading(settled & (tokens > 0))
    kv, slots = kv_blocks.admit(
        config.kv,
        state.kv,
        rows.masked_fill(~asks, nobody),
        torch.zeros_like(start),
        start - cached + tokens,
        hits,
        width=state.kv.tables.shape[1] - 1,
        spare=torch.where(run > 0, config.watermark, 0) if config.watermark > 0 else None,
        write=write,
    )
    stop = torch.minimum(asks.sum(), slots.served)
    refused = slots.refused & ((hits.lengths == 0) | (places == 0))
    if reservation is not None:
        refused = refused & ~reservation.reads.any(1)
    turned_down = settled & (places == stop) & (~asks | refused)
    chosen = queued(line) & (line < stop)
    parts = Parts(
        chosen=chosen,
        order=line,
        start=by_request(line, start),
        tokens=torch.where(chosen, by_request(line, tokens), 0),
        encode=None if reservation is None else by_request(line, reservation.encode),
        relies=None if reservation is None else by_request(line, reservation.reads),
        fetch=None if reservation is None or reservation.fetch is None else by_request(line, reservation.fetch),
    )
    after = with_parts(config, with_items(config, state, parts), parts, length_in_sight(config, state))
    if config.fails:
        after = loading_in_step(after, chosen & by_request(line, start > cached), parts.start)
    return admitted(config, after, chosen)._replace(kv=kv, ended=state.ended | turned_down.any())


def admitted(config: Config, state: State, requests: Tensor) -> State:
    """The first of those that wait ([requests] bool) run from now on, each behind its equals."""
    return state._replace(
        waiting=without(state.waiting, requests),
        running=behind_equals(config.priorities, state.running, requests, state.waiting),
    )
