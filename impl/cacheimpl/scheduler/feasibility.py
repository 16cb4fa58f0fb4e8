"""Whether an engine that has nothing else to do can finish a request: rules that are read by tables and by the host.

The rules are comparisons of what a request has with limits of the engine. They hold for tensors, where every request is
a row, and for integers, where one request is looked at when it arrives and nothing of it is on the device.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from cacheimpl.scheduler.state import NO_LIMIT, Config

Count = Any
"""[] int64, or a tensor of another shape where the others have it too; or an integer. Results are bool alike."""


class Limits(NamedTuple):
    """Each [] int64, or an integer; in tokens."""

    model: Count
    """A prompt is shorter; of a pooling model, so many tokens and one more"""
    room: Count
    """In all blocks of the pool"""
    at_once: Count
    """Of a request that is admitted; `NO_LIMIT` where it may be admitted with a part of its prompt"""
    chunk: Count
    """Of one request in one step"""
    aligned_chunk: Count
    """Of which so many are computed in one step wherever they begin"""
    item: Count
    """Of an item: in one step of the encoder, and in its cache"""


def limits_of(config: Config) -> Limits:
    """As tensors."""
    budget = config.token_budget
    chunk = budget.clamp(max=config.most_of_one)
    admitted = torch.full_like(budget, NO_LIMIT) if config.chunked else budget
    return Limits(
        model=config.max_model_len + int(config.pools),
        room=config.block_size * config.blocks,
        at_once=admitted.masked_fill(budget >= config.most_of_one, NO_LIMIT),
        chunk=chunk,
        aligned_chunk=chunk - max(0, config.alignment - 1),
        item=torch.minimum(config.encoder_compute, config.encoder.capacity),
    )


def on_host(limits: Limits) -> Limits:
    """As integers; reads from the device, once for an engine."""
    return Limits(*torch.stack(tuple(limits)).tolist())


def request_fits(limits: Limits, prompt: Count, final: Count) -> Any:
    """Its tokens do: the prompt's, and all but the last once it is finished, which is never computed."""
    computed = final - 1
    return (prompt < limits.model) & (computed <= limits.room) & (computed <= limits.at_once)


def item_fits(limits: Limits, prompt: Count, start: Count, length: Count, *, whole: bool) -> Any:
    """It is encoded in one step, kept in one piece and, where items are computed `whole`, computed in one chunk."""
    encoded = length <= limits.item
    if not whole:
        return encoded
    reaches_end = (start + limits.chunk >= prompt) & (length <= limits.chunk)
    return encoded & ((length <= limits.aligned_chunk) | reaches_end)
