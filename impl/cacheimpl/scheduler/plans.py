"""The plan of the round in progress, and what becomes of plans in flight."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.recency import OUTSIDE, length, queued, with_newest_in_turn
from cacheimpl.scheduler.counts import length_in_sight
from cacheimpl.scheduler.state import Config, State


def with_parts(
    config: Config,
    state: State,
    chosen: Tensor,
    order: Tensor,
    start: Tensor,
    tokens: Tensor,
    encode: Tensor,
    relies: Tensor,
) -> State:
    """Requests ([requests] bool) get their part of the plan; their tokens count as computed, the budget shrinks.

    `order`: [requests] int64, 0 for the first of them, and so on. `start`, `tokens`: [requests] int64. `encode`,
    `relies`: [requests, items] bool.
    """
    end, sight = start + tokens, length_in_sight(config, state)
    here = newest(state)[:, None] & chosen
    turn = (order + (state.turns >= 0).mul(newest(state)[:, None]).sum()).to(state.turns.dtype)
    return state._replace(
        turns=torch.where(here, turn, state.turns),
        starts=torch.where(here, start, state.starts),
        tokens=torch.where(here, tokens, state.tokens),
        drafts=torch.where(here, (end - sight).clamp(min=0), state.drafts),
        samples=torch.where(here, end >= sight, state.samples),
        encode=torch.where(here[:, :, None], encode, state.encode),
        relies=torch.where(here[:, :, None], relies, state.relies),
        computed=torch.where(chosen, end, state.computed),
        proposed=torch.where(chosen, 0, state.proposed),
        tokens_left=state.tokens_left - torch.where(chosen, tokens, 0).sum(),
    )


def newest(state: State) -> Tensor:
    """[plans] bool: the row behind the plans in flight."""
    return torch.arange(state.turns.shape[0], device=state.turns.device) == state.plans


def voided(state: State, requests: Tensor) -> State:
    """What is in flight for these requests ([requests] bool) is executed, and what comes of it is dropped."""
    return state._replace(void=state.void | ((state.turns >= 0) & requests))


def with_preempted(state: State, victims: Tensor, turns: Tensor) -> State:
    """The plan names those that lose their KV in its round ([requests] bool), in the order of their turns (int64)."""
    here = newest(state)
    line = torch.where(here[:, None], state.preempted, OUTSIDE).amax(0)
    named = with_newest_in_turn(line, victims, turns)
    return state._replace(preempted=torch.where(here[:, None], named, state.preempted))


def concluded(state: State, dropped: Tensor, over: Tensor) -> tuple[State, Tensor]:
    """A round that is over ([] bool) becomes a plan in flight if there is anything to say to the workers.

    Returns whether there was ([] bool). `dropped` ([contents] int32, ranks): the encoder outputs that they drop.
    """
    here = newest(state)[:, None]
    busy = queued(state.turns) | queued(state.preempted)
    says = over & ((here & busy).any() | queued(dropped).any() | state.leaving.any())
    told = state._replace(
        dropped=torch.where(here & says, dropped, state.dropped),
        finished=torch.where(here & says, state.leaving, state.finished),
        leaving=state.leaving & ~says,
        plans=state.plans + says,
    )
    return told, says


def without_oldest(state: State) -> State:
    """The oldest plan, if there is one, was executed."""

    def moved(table: Tensor, filler: int) -> Tensor:
        return torch.cat((table[1:], torch.full_like(table[:1], filler)))

    return state._replace(
        plans=(state.plans - 1).clamp(min=0),
        turns=moved(state.turns, OUTSIDE),
        starts=moved(state.starts, 0),
        tokens=moved(state.tokens, 0),
        drafts=moved(state.drafts, 0),
        samples=moved(state.samples, False),
        void=moved(state.void, False),
        encode=moved(state.encode, False),
        relies=moved(state.relies, False),
        dropped=moved(state.dropped, OUTSIDE),
        finished=moved(state.finished, False),
        preempted=moved(state.preempted, OUTSIDE),
    )


def shown(state: State) -> tuple[Tensor, Tensor]:
    """[3 * requests] int64: request, first token, number of tokens, and so on, of the plan of the round; how many."""
    here = newest(state)[:, None]
    turns = torch.where(here, state.turns, OUTSIDE).amax(0)
    start, tokens = (torch.where(here, table, 0).sum(0) for table in (state.starts, state.tokens))
    requests = turns.shape[0]
    parts = torch.stack((torch.arange(requests, device=turns.device), start, tokens), dim=1)
    place = torch.where(queued(turns), turns, requests).long()
    nothing = torch.full((requests + 1, 3), -1, dtype=torch.int64, device=turns.device)
    listed = nothing.scatter(0, place[:, None].expand(requests, 3), parts)[:requests]
    return listed.flatten(), 3 * length(turns).long()
