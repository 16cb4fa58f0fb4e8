"""How requests come and go, and what the output of an executed plan changes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl import encoder_cache, kv_blocks
from cacheimpl.answer import Answer, Code, answer, either
from cacheimpl.recency import OUTSIDE, length, queued, without
from cacheimpl.scheduler.counts import known_length
from cacheimpl.scheduler.items import released_in_turn
from cacheimpl.scheduler.lines import behind_equals, rows_in_order
from cacheimpl.scheduler.plans import voided, without_oldest
from cacheimpl.scheduler.rounds import Extent
from cacheimpl.scheduler.state import Config, State
from cacheimpl.table import is_row, row
from cacheimpl.writing import COPYING, Writing

Result = tuple[State, Answer]


# Arrival ------------------------------------------------------------------------------------------------------------


def add(config: Config, state: State, request: Tensor) -> Result:
    """`add_request`: DONE, TOO_LARGE where it can never be served, PRESENT where it was added before."""
    joining = is_row(state.gone, request)
    present = row(queued(state.waiting) | queued(state.running) | state.gone, request)
    fits = row(feasible(config), request)
    line = behind_equals(config.priorities, state.waiting, joining, torch.zeros_like(state.computed))
    after = state._replace(waiting=torch.where(~present & fits, line, state.waiting))
    return after, answer(torch.where(present, int(Code.PRESENT), either(fits, Code.DONE, Code.TOO_LARGE)))


def feasible(config: Config) -> Tensor:
    """[requests] bool: whether an engine that has nothing else to do can finish the request."""
    whole = config.finals - 1
    fits = (config.prompts < config.max_model_len) & (whole <= config.block_size * config.blocks)
    fits = fits & (config.chunked | (torch.minimum(whole, config.most_of_one) <= config.token_budget))
    return fits & ((config.encoder.contents < 0) | feasible_items(config)).all(1)


def feasible_items(config: Config) -> Tensor:
    """[requests, items] bool: encoded in one step, kept in one piece and, where it has to be, computed in one chunk."""
    lengths, chunk = config.encoder.claims, torch.minimum(config.token_budget, config.most_of_one)
    encoded = lengths <= torch.minimum(config.encoder_compute, config.encoder.capacity)
    reaches_end = (config.item_starts + chunk >= config.prompts[:, None]) & (lengths <= chunk)
    in_one_chunk = (lengths <= chunk - (config.alignment - 1).clamp(min=0)) | reaches_end
    return encoded & (~config.whole_items | in_one_chunk)


# Departure ----------------------------------------------------------------------------------------------------------


def abort(config: Config, state: State, request: Tensor, *, write: Writing = COPYING) -> Result:
    """`finish_requests`: it gives back everything; what is in flight for it is executed for nobody."""
    live = row(queued(state.waiting) | queued(state.running), request)
    leaving = is_row(state.gone, request) & live
    held = leaving[:, None].expand_as(state.encoder.held)
    state = departed(config, voided(state, leaving), leaving, held, torch.zeros_like(state.computed))
    rows = torch.where(live, request, state.gone.shape[0])[None]
    kv, _ = kv_blocks.free_request(config.kv, state.kv, rows, write=write)
    return state._replace(kv=kv), answer(either(live, Code.DONE, Code.ABSENT))


def departed(config: Config, state: State, leaving: Tensor, letting_go: Tensor, turns: Tensor) -> State:
    """Requests ([requests] bool) are in no line any more, and the workers are to be told.

    Items are released ([requests, items] bool), in the order of the turns of their requests ([requests] int64). Blocks
    are given back by the caller.
    """
    return state._replace(
        encoder=released_in_turn(config, state.encoder, letting_go, turns),
        waiting=without(state.waiting, leaving),
        running=without(state.running, leaving),
        computed=torch.where(leaving, 0, state.computed),
        produced=torch.where(leaving, 0, state.produced),
        proposed=torch.where(leaving, 0, state.proposed),
        gone=state.gone | leaving,
        leaving=state.leaving | leaving,
    )


# The output of a plan -----------------------------------------------------------------------------------------------


class Executed(NamedTuple):
    """What comes of the parts of the oldest plan that count; each [requests]."""

    turns: Tensor
    """int32, ranks, with gaps where a part is void; -1 where a request has no part that counts"""
    end: Tensor
    """int64: the KV of the tokens before this one is written"""
    rejected: Tensor
    """int64: drafts that were wrong"""
    reached: Tensor
    """int64: so many tokens the request has, if it sampled"""
    ends: Tensor
    """bool: it is finished"""
    goes_on: Tensor
    """bool: it sampled, and is not finished"""


def executed(config: Config, state: State, accepted: Tensor) -> Executed:
    """The oldest plan, given how many of the drafts were right ([] or [requests] int64)."""
    parts = queued(state.turns[0]) & ~state.void[0]
    rejected = torch.where(parts, (state.drafts[0] - accepted).clamp(min=0), 0)
    sampled = known_length(config, state) + 1 + state.drafts[0] - rejected
    reached = torch.minimum(sampled, config.finals)
    samples, whole = parts & state.samples[0], reached == config.finals
    return Executed(
        turns=torch.where(parts, state.turns[0], OUTSIDE),
        end=state.starts[0] + state.tokens[0] - rejected,
        rejected=rejected,
        reached=reached,
        ends=samples & whole,
        goes_on=samples & ~whole,
    )


def update(config: Config, state: State, accepted: Tensor, *, extent: Extent, write: Writing = COPYING) -> Result:
    """`update_from_output`: the oldest plan was executed, and what of it is not void counts.

    `accepted` ([] or [requests] int64): how many of the drafts of each request were right, where there were so many.
    DONE with the requests that are finished, in the order of the plan; ABSENT where no plan is in flight. While some of
    them are `ending`, `release` is called before anything else.

    All parts at once give what one after the other gives. Parts are of different requests, and what is registered for
    one is in blocks that it does not share yet. A commit takes no block and a release registers none, so all commits
    may come before all releases. Copies of one content are registered, blocks given back and items released in the
    order of the plan.
    """
    answered = either(state.plans > 0, Code.DONE, Code.ABSENT)
    plan = executed(config, state, accepted)
    finished = without(state.turns[0], ~plan.ends)
    state = without_oldest(with_output(config, state, plan, extent, write))
    values = rows_in_order(finished)
    values = torch.where(values < values.shape[0], values, -1)
    return release(config, state._replace(ending=finished), extent=extent, write=write), Answer(
        answered, values, length(finished).long()
    )


def with_output(config: Config, state: State, plan: Executed, extent: Extent, write: Writing) -> State:
    """KV is written, items behind it are released, what was sampled is known; whoever is finished departs."""
    rows = rows_in_order(plan.turns)
    there = rows.clamp(max=rows.shape[0] - 1)
    kv, _ = kv_blocks.commit(
        config.kv, state.kv, rows, plan.end.index_select(0, there), width=extent.fills, write=write
    )
    drafts = torch.minimum(config.drafts, config.finals - 1 - plan.reached)
    state = state._replace(
        kv=kv,
        computed=state.computed - plan.rejected,
        produced=torch.where(plan.goes_on, plan.reached - config.prompts, state.produced),
        proposed=torch.where(plan.goes_on, drafts, state.proposed),
    )
    written = config.item_starts + config.encoder.claims <= plan.end[:, None]
    read = queued(plan.turns)[:, None] & (written | plan.ends[:, None])
    return departed(config, state, plan.ends, read, plan.turns.clamp(min=0).long())


def release(config: Config, state: State, *, extent: Extent, write: Writing = COPYING) -> State:
    """The first of those that are `ending` give back their blocks, at most so many as the extent says."""
    rows = rows_in_order(state.ending)[: extent.releases]
    kv, _ = kv_blocks.free_request(config.kv, state.kv, rows, write=write)
    released = queued(state.ending) & (state.ending < extent.releases)
    return state._replace(kv=kv, ending=without(state.ending, released))


# Resets -------------------------------------------------------------------------------------------------------------


def reset_prefix_cache(config: Config, state: State) -> Result:
    """`reset_prefix_cache`: no KV of the past is found any more. REFUSED while blocks are in use."""
    kv, said = kv_blocks.reset_prefix_cache(config.kv, state.kv)
    return state._replace(kv=kv), answer(said)


def reset_encoder_cache(config: Config, state: State) -> Result:
    """`reset_encoder_cache`: nobody holds an item any more, and who needs one encodes it again."""
    encoder, said = encoder_cache.reset(config.encoder, state.encoder)
    return state._replace(encoder=encoder), said
