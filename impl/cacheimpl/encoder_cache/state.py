"""The state of the encoder cache's accounting, and its layout."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.layout import Field, Layout
from cacheimpl.recency import OUTSIDE, queued

NO_INPUT = -1
"""The content at a position that the request does not have."""


class Config(NamedTuple):
    """What the state refers to. Requests and contents are rows, an input is a position within its request."""

    capacity: Tensor
    """[] int64, embeddings"""
    contents: Tensor
    """[requests, positions] int64: the content of each input; -1 where there is none"""
    claims: Tensor
    """[requests, positions] int64, embeddings: what each input asks for"""
    abandonable: Tensor
    """[] bool: whether admissions may be abandoned, so that what they pin is noted"""


class Cache(NamedTuple):
    """A content is idle where it is resident and no input holds it."""

    free: Tensor
    """[] int64: slots that no entry occupies (derived)"""
    freeable: Tensor
    """[] int64: slots that no referenced entry occupies (derived)"""
    resident: Tensor
    """[contents] bool: which entries there are (derived)"""
    sizes: Tensor
    """[contents] int64, embeddings: what each entry occupies, or gave back when it was evicted and is not reported yet;
    0 elsewhere"""
    references: Tensor
    """[contents] int64: how many inputs hold the entry (derived)"""
    held: Tensor
    """[requests, positions] bool: inputs that were found or allocated, and not released since"""
    idle: Tensor
    """[contents] int32, ranks: the order of eviction"""
    freed: Tensor
    """[contents] int32, ranks: evicted since the last report and not resident again, in this order"""
    promised: Tensor
    """[requests, positions] int32, ranks: granted in this pass and not allocated yet. No answer depends on it: it is
    kept so that whoever watches the cache can tell whether a grant was honoured."""
    attempted: Tensor
    """[requests, positions] int32, ranks: what became held in this pass, where admissions may be abandoned"""


def empty(capacity: Tensor, requests: int, positions: int, contents: int) -> Cache:
    """Every slot is free. The device is that of the capacity ([] int64)."""
    device = capacity.device

    def nobody(*shape: int) -> Tensor:
        return torch.full(shape, OUTSIDE, dtype=torch.int32, device=device)

    return Cache(
        free=capacity,
        freeable=capacity,
        resident=torch.zeros(contents, dtype=torch.bool, device=device),
        sizes=torch.zeros(contents, dtype=torch.int64, device=device),
        references=torch.zeros(contents, dtype=torch.int64, device=device),
        held=torch.zeros(requests, positions, dtype=torch.bool, device=device),
        idle=nobody(contents),
        freed=nobody(contents),
        promised=nobody(requests, positions),
        attempted=nobody(requests, positions),
    )


def derive(config: Config, cache: Cache) -> Cache:
    """With what follows from the sizes, from the two queues of contents, and from what is held."""
    references = inputs_per_content(config.contents, cache.held, cache.sizes.shape[0])
    resident = queued(cache.idle) | (references > 0)
    free = config.capacity - torch.where(resident, cache.sizes, 0).sum()
    return cache._replace(
        free=free,
        freeable=free + torch.where(queued(cache.idle), cache.sizes, 0).sum(),
        resident=resident,
        references=references,
    )


def derive_all(config: Config, cache: Cache) -> Cache:
    """With the sizes as well, where all inputs of a content claim the same."""
    known = derive(config, cache)
    nothing = torch.zeros(cache.sizes.shape[0] + 1, dtype=torch.int64, device=config.claims.device)
    rows = torch.where(config.contents < 0, cache.sizes.shape[0], config.contents)
    claims = nothing.scatter(0, rows.flatten(), config.claims.flatten())[:-1]
    return derive(config, known._replace(sizes=torch.where(known.resident | queued(known.freed), claims, 0)))


def claims_agree(config: Config) -> bool:
    """Whether all inputs of a content claim the same."""
    pairs = {*zip(config.contents.flatten().tolist(), config.claims.flatten().tolist(), strict=True)}
    return len(pairs) == len({content for content, _ in pairs})


def inputs_per_content(contents: Tensor, chosen: Tensor, count: int) -> Tensor:
    """[count] int64: for each content how many of the chosen inputs (bool, of the shape of `contents`) show it."""
    rows = torch.where(chosen, contents, count).flatten()
    zeros = torch.zeros(count + 1, dtype=torch.int64, device=contents.device)
    return zeros.scatter_add(0, rows, torch.ones_like(rows))[:count]


def layout(config: Config, contents: int) -> Layout[Cache]:
    """Bounds for these requests and so many contents."""
    capacity, inputs = int(config.capacity), config.contents.numel()
    shape, axes = tuple(config.contents.shape), ("request", "")
    largest, agreed = int(config.claims.max()), claims_agree(config)
    fill = derive_all if agreed else derive
    attempted = inputs - 1 if bool(config.abandonable) else OUTSIDE

    def slots(name: str) -> Field:
        return Field(name, (), torch.int64, 0, capacity, derived=True)

    def order(name: str) -> Field:
        return Field(name, (contents,), torch.int32, OUTSIDE, contents - 1, axes=("content",))

    return Layout(
        Cache,
        (
            slots("free"),
            slots("freeable"),
            Field("resident", (contents,), torch.bool, 0, 1, axes=("content",), derived=True),
            Field("sizes", (contents,), torch.int64, 0, min(largest, capacity), axes=("content",), derived=agreed),
            Field("references", (contents,), torch.int64, 0, inputs, axes=("content",), derived=True),
            Field("held", shape, torch.bool, 0, 1, axes=axes),
            order("idle"),
            order("freed"),
            Field("promised", shape, torch.int32, OUTSIDE, inputs - 1, axes=axes),
            Field("attempted", shape, torch.int32, OUTSIDE, attempted, axes=axes),
        ),
        lambda cache: fill(config, cache),
    )
