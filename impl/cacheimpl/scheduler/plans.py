"""The plan of the round in progress, and what becomes of plans in flight."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.constants import constant
from cacheimpl.recency import OUTSIDE, length, queued, with_newest_in_turn
from cacheimpl.scheduler.state import Config, Plan, State


class Parts(NamedTuple):
    """Parts of a plan for some requests; arbitrary, but for the tokens, where a request is not chosen."""

    chosen: Tensor
    """[requests] bool; all False if as many plans are in flight as allowed"""
    order: Tensor
    """[requests] int64: 0 for the first of them, 1 for the next"""
    start: Tensor
    """[requests] int64"""
    tokens: Tensor
    """[requests] int64; 0 where a request is not chosen"""
    encode: Tensor | None
    """[requests, items] bool; None where none is encoded"""
    relies: Tensor | None
    """[requests, items] bool; None where none is read"""
    fetch: Tensor | None
    """[requests, items] bool: outputs that the encoder connector has are loaded; None where none is"""


def with_parts(config: Config, state: State, parts: Parts, sight: Tensor) -> State:
    """Requests get their parts of the plan; their tokens count as computed, the budget shrinks.

    `sight`: [requests] int64, the length of each that is in sight.
    """
    chosen, end = parts.chosen, parts.start + parts.tokens
    here = chosen[None] if state.turns.shape[0] == 1 else newest(state)[:, None] & chosen
    # The row of a plan is blank before: what is False or None is there already.
    after = state._replace(
        turns=torch.where(here, parts.order + state.parts, state.turns),
        starts=torch.where(here, parts.start, state.starts),
        tokens=torch.where(here, parts.tokens, state.tokens),
        samples=state.samples | (here & (end >= sight)),
        computed=torch.where(chosen, end, state.computed),
        tokens_left=state.tokens_left - parts.tokens.sum(),
        parts=state.parts + chosen.sum(),
    )
    if config.drafts > 0:
        after = after._replace(
            drafts=torch.where(here, (end - sight).clamp(min=0), state.drafts),
            proposed=state.proposed.masked_fill(chosen, 0),
        )
    if parts.encode is not None:
        after = after._replace(encode=torch.where(here[:, :, None], parts.encode, state.encode))
    if parts.relies is not None:
        after = after._replace(relies=torch.where(here[:, :, None], parts.relies, state.relies))
    if parts.fetch is not None:
        after = after._replace(fetched=state.fetched | (newest(state)[:, None] & shown_by(config, parts)))
    return after


def shown_by(config: Config, parts: Parts) -> Tensor:
    """[contents] bool: the contents of the items whose outputs are loaded for these parts."""
    contents, count = config.encoder.contents, config.blank.dropped.shape[1]
    loaded = contents if parts.fetch is None else torch.where(parts.fetch & parts.chosen[:, None], contents, count)
    nothing = torch.zeros(count + 1, dtype=torch.bool, device=contents.device)
    return nothing.scatter(0, loaded.flatten(), True)[:count]


def newest(state: State) -> Tensor:
    """[plans] bool: the row behind the plans in flight."""
    if state.turns.shape[0] == 1:
        return state.plans[None] == 0
    return torch.arange(state.turns.shape[0], device=state.turns.device) == state.plans


def voided(state: State, requests: Tensor) -> State:
    """What is in flight for these requests ([requests] bool) is executed, and what comes of it is dropped."""
    return state._replace(void=state.void | (queued(state.turns) & requests))


def with_preempted(state: State, victims: Tensor, turns: Tensor) -> State:
    """The plan names those that lose their KV in its round ([requests] bool), in the order of their turns (int64)."""
    here = newest(state)[:, None]
    line = torch.where(here, state.preempted, OUTSIDE).amax(0)
    named = with_newest_in_turn(line, victims, turns)
    return state._replace(preempted=torch.where(here, named, state.preempted))


def concluded(state: State, over: Tensor, *, leaving: bool, items: bool, preempted: bool) -> tuple[State, Tensor]:
    """A round that is over ([] bool) becomes a plan in flight if there is anything to say to the workers.

    Returns whether there was ([] bool). What the encoder cache has evicted is dropped by the workers; `items`: whether
    anything may be; `leaving`: whether anybody may have left; `preempted`: whether anybody may have been.
    """
    events = state.parts > constant(0, over.device)
    if leaving:
        events = events | state.leaving.any()
    if preempted:
        events = events | (newest(state)[:, None] & queued(state.preempted)).any()
    if items:
        events = events | queued(state.encoder.freed).any()
    says = over & events
    after = state._replace(plans=state.plans + says)
    if leaving:
        finished = torch.where(newest(state)[:, None] & says, state.leaving, state.finished)
        after = after._replace(finished=finished, leaving=state.leaving & ~says)
    if items:
        dropped = torch.where(newest(state)[:, None] & says, state.encoder.freed, state.dropped)
        after = after._replace(dropped=dropped)
    return after, says


def without_oldest(config: Config, state: State) -> State:
    """The oldest plan, if there is one, was executed."""
    if state.turns.shape[0] == 1:
        rest = config.blank
    else:
        tables = (getattr(state, name) for name in Plan._fields)
        rest = Plan(*(torch.cat((table[1:], none)) for table, none in zip(tables, config.blank, strict=True)))
    return state._replace(plans=(state.plans - 1).clamp(min=0), **rest._asdict())


def shown(config: Config, state: State) -> tuple[Tensor, Tensor]:
    """[3 * requests] int64: request, first token, number of tokens, and so on, of the newest plan in flight; how many.

    For whoever has to list it: the workers read the tables.
    """
    here = torch.arange(state.turns.shape[0], device=state.turns.device) == state.plans - 1
    turns = torch.where(here[:, None], state.turns, OUTSIDE).amax(0)
    start, tokens = (torch.where(here[:, None], table, 0).sum(0) for table in (state.starts, state.tokens))
    requests = turns.shape[0]
    parts = torch.stack((config.rows, start, tokens), dim=1)
    rows = turns.masked_fill(turns < 0, requests)
    nothing = torch.full((requests + 1, 3), -1, dtype=torch.int64, device=turns.device)
    listed = nothing.scatter(0, rows[:, None].expand(requests, 3), parts)[:requests]
    return listed.flatten(), 3 * length(turns)
