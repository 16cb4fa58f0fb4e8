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
from cacheimpl.scheduler.items import are_behind, released_in_turn
from cacheimpl.scheduler.lines import behind_equals, closed_up, rows_in_order
from cacheimpl.scheduler.plans import voided, without_oldest
from cacheimpl.scheduler.rounds import Extent, looks_at_items
from cacheimpl.scheduler.single import set_back
from cacheimpl.scheduler.state import Config, State
from cacheimpl.scheduler.transferring import ABANDONED, LOADING, NO_TRANSFER, SENDING
from cacheimpl.table import is_row, row
from cacheimpl.writing import COPYING, Writing

Result = tuple[State, Answer]


# Arrival ------------------------------------------------------------------------------------------------------------


def add(config: Config, state: State, request: Tensor) -> Result:
    """`add_request`: DONE, TOO_LARGE where it can never be served, PRESENT where it was added before."""
    there = has_arrived(state)
    present, fits = row(there, request), row(feasible(config), request)
    code = torch.where(present, int(Code.PRESENT), either(fits, Code.DONE, Code.TOO_LARGE))
    joining = is_row(state.gone, request) & ~present & fits
    if config.sessions:
        first = row(config.before, request) < 0
        absent = ~present & ~first & ~row(there, row(config.before, request).clamp(min=0))
        code, joining = torch.where(absent, int(Code.ABSENT), code), joining & ~absent
        waits = ~first & ~row(state.gone, row(config.before, request).clamp(min=0))
        state, joining = state._replace(queued=state.queued | (joining & waits)), joining & ~waits
    return arrived(config, state, joining, torch.zeros_like(state.computed)), answer(code)


def has_arrived(state: State) -> Tensor:
    """[requests] bool: requests that wait or run, turns that wait for the one before, and requests that are gone."""
    return queued(state.waiting) | queued(state.running) | state.queued | state.gone


def of_turn_before(config: Config, values: Tensor) -> Tensor:
    """[requests] bool: for each later turn of a session what holds of the turn before it ([requests] bool)."""
    return values.index_select(0, config.before.clamp(min=0)) & (config.before >= 0)


def awaited(config: Config, state: State) -> Tensor:
    """[requests] bool: next turns of sessions that are between two turns."""
    return of_turn_before(config, state.gone) & ~has_arrived(state)


def with_later_turns(config: Config, requests: Tensor) -> Tensor:
    """[requests] bool: these requests ([requests] bool), and all later turns of their sessions."""
    count = requests.shape[0]
    for _ in range(max(1, count.bit_length())):  # the way to an earlier turn is doubled each time
        requests = requests | of_turn_before(config, requests)
        config = config._replace(
            before=torch.where(
                config.before >= 0, config.before.index_select(0, config.before.clamp(min=0)), config.before
            )
        )
    return requests


def arrived(config: Config, state: State, joining: Tensor, turns: Tensor) -> State:
    """Requests that can be served and are new ([requests] bool) wait, in the order of their turns (int64)."""
    after = state._replace(waiting=behind_equals(config.priorities, state.waiting, joining, turns))
    return after._replace(compiling=after.compiling | (joining & config.grammars)) if config.compiles else after


def compiled(config: Config, state: State, request: Tensor) -> Result:
    """The grammar of a request's output ([] int64) is there: DONE, ABSENT if it waits for none."""
    waits = row(state.compiling, request)
    after = state._replace(compiling=state.compiling & ~is_row(state.compiling, request))
    return after, answer(either(waits, Code.DONE, Code.ABSENT))


def forgotten(state: State, rows: Tensor) -> State:
    """Rows of requests that are gone ([requests] bool) stand for new ones; no plan names the old ones any more."""
    return state._replace(gone=state.gone & ~rows, produced=state.produced.masked_fill(rows, 0))


def nameless(state: State) -> Tensor:
    """[requests] bool: requests that are gone, of which the workers were told, and that no plan in flight names."""
    named = (queued(state.turns) | state.finished).any(0)
    return state.gone & ~state.leaving & ~named & (state.transfer == NO_TRANSFER)


def feasible(config: Config) -> Tensor:
    """[requests] bool: whether an engine that has nothing else to do can finish the request."""
    limits, prompts = limits_of(config), config.prompts
    starts, lengths = config.item_starts, config.encoder.claims
    of_items: Tensor = item_fits(limits, prompts[:, None], starts, lengths, whole=config.whole_items)
    fits: Tensor = request_fits(limits, prompts, config.finals)
    if config.encoder_decoder:
        fits = fits & (torch.where(config.encoder.contents >= 0, lengths, 0).sum(1) <= limits.item)
    return fits & ((config.encoder.contents < 0) | of_items).all(1)


# Departure ----------------------------------------------------------------------------------------------------------


def abort(config: Config, state: State, request: Tensor, *, write: Writing = COPYING) -> Result:
    """`finish_requests` of one request ([] int64), and all later turns of its session.

    A session is aborted between two turns by the next one. ABSENT where the request neither waits nor runs, and no
    session waits for it.
    """
    live = row(queued(state.waiting) | queued(state.running), request)
    rows = torch.where(live, request, state.gone.shape[0])[None]
    after = aborted(config, state, rows, write=write)
    if config.sessions:
        live = live | row(awaited(config, state), request)
        after = departed(after, with_later_turns(config, is_row(state.gone, request) & live))
    return after, answer(either(live, Code.DONE, Code.ABSENT))


def aborted(config: Config, state: State, rows: Tensor, *, write: Writing = COPYING) -> State:
    """`finish_requests` of several, one after the other: each gives back everything, but blocks that are being loaded.

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
    after, freed = departed(voided(state, leaving), leaving), rows
    if config.loads:
        kept = leaving & (state.transfer == LOADING)
        freed = torch.where(torch.nn.functional.pad(kept, (0, 1)).index_select(0, rows), count, rows)
        after = after._replace(
            transfer=torch.where(kept, ABANDONED, after.transfer),
            brought=torch.where(kept, state.brought, after.brought),
        )
    kv, _ = kv_blocks.free_request(config.kv, state.kv, freed, write=write)
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
        compiling=state.compiling & ~leaving,
        queued=state.queued & ~leaving,
        transfer=state.transfer.masked_fill(leaving, 0),
        brought=state.brought.masked_fill(leaving, 0),
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


def sampled_by_oldest(config: Config, state: State, accepted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """[requests] int64 each: prompts, tokens that are known, and tokens once the output of the oldest plan is taken.

    Stop tokens are left out. `accepted`: see `update`.
    """
    plan = executed(config, state, accepted, void=True)
    known = known_length(config, state)
    return config.prompts, known, torch.where(plan.samples, plan.reached, known)


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
    whole = plan.samples & (plan.reached >= config.ends)
    goes_on = plan.samples & ~whole
    after = without_oldest(config, state)._replace(
        kv=kv,
        produced=torch.where(goes_on, plan.reached - config.prompts, state.produced),
        ending=torch.where(whole, plan.turns, constant(OUTSIDE, rows.device)),
    )
    if state.turns.shape[0] > 1:
        after = voided(after, whole)
    if config.fails:
        done = plan.turns >= 0
        after = after._replace(
            transfer=after.transfer.masked_fill(done, NO_TRANSFER), brought=after.brought.masked_fill(done, 0)
        )
    if plan.rejected is not None:
        drafts = (config.finals - 1 - plan.reached).clamp(max=config.drafts)
        after = after._replace(
            computed=state.computed - plan.rejected, proposed=torch.where(goes_on, drafts, state.proposed)
        )
    if looks_at_items(config, extent):
        read = (plan.turns >= 0)[:, None] & are_behind(config, plan.end)
        after = after._replace(encoder=released_in_turn(config, state.encoder, read, plan.turns.clamp(min=0)))
    return after, answered


def release(config: Config, state: State, *, extent: Extent, write: Writing = COPYING) -> State:
    """The first of those that are `ending` are gone and give back what they have, as many as the extent says.

    All of them run: what a plan has for a request that was preempted since is void, and ends nobody. None of them holds
    an item: their prompts are computed to the end, so `update` has released the last one.
    """
    turns = closed_up(state.ending)
    rows = rows_in_order(turns, config.rows, write)[: extent.releases]
    released = queued(turns) & (turns < extent.releases)
    after = departed(state, released)
    if config.sends:
        sent = torch.nn.functional.pad(config.sent, (0, 1)).index_select(0, rows)
        rows = torch.where(sent, config.rows.shape[0], rows)
        after = after._replace(transfer=torch.where(released & config.sent, SENDING, after.transfer))
    kv, _ = kv_blocks.free_request(config.kv, state.kv, rows, write=write)
    after = after._replace(kv=kv, ending=state.ending.masked_fill(released, OUTSIDE))
    return next_turns(config, after, released, turns) if config.sessions else after


def next_turns(config: Config, state: State, released: Tensor, turns: Tensor) -> State:
    """Turns that arrived during the ones that are `released` ([requests] bool) wait from now on, as arrivals do.

    In the order of the turns of those ([requests] int64).
    """
    joining = state.queued & of_turn_before(config, released)
    order = turns.index_select(0, config.before.clamp(min=0))
    return arrived(config, state._replace(queued=state.queued & ~joining), joining, order)


def finished(config: Config, state: State) -> tuple[Tensor, Tensor]:
    """[requests] int64: the rows that are `ending`, in order, -1 behind them; and their number ([] int64)."""
    rows = rows_in_order(closed_up(state.ending), config.rows)
    return rows.masked_fill(rows == rows.shape[0], -1), length(state.ending)


# Resets -------------------------------------------------------------------------------------------------------------


def reset_prefix_cache(config: Config, state: State) -> Result:
    """`reset_prefix_cache`: no KV of the past is found any more. REFUSED while blocks are in use."""
    kv, code = kv_blocks.reset_prefix_cache(config.kv, state.kv)
    return state._replace(kv=kv), answer(code)


def reset_running(config: Config, state: State, *, write: Writing = COPYING) -> Result:
    """`reset_prefix_cache(reset_running_requests=True)`: all that run are preempted, the last one first."""
    victims = queued(state.running)
    turns = length(state.running) - 1 - state.running
    return reset_prefix_cache(config, set_back(config, state, victims, turns, write=write))


def reset_encoder_cache(config: Config, state: State) -> Result:
    """`reset_encoder_cache`: all entries are released; requests that still need an item encode it again."""
    encoder, answered = encoder_cache.reset(config.encoder, state.encoder)
    return state._replace(encoder=encoder), answered
