"""Slots, references, the two queues of contents, and the two of inputs: what the operations are made of."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.encoder_cache.state import Cache, Config, inputs_per_content
from cacheimpl.recency import OUTSIDE, oldest_until, queued, with_newest, with_newest_in_turn, without
from cacheimpl.table import cell, is_cell, is_row, row


class Input(NamedTuple):
    """One input of one request; every field is []."""

    request: Tensor
    position: Tensor
    content: Tensor
    claim: Tensor
    """Embeddings."""


def input_at(config: Config, request: Tensor, position: Tensor) -> Input:
    """What the tables say of it."""
    content, claim = (cell(table, request, position) for table in (config.contents, config.claims))
    return Input(request, position, content, claim)


def place_of(cache: Cache, wanted: Input) -> Tensor:
    """[requests, positions] bool: where the input is."""
    return is_cell(cache.held, wanted.request, wanted.position)


def is_held(cache: Cache, wanted: Input) -> Tensor:
    """[] bool."""
    return cell(cache.held, wanted.request, wanted.position)


def is_resident(cache: Cache, wanted: Input) -> Tensor:
    """[] bool: whether the input has an entry."""
    return row(cache.resident, wanted.content)


def size_of_entry(cache: Cache, wanted: Input) -> Tensor:
    """[] int64: what the input's entry occupies; it has to have one."""
    return row(cache.sizes, wanted.content)


def hold(config: Config, cache: Cache, wanted: Input) -> Cache:
    """One input more holds the resident entry, which is idle no longer."""
    entry = is_row(cache.sizes, wanted.content)
    waking = entry & queued(cache.idle)
    return cache._replace(
        freeable=cache.freeable - torch.where(waking, cache.sizes, 0).sum(),
        references=cache.references + entry,
        held=cache.held | place_of(cache, wanted),
        idle=without(cache.idle, waking),
        attempted=attempt(config, cache, wanted),
    )


def place(cache: Cache, wanted: Input) -> Cache:
    """The entry is created, held by one input; its eviction, if not reported yet, no longer counts."""
    entry = is_row(cache.sizes, wanted.content)
    return cache._replace(
        free=cache.free - wanted.claim,
        freeable=cache.freeable - wanted.claim,
        resident=cache.resident | entry,
        sizes=torch.where(entry, wanted.claim, cache.sizes),
        references=torch.where(entry, 1, cache.references),
        held=cache.held | place_of(cache, wanted),
        freed=without(cache.freed, entry),
    )


def release(config: Config, cache: Cache, request: Tensor, letting_go: Tensor) -> Cache:
    """Some inputs of one request ([positions] bool) let go of their entries, from the first to the last.

    An entry becomes idle where the last input lets go of it, so entries join the order of eviction in the order of the
    last of their inputs. An input that holds nothing gives nothing back.
    """
    letting_go = letting_go & row(cache.held, request)
    contents, count = row(config.contents, request), cache.sizes.shape[0]
    released = inputs_per_content(contents, letting_go, count)
    references = cache.references - released
    resting = (released > 0) & (references == 0)
    inputs = is_row(cache.held, request)[:, None] & letting_go
    return cache._replace(
        freeable=cache.freeable + torch.where(resting, cache.sizes, 0).sum(),
        references=references,
        held=cache.held & ~inputs,
        idle=with_newest_in_turn(cache.idle, resting, turns_to_rest(contents, letting_go, resting)),
        attempted=removed(cache.attempted, inputs),
    )


def turns_to_rest(contents: Tensor, letting_go: Tensor, resting: Tensor) -> Tensor:
    """[contents] int64: 0 for the first entry that becomes idle, 1 for the next; arbitrary for those that do not.

    `contents` and `letting_go` are those of one request ([positions]), `resting` says which contents become idle.
    """
    count = resting.shape[0]
    positions = torch.arange(contents.shape[0], device=contents.device)
    rows = torch.where(letting_go, contents, count)
    nowhere = torch.full((count + 1,), -1, dtype=torch.int64, device=contents.device)
    last = nowhere.scatter_reduce(0, rows, positions, "amax")
    at_rest = torch.cat((resting, torch.zeros_like(resting[:1])))
    rests_here = letting_go & at_rest.gather(0, rows) & (last.gather(0, rows) == positions)
    turn = rests_here.cumsum(0) - rests_here.long()
    return nowhere.scatter(0, torch.where(rests_here, contents, count), turn)[:count]


def with_room(cache: Cache, needed: Tensor) -> Cache:
    """So many slots ([] int64) are free, if so many are freeable: idle entries go, the longest idle first."""
    leaving = oldest_until(cache.idle, queued(cache.idle), cache.sizes, needed - cache.free)
    return cache._replace(
        free=cache.free + torch.where(leaving, cache.sizes, 0).sum(),
        resident=cache.resident & ~leaving,
        idle=without(cache.idle, leaving),
        freed=with_newest_in_turn(cache.freed, leaving, cache.idle.long()),
    )


# The pass -----------------------------------------------------------------------------------------------------------


def removed(ranks: Tensor, leaving: Tensor) -> Tensor:
    """A queue of inputs ([requests, positions]) without these (bool, of the same shape)."""
    return without(ranks.flatten(), leaving.flatten()).reshape(ranks.shape)


def pushed(ranks: Tensor, joining: Tensor) -> Tensor:
    """A queue of inputs with one ([requests, positions] bool) as its newest."""
    return with_newest(ranks.flatten(), joining.flatten()).reshape(ranks.shape)


def promise(config: Config, cache: Cache, wanted: Input, pending: Tensor) -> Cache:
    """A grant is recorded; a caller that does not count its earlier grants as pending has given them up."""
    outstanding = torch.where(queued(cache.promised), config.claims, 0).sum()
    kept = torch.where(pending >= outstanding, cache.promised, OUTSIDE)
    return cache._replace(promised=pushed(kept, place_of(cache, wanted)))


def redeem(cache: Cache, wanted: Input) -> Cache:
    """An allocation uses its grant; without one it takes the room of the others, and ends theirs.

    It also says that the request was admitted: its attempt is over.
    """
    granted = cell(cache.promised, wanted.request, wanted.position) >= 0
    others = torch.where(granted, removed(cache.promised, place_of(cache, wanted)), OUTSIDE)
    mine = inputs_of(cache, wanted.request)
    return cache._replace(promised=others, attempted=removed(cache.attempted, mine))


def withdraw(cache: Cache, request: Tensor) -> Cache:
    """The grants and the attempt of one request end."""
    mine = inputs_of(cache, request)
    return cache._replace(promised=removed(cache.promised, mine), attempted=removed(cache.attempted, mine))


def inputs_of(cache: Cache, request: Tensor) -> Tensor:
    """[requests, positions] bool: all positions of one request."""
    return is_row(cache.held, request)[:, None].expand_as(cache.held)


def attempt(config: Config, cache: Cache, wanted: Input) -> Tensor:
    """What this pass pinned, with one input more where admissions may be abandoned."""
    return torch.where(config.abandonable, pushed(cache.attempted, place_of(cache, wanted)), cache.attempted)


def end_pass(cache: Cache) -> Cache:
    """What was evicted is reported; nothing is granted any more, and nothing attempted."""
    return cache._replace(
        sizes=torch.where(cache.resident, cache.sizes, 0),
        freed=torch.full_like(cache.freed, OUTSIDE),
        promised=torch.full_like(cache.promised, OUTSIDE),
        attempted=torch.full_like(cache.attempted, OUTSIDE),
    )
