"""Numbers as tensors: faster than numbers of Python's wherever a tensor is compared or combined with one.

Each is made once and stays at its address for good, because a recorded graph may use it. It is made on the host, so a
new constant during the recording of a graph is an error, and not a number that is missing later. No caller may write
into one.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


@cache
def constant(value: int, device: torch.device) -> Tensor:
    """[] int64."""
    with torch.inference_mode(False):
        return torch.tensor(value, device=device)


def counting(count: int, device: torch.device) -> Tensor:
    """[count] int64: 0, 1, 2 and so on."""
    numbers = _powers_of_two_of_numbers(1 << (count - 1).bit_length() if count > 0 else 0, device)
    return numbers if numbers.shape[0] == count else numbers[:count]


@cache
def _powers_of_two_of_numbers(count: int, device: torch.device) -> Tensor:
    """[count] int64. There are few such counts: so all of them together are little more than the largest."""
    with torch.inference_mode(False):
        return torch.arange(count).to(device)
