"""How many tokens of each request there are to schedule: [requests] int64, not negative; and one mask."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.constants import constant
from cacheimpl.scheduler.state import NO_LIMIT, Config, State


def known_length(config: Config, state: State) -> Tensor:
    """The prompt and what was sampled."""
    return config.prompts + state.produced


def length_in_sight(config: Config, state: State) -> Tensor:
    """Those, and what the plans in flight will sample.

    The plan of the round in progress is among the rows: so this is right for whoever has no part of it yet.
    """
    known = known_length(config, state)
    return known if state.turns.shape[0] == 1 else known + (state.samples & ~state.void).sum(0)


def wanted(config: Config, state: State, sight: Tensor) -> Tensor:
    """What running requests have to compute, with their drafts; never their last token.

    While drafts of a request are in flight it is not known where it goes on: nothing. With pipeline stages the same
    holds while a token of it is sampled. `sight`: the length in sight.
    """
    if config.drafts == 0 and not config.pipelined:
        return (torch.minimum(sight, config.finals - constant(1, sight.device)) - state.computed).clamp(min=0)
    end = torch.minimum(sight + state.proposed, config.finals - 1)
    unknown = (state.samples if config.pipelined else state.drafts > 0) & ~state.void
    return (end - state.computed).clamp(min=0).masked_fill(unknown.any(0), 0)


def limited(config: Config, tokens: Tensor) -> Tensor:
    """So many of the tokens may be scheduled in one step for one request."""
    return tokens if config.most_of_one == NO_LIMIT else tokens.clamp(max=config.most_of_one)


def aligned(config: Config, prompt: Tensor, known: Tensor, start: Tensor, tokens: Tensor) -> Tensor:
    """A chunk that ends before the prefill does ends at a multiple of the alignment, if one lies in it.

    Up to the end of the prefill a request computes what it has, its `prompt` and its `known` tokens but the last one.
    """
    if config.alignment == 0:
        return tokens
    end = start + tokens
    boundary = end.div(config.alignment, rounding_mode="floor") * config.alignment
    cut = (end < torch.maximum(prompt, known - 1)) & (boundary > start)
    return torch.where(cut, boundary - start, tokens)


def filling(config: Config, state: State) -> Tensor:
    """[requests] bool: of whom a block is full and not registered once the plans in flight are executed."""
    return state.computed - state.kv.registered[:-1] * config.block_size >= config.block_size
