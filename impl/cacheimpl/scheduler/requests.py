"""How requests come and go, and what the output of an executed plan changes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl import encoder_cache, kv_blocks
from cacheimpl.answer import Answer, Code, answer, either
from cacheimpl.constants import constant
from cacheimpl.recency import OUTSIDE, length, queued, without
from cacheimpl.scheduler.counts import known_length
from cacheimpl.scheduler.feasibility import item_fits, limits_of, request_fits
from cacheimpl.scheduler.items import released_in_turn
from cacheimpl.scheduler.lines import behind_equals, closed_up, rows_in_order
from cacheimpl.scheduler.plans import voided, without_oldest
from cacheimpl.scheduler.rounds import Extent, looks_at_items
from cacheimpl.scheduler.state import Config, State
from cacheimpl.table import is_row, row
from cacheimpl.writing import COPYING, Writing

Result = tuple[State, Answer]


# Arrival ------------------------------------------------------------------------------------------------------------


def add(config: Config, state: State, request: Tensor) -> Result:
    """`add_request`: DONE, TOO_LARGE where it can never be served, PRESENT where it was added before."""
    present = row(queued(state.waiting) | queued(state.running) | state.gone, request)
    fits = row(feasible(config), request)
    joining = is_row(state.gone, request) & ~present & fits
    after = arrived(config, state, joining, torch.zeros_like(state.computed))
    return after, answer(torch.where(present, int(Code.PRESENT), either(fits, Code.DONE, Code.TOO_LARGE)))


def arrived(config: Config, state: State, joining: Tensor, turns: Tensor) -> State:
    """Requests that can be served and are new ([requests] bool) wait, in the order of their turns (int64)."""
    return state._replace(waiting=behind_equals(config.priorities, state.waiting, joining, turns))


def forgotten(state: State, rows: Tensor) -> State:
    """Rows of requests that are gone ([requests] bool) stand for new ones; no plan names the old ones any more."""
    return state._replace(gone=state.gone & ~rows, produced=state.produced.masked_fill(rows, 0))


def nameless(state: State) -> Tensor:
    """[requests] bool: requests that are gone, of which the workers were told, and that no plan in flight names."""
    named = (queued(state.turns) | state.finished).any(0)
    return state.gone & ~state.leaving & ~named


def feasible(config: Config) -> Tensor:
    """[requests] bool: whether an engine that has nothing else to do can finish the request."""
    limits, prompts = limits_of(config), config.prompts
    starts, lengths = config.item_starts, config.encoder.claims
    of_items: Tensor = item_fits(limits, prompts[:, None], starts, lengths, whole=config.whole_items)
    fits: Tensor = request_fits(limits, prompts, config.finals)
    return fits & ((config.encoder.contents < 0) | of_items).all(1)


# Departure ----------------------------------------------------------------------------------------------------------


def abort(config: Config, state: State, request: Tensor, *, write: Writing = COPYING) -> Result:
    """`finish_requests` of one request ([] int64); ABSENT where it neither waits nor runs."""
    live = row(queued(state.waiting) | queued(state.running), request)
    rows = torch.where(live, request, state.gone.shape[0])[None]
    return aborted(config, state, rows, write=write), answer(either(live, Code.DONE, Code.ABSENT))


def aborted(config: Config, state: State, rows: Tensor, *, write: Writing = COPYING) -> State:
    """`finish_requests` of several, one after the other: each gives back everything.

    What is in flight for them is executed for nobody. `rows`: [turns] int64, distinct rows of requests that wait or
    run; the row behind all is nobody's.
    """
    count = state.gone.shape[0]
    places = torch.arange(rows.shape[0], device=rows.device)
    turns = torch.full((count + 1,), OUTSIDE, device=rows.device).scatter(0, rows, places)[:count]
    leaving = queued(turns)
    encoder = state.encoder
    if config.item_starts.shape[1] > 0:
        everything = leaving[:, None].expand_as(encoder.held)
        encoder = released_in_turn(config, encoder, everything, turns.clamp(min=0))
    kv, _ = kv_blocks.free_request(config.kv, state.kv, rows, write=write)
    after = departed(voided(state, leaving), leaving)
    return after._replace(kv=kv, encoder=encoder, waiting=without(state.waiting, leaving))


def departed(state: State, leaving: Tensor) -> State:
    """Requests ([requests] bool) run no more, and the workers are to be told.

    What they have is given back by the caller, and whoever may wait is taken from the line by it.
    """
    return state._replace(
        running=without(state.running, leaving),
        computed=state.computed.masked_fill(leaving, 0),
        produced=state.produced.masked_fill(leaving, 0),
        proposed=state.proposed.masked_fill(leaving, 0),
        gone=state.gone | leaving,
        leaving=state.leaving | leaving,
    )


# The output of a plan -----------------------------------------------------------------------------------------------


class Executed(NamedTuple):
    """What comes of the parts of the oldest plan that count; each [requests]."""

    turns: Tensor
    """int64: the order of the parts, with gaps; -1 where a request has no part that counts"""
    end: Tensor
    """int64: the KV of the tokens before this one is written"""
    rejected: Tensor | None
    """int64: drafts that were wrong; None where there never are any"""
    reached: Tensor
    """int64: so many tokens the request has, if it sampled"""
    samples: Tensor
    """bool"""


def executed(config: Config, state: State, accepted: Tensor, *, void: bool) -> Executed:
    """The oldest plan, given how many of the drafts were right ([] or [requests] int64).

    `void`: whether any part of it may be.
    """
    turns, samples = state.turns[0], state.samples[0]
    if void:
        turns = torch.where(state.void[0], constant(OUTSIDE, accepted.device), turns)
        samples = samples & ~state.void[0]
    end, sampled = state.starts[0] + state.tokens[0], known_length(config, state) + constant(1, accepted.device)
    rejected = None
    if config.drafts > 0:
        rejected = (state.drafts[0] - accepted).clamp(min=0).masked_fill(turns < 0, 0)
        end, sampled = end - rejected, sampled + state.drafts[0] - rejected
    return Executed(turns, end, rejected, torch.minimum(sampled, config.finals), samples)


def update(
    config: Config, state: State, accepted: Tensor, *, extent: Extent, write: Writing = COPYING
) -> tuple[State, Tensor]:
    """`update_from_output`: the oldest plan was executed, and what of it is not void counts.

    `accepted` ([] or [requests] int64): how many of the drafts of each request were right, where there were so many.
    [] int64: DONE, or ABSENT where no plan is in flight. Who is finished is `ending`, in the order of the plan; while
    anybody is, `release` is called before anything else.

    All parts at once, and then all that are finished, give what one part after the other gives. Parts are of different
    requests, and what is registered for one is in blocks that it does not share yet. A commit takes no block, and a
    release registers none and looks up no content. Copies of one content are registered, items released and blocks
    given back in the order of the plan; and whoever is finished has no item left behind the end of its prompt, so that
    nobody releases one between.
    """
    answered = either(state.plans > 0, Code.DONE, Code.ABSENT)
    plan = executed(config, state, accepted, void=extent.void)
    rows = rows_in_order(plan.turns, config.rows, write)
    ends = plan.end.index_select(0, rows.clamp(max=rows.shape[0] - 1))
    kv, _ = kv_blocks.commit(config.kv, state.kv, rows, ends, width=extent.fills, most=extent.full, write=write)
    whole = plan.samples & (plan.reached >= config.finals)
    goes_on = plan.samples & ~whole
    after = without_oldest(config, state)._replace(
        kv=kv,
        produced=torch.where(goes_on, plan.reached - config.prompts, state.produced),
        ending=torch.where(whole, plan.turns, constant(OUTSIDE, rows.device)),
    )
    if plan.rejected is not None:
        drafts = (config.finals - 1 - plan.reached).clamp(max=config.drafts)
        after = after._replace(
            computed=state.computed - plan.rejected, proposed=torch.where(goes_on, drafts, state.proposed)
        )
    if looks_at_items(config, extent):
        written = config.item_starts + config.encoder.claims <= plan.end[:, None]
        read = (plan.turns >= 0)[:, None] & written
        after = after._replace(encoder=released_in_turn(config, state.encoder, read, plan.turns.clamp(min=0)))
    return after, answered


def release(config: Config, state: State, *, extent: Extent, write: Writing = COPYING) -> State:
    """The first of those that are `ending` are gone and give back what they have, as many as the extent says.

    All of them run: what a plan has for a request that was preempted since is void, and ends nobody. None of them holds
    an item: their prompts are computed to the end, so `update` has released the last one.
    """
    turns = closed_up(state.ending)
    rows = rows_in_order(turns, config.rows, write)[: extent.releases]
    kv, _ = kv_blocks.free_request(config.kv, state.kv, rows, write=write)
    released = queued(turns) & (turns < extent.releases)
    return departed(state, released)._replace(kv=kv, ending=state.ending.masked_fill(released, OUTSIDE))


def finished(config: Config, state: State) -> tuple[Tensor, Tensor]:
    """[requests] int64: the rows that are `ending`, in order, -1 behind them; and their number ([] int64)."""
    rows = rows_in_order(closed_up(state.ending), config.rows)
    return rows.masked_fill(rows == rows.shape[0], -1), length(state.ending)


# Resets -------------------------------------------------------------------------------------------------------------


def reset_prefix_cache(config: Config, state: State) -> Result:
    """`reset_prefix_cache`: no KV of the past is found any more. REFUSED while blocks are in use."""
    kv, code = kv_blocks.reset_prefix_cache(config.kv, state.kv)
    return state._replace(kv=kv), answer(code)


def reset_encoder_cache(config: Config, state: State) -> Result:
    """`reset_encoder_cache`: all entries are released; requests that still need an item encode it again."""
    encoder, answered = encoder_cache.reset(config.encoder, state.encoder)
    return state._replace(encoder=encoder), answered
