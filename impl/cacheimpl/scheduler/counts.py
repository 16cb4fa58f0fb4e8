"""How many tokens of each request there are to schedule: [requests] int64 throughout, no count negative."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.scheduler.state import Config, State


def known_length(config: Config, state: State) -> Tensor:
    """The prompt and what was sampled."""
    return config.prompts + state.produced


def length_in_sight(config: Config, state: State) -> Tensor:
    """Those, and what the plans in flight will sample."""
    return known_length(config, state) + (state.samples & ~state.void).sum(0)


def wanted(config: Config, state: State) -> Tensor:
    """What running requests have to compute, with their drafts; never their last token.

    While drafts of a request are in flight it is not known where it goes on: nothing.
    """
    end = torch.minimum(length_in_sight(config, state) + state.proposed, config.finals - 1)
    verifying = ((state.drafts > 0) & ~state.void).any(0)
    return torch.where(verifying, 0, (end - state.computed).clamp(min=0))


def prefill_end(prompts: Tensor, known: Tensor) -> Tensor:
    """Up to here requests with these prompts and known tokens compute what they have; what follows is decoded."""
    return torch.maximum(prompts, known - 1)


def aligned(config: Config, prefill: Tensor, start: Tensor, tokens: Tensor) -> Tensor:
    """A chunk that ends before the prefill ends at a multiple of the alignment, if one lies in it."""
    end = start + tokens
    boundary = end.div(config.alignment.clamp(min=1), rounding_mode="floor") * config.alignment
    cut = (end < prefill) & (boundary > start)
    return torch.where(cut, boundary - start, tokens)
