"""The walk of a request over an order by recency, in closed form: no loop over items, keys or evictions.

Every use has a time: what is in the order has the times of its ranks, then come the touches, then the turns of the
items. The oldest make room, so there is always a time from which on everything is held whose last use it was, and
before which nothing is. At each turn it is the first time from which on the bytes of all last uses fit; it never goes
back, because what was used from some time on only becomes more.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.recency import OUTSIDE, queued

NOTHING = -1
"""In the place of an item, a payload or a number that is not there."""


class Config(NamedTuple):
    """What does not change."""

    capacity: Tensor
    """[] int64, bytes"""
    sizes: Tensor
    """[keys] int64, bytes of each content"""


def walk(config: Config, ranks: Tensor, items: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """What a request does to the order, and for each of its items 1 where it has to be sent.

    `ranks` ([keys], any integer type) is the order, `items` ([most items] int64) has keys in prompt order, the first
    `length` ([] int64) of them. MIR-9: what is there is touched first, then each item is looked up at its own turn, and
    what is larger than the cache is not kept. The second tensor ([most items] int64) is -1 where there is no item.
    """
    keys, turns = ranks.shape[0], items.shape[0]
    turn = torch.arange(turns, device=items.device)
    wanted = turn < length
    is_item = (items[:, None] == torch.arange(keys, device=items.device)) & wanted[:, None]
    touches = torch.where(is_item & queued(ranks), keys + turn[:, None], NOTHING).amax(0)
    before = torch.maximum(ranks.long(), touches)
    uses = torch.where(is_item & (config.sizes <= config.capacity), keys + turns + turn[:, None], NOTHING)
    used = torch.maximum(before, uses.cummax(0).values)
    held_from = _held_from(config, used, keys + 2 * turns)
    used_before = torch.cat((before[None], used[:-1]))
    held_before = torch.cat((torch.zeros_like(held_from[:1]), held_from[:-1]))
    there = (is_item & (used_before >= held_before[:, None])).any(1)
    needed = torch.where(wanted, (~there).long(), NOTHING)
    return _ranked(torch.where(used[-1] >= held_from[-1], used[-1], NOTHING), keys + 2 * turns).to(ranks.dtype), needed


def absent(ranks: Tensor, items: Tensor, length: Tensor) -> Tensor:
    """[most items] int64: for each item of a request 1 where it is not in the order now; -1 where there is no item.

    It changes and decides nothing: what is there now may be gone when the request is sent (`walk` looks again).
    """
    there = queued(ranks).index_select(0, items.clamp(min=0))
    return torch.where(torch.arange(items.shape[0], device=items.device) < length, (~there).long(), NOTHING)


def _held_from(config: Config, used: Tensor, times: int) -> Tensor:
    """[turns] int64: after each turn, the first time whose uses are held."""
    place = torch.where(used >= 0, used, times)
    sizes = torch.where(used >= 0, config.sizes, 0)
    by_time = torch.zeros(used.shape[0], times + 1, dtype=torch.int64, device=used.device).scatter(1, place, sizes)
    from_here_on = by_time.flip(1).cumsum(1).flip(1)
    return (from_here_on > config.capacity).sum(1)


def _ranked(used: Tensor, times: int) -> Tensor:
    """[keys] int64: dense ranks by the times of last uses; outside where there is none."""
    place = torch.where(used >= 0, used, times)
    taken = torch.zeros(times + 1, dtype=torch.int64, device=used.device).scatter(0, place, (used >= 0).long())
    return torch.where(used >= 0, (taken.cumsum(0) - 1).gather(0, place), OUTSIDE)
