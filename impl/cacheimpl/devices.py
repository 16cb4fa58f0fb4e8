"""Devices that callers name, looked at before anything is made on them."""

from __future__ import annotations

from typing import Any

import torch

from cacheimpl.errors import CacheError


def usable(device: Any, error: type[CacheError]) -> torch.device:
    """The device. Raises `error` for what torch does not know, or has no support for here."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, TypeError, AssertionError) as problem:  # what torch raises depends on how it was built
        reason = str(problem).split("\n", maxsplit=1)[0][:120]
        raise error(f"device {device!r} cannot be used here: {reason}") from None
