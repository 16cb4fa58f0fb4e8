"""Numbers as tensors: faster than numbers of Python's wherever a tensor is compared or combined with one.

Each is made once. Nobody may write into one.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


@cache
def constant(value: int, device: torch.device) -> Tensor:
    """[] int64. What it is used for may be recorded as a graph: it stays where it is for good."""
    with torch.inference_mode(False):
        return torch.tensor(value, device=device)
