"""The longest part of a round that is known at once: many requests in one go, exactly as one after the other.

The sequential rule is a chain only where what one request does changes what is left for the next one in a way that is
not a sum: an item that is looked up, room that is made, a request that is preempted, a hit that is evicted. Up to the
first request for which that may be so, sums over the line give what the chain gives.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl import kv_blocks
from cacheimpl.recency import OUTSIDE, length, queued, without
from cacheimpl.scheduler.counts import aligned, known_length, length_in_sight, limited, wanted
from cacheimpl.scheduler.items import cut_short, items_of, touched
from cacheimpl.scheduler.lines import behind_equals, by_request, rows_in_order
from cacheimpl.scheduler.plans import Parts, with_parts
from cacheimpl.scheduler.state import Config, State
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
    - each item that its tokens touch is held by it already, and none is cut: then the look-up changes nothing, nothing
      is encoded, and neither the compute budget nor `closed` matters;
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
    wants = limited(config, wanted(config, state, sight)).index_select(0, row) * asked
    prompt, known = config.prompts, sight
    if config.alignment > 0:
        prompt, known = prompt.index_select(0, row), known_length(config, state).index_select(0, row)
    counts = aligned(config, prompt, known, start, wants)
    left = (state.tokens_left + counts - counts.cumsum(0)).clamp(min=0)
    tokens = aligned(config, prompt, known, start, torch.minimum(wants, left))
    settled = wants <= left if config.alignment > 0 else torch.ones_like(asked)
    reads = touched(items_of(config, row), start, tokens) if items else None
    if reads is not None:
        settled = settled & ~lacks_any(config, state, row, reads, start, tokens)
        settled = leading(settled)
    elif config.alignment > 0:
        settled = leading(settled)
    asks = settled & (tokens > 0)
    kv, slots = kv_blocks.allocate_slots(
        config.kv, state.kv, rows.masked_fill(~asks, count), start, tokens, width=width, most=most, write=write
    )
    stop = torch.minimum(torch.minimum(settled.sum(), slots.served), state.to_serve - state.served)
    chosen = asks & (places < stop)
    mine = by_request(line, tokens)
    parts = Parts(
        chosen=queued(line) & (line < stop) & (mine > 0),
        order=by_request(line, chosen.cumsum(0) - 1),
        start=state.computed,
        tokens=mine,
        encode=None,
        relies=None if reads is None else by_request(line, reads),
    )
    return with_parts(config, state, parts, sight)._replace(kv=kv, served=state.served + stop)


def lacks_any(config: Config, state: State, row: Tensor, reads: Tensor, start: Tensor, tokens: Tensor) -> Tensor:
    """[turns] bool: whether the request of each row ([turns] int64) reads an item it does not hold, or must not cut.

    `reads`: [turns, items] bool.
    """
    lacks = reads & ~state.encoder.held.index_select(0, row)
    if config.whole_items:
        lacks = lacks | (reads & cut_short(items_of(config, row), start, tokens))
    return lacks.any(1)


def admit_first(config: Config, state: State, *, turns: int, items: bool, write: Writing) -> State:
    """Waiting requests are admitted, the first `turns` of them at most, as long as each of them is settled.

    `items`: whether any of them may have one ahead.

    A request is settled, given that all before it are admitted, where

    - its count is a sum, as for those that run, or the budget ends before its whole prompt and prompts are not cut;
    - its tokens touch no item, so the encoder cache is not asked;
    - its hits are still there when its turn comes: no block that was taken before is one of them. Then to take the hits
      of all out of the free queue first, and the blocks that they lack afterwards, takes the same blocks as one request
      after the other.

    Where a settled request does not get its tokens or its blocks, nobody is admitted any more, as in the chain; and so
    where tokens or places among those that run are used up. A request behind others that has hits is not turned down
    here: it could have lost them, and then it asks for other tokens.
    """
    line, nobody = state.waiting, config.rows.shape[0]
    rows, places = rows_in_order(line, config.rows, write)[:turns], config.rows[:turns]
    row = rows.clamp(max=nobody - 1)
    asked = (rows < nobody) & state.open & (state.served >= state.to_serve) & ~state.ended
    known = known_length(config, state).index_select(0, row)
    prompt = config.prompts.index_select(0, row)
    found = kv_blocks.get_computed_blocks(config.kv, state.kv, rows.masked_fill(~asked, nobody), known)
    cached = found.lengths * config.block_size
    start = torch.maximum(cached, torch.minimum(config.external.index_select(0, row), known - 1))
    most = limited(config, known - start) * asked
    counts = aligned(config, prompt, known, start, most)
    left = state.tokens_left + counts - counts.cumsum(0)
    considered = asked & (left > 0) & (length(state.running) + places < config.max_running)
    tokens = aligned(config, prompt, known, start, torch.minimum(most, left.clamp(min=0)))
    settled = considered
    if not config.chunked:
        tokens = tokens.masked_fill(most > left, 0)
    elif config.alignment > 0:
        settled = settled & (most <= left)
    if items:
        settled = settled & ~touched(items_of(config, row), start, tokens).any(1)
    settled = leading(settled)
    asks = leading(settled & (tokens > 0))
    kv, slots = kv_blocks.admit(
        config.kv,
        state.kv,
        rows.masked_fill(~asks, nobody),
        torch.zeros_like(start),
        start - cached + tokens,
        found,
        width=state.kv.tables.shape[1] - 1,
        write=write,
    )
    stop = torch.minimum(asks.sum(), slots.served)
    refused = slots.refused & ((found.lengths == 0) | (places == 0))
    turned_down = settled & (places == stop) & (~asks | refused)
    chosen = queued(line) & (line < stop)
    parts = Parts(chosen, line, by_request(line, start), by_request(line, tokens), None, None)
    after = with_parts(config, state, parts, length_in_sight(config, state))
    return admitted(config, after, chosen)._replace(kv=kv, ended=state.ended | turned_down.any())


def admitted(config: Config, state: State, requests: Tensor) -> State:
    """The first of those that wait ([requests] bool) run from now on, each behind its equals."""
    return state._replace(
        waiting=without(state.waiting, requests),
        running=behind_equals(config.priorities, state.running, requests, state.waiting),
    )
