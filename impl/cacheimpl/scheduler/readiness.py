"""Which waiting requests are considered: those whose grammar is there, whose KV is not being loaded, and so on.

The others are passed over, keep their places, and those behind them are considered.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.recency import OUTSIDE, length, queued
from cacheimpl.scheduler.connector import awaits_output
from cacheimpl.scheduler.lines import closed_up
from cacheimpl.scheduler.state import Config, State
from cacheimpl.scheduler.transferring import LOADED, LOADING


def candidates(config: Config, state: State) -> Tensor:
    """[requests] int64, ranks: the waiting requests that are not passed over; -1 elsewhere.

    Those whose KV is loaded come first, because they hold blocks.
    """
    if not (config.compiles or config.most_adapters > 0 or config.loads or config.connected):
        return state.waiting
    out = state.passed | state.compiling
    if config.connected:
        out = out | awaits_output(config, state)
    if not config.loads:
        return closed_up(state.waiting.masked_fill(out, OUTSIDE))
    loaded = state.transfer == LOADED
    first = closed_up(state.waiting.masked_fill(out | ~loaded, OUTSIDE))
    rest = closed_up(state.waiting.masked_fill(out | loaded | (state.transfer == LOADING), OUTSIDE))
    return torch.where(queued(rest), rest + length(first), first)


def has_adapter_there(config: Config, state: State, row: Tensor) -> Tensor:
    """[turns] bool: whether the request of each row ([turns] int64) needs no adapter, or one that a running one has."""
    adapters, there = config.adapters.index_select(0, row), queued(state.running)
    return (adapters == 0) | ((config.adapters == adapters[:, None]) & there).any(1)


def adapter_fits(config: Config, state: State, request: Tensor) -> Tensor:
    """[] bool: whether the request ([] int64) may join those that run, as far as adapters are concerned."""
    there = torch.where(queued(state.running), config.adapters, 0)
    others = (there == there[:, None]).tril(-1).any(1)
    different = ((there > 0) & ~others).sum()
    return has_adapter_there(config, state, request[None])[0] | (different < config.most_adapters)
