"""KV that is transferred: the phases, and what a round asks about them.

A request whose KV is loaded before it is admitted holds blocks while it waits. So that none waits for ever for the
blocks of another one, a load begins only if the free blocks suffice for all that hold blocks until each of them ends;
while one of them waits, the same holds for every admission.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.recency import queued
from cacheimpl.scheduler.state import Config, State
from cacheimpl.table import row

NO_TRANSFER, IN_STEP, LOADING, LOADED, ABANDONED, SENDING = range(6)
"""The first step in flight loads; the request waits for its KV; it waits with it; it was aborted while it waits for it;
it is finished, and its blocks are read."""
PHASES = SENDING


def waits_with_blocks(state: State) -> Tensor:
    """[requests] bool: those that wait for their KV or with it."""
    return queued(state.waiting) & ((state.transfer == LOADING) | (state.transfer == LOADED))


def loading_in_step(state: State, requests: Tensor, tokens: Tensor) -> State:
    """The first step of these requests ([requests] bool) loads the KV of so many tokens ([requests] int64)."""
    return state._replace(
        transfer=torch.where(requests, IN_STEP, state.transfer), brought=torch.where(requests, tokens, state.brought)
    )


def may_be_overwritten(state: State) -> Tensor:
    """[] bool: a step in flight may write to blocks that its request has lost, and no load is ordered behind it."""
    return state.void.any()


def reserve(config: Config, state: State, request: Tensor, end: Tensor) -> Tensor:
    """[] int64: the free blocks that an admission of this request, or its load, has to leave.

    `end`: [] int64, the tokens for which it gets blocks.
    """
    size, others = config.block_size, config.rows != request
    holders, loaded = waits_with_blocks(state) & others, row(state.transfer, request) == LOADED
    applies = (row(config.later, request) | holders.any()) & ~loaded
    whole = blocks_for(config.finals - 1, size)
    missing = (whole - state.kv.blocks[:-1]).clamp(min=0)
    own = (row(whole, request) - blocks_for(end, size)).clamp(min=0)
    needed = own + torch.where((queued(state.running) & others) | holders, missing, 0).sum()
    return torch.where(applies, needed, 0)


def blocks_for(tokens: Tensor, size: Tensor) -> Tensor:
    """The blocks that so many tokens need."""
    return (tokens + size - 1).div(size, rounding_mode="floor")


def only(config: Config, condition: Tensor, request: Tensor) -> Tensor:
    """[1] int64: a burst of the request where the condition holds ([] bool), of nobody elsewhere."""
    return torch.where(condition, request, config.rows.shape[0])[None]
