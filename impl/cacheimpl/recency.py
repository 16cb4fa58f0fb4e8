"""The order of a queue as ranks: each key's position from the oldest (0) to the newest; -1 if it is not queued.

Ranks are dense, so equal orders are equal tensors. Everything rests on one sum over the older members, so eviction has
a closed form and nothing loops over entries. Sizes and shapes: `ranks` is [keys], any integer type.
"""

from __future__ import annotations

import torch
from torch import Tensor

OUTSIDE = -1
"""The rank of what is not queued."""


def queued(ranks: Tensor) -> Tensor:
    """[keys] bool: whether the key is in the queue."""
    return ranks >= 0


def length(ranks: Tensor) -> Tensor:
    """[] of the dtype of the ranks: the number of keys in the queue."""
    return queued(ranks).sum(dtype=ranks.dtype)


def total_of_older(ranks: Tensor, values: Tensor) -> Tensor:
    """[keys] int64: for every member the sum of the values of all older members; arbitrary outside the queue."""
    keys = ranks.shape[0]
    age = torch.where(queued(ranks), ranks, keys).long()
    by_age = torch.zeros(keys + 1, dtype=torch.int64, device=ranks.device).scatter(0, age, values.long())
    return (by_age.cumsum(0) - by_age).gather(0, age)


def oldest_until(ranks: Tensor, candidates: Tensor, gains: Tensor, need: Tensor) -> Tensor:
    """[keys] bool: the oldest candidates, as many as it takes until their gains add up to the need; none if need <= 0.

    A loop that removes the oldest candidate until the need is met would choose the same. If all candidates together do
    not suffice, all are chosen.
    """
    gained_before = total_of_older(ranks, torch.where(candidates, gains, 0))
    return candidates & queued(ranks) & (gained_before < need)


def without(ranks: Tensor, leaving: Tensor) -> Tensor:
    """The queue without these members ([keys] bool); those that stay keep their order."""
    closed_up = ranks - total_of_older(ranks, leaving).to(ranks.dtype)
    return torch.where(queued(ranks) & ~leaving, closed_up, OUTSIDE)


def with_newest_in_turn(ranks: Tensor, joining: Tensor, turns: Tensor) -> Tensor:
    """The queue with several keys ([keys] bool) that were outside, each after those of a smaller turn.

    The turns ([keys] int64) of those that join are 0, 1, 2 and so on; of the others they are arbitrary.
    """
    return torch.where(joining, length(ranks) + turns.to(ranks.dtype), ranks)


def with_newest(ranks: Tensor, joining: Tensor) -> Tensor:
    """The queue with one key ([keys] bool, at most one true) as its newest, wherever it was before."""
    rest = without(ranks, joining)
    return torch.where(joining, length(rest), rest)
