"""Counts that callers give: what is an integer, and how many there may be of something. The one place that says so."""

from __future__ import annotations

from math import isfinite
from operator import index
from typing import Any

from torch import Tensor
from torch import bool as truth

from cacheimpl.errors import CacheError


def whole(what: str, value: Any, error: type[CacheError], *, least: int | None = None, most: int | None = None) -> int:
    """The integer that is given: of Python, of numpy, or one element of a tensor of integers on the host.

    Truth values, fractions and what lies on another device are none. `least` and `most` are allowed themselves. Raises
    `error`, which names `what` and says what it must be.
    """
    number = value if type(value) is int else _index(what, value, error)
    if (least is not None and number < least) or (most is not None and number > most):
        raise error(f"{what} must be {_bounds(least, most)}, not {number}")
    return number


def amount(what: str, value: Any, error: type[CacheError], *, least: float = 0.0, most: float | None = None) -> float:
    """A number that may have a fraction, and is one: neither NaN nor infinite. Raises `error`."""
    if isinstance(value, bool | str | bytes | Tensor):
        raise error(f"{what} must be a number, not {_shown(value)}")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise error(f"{what} must be a number, not {_shown(value)}") from None
    if not isfinite(number) or number < least or (most is not None and number > most):
        bounds = f"{least:g} or more" if most is None else f"from {least:g} to {most:g}"
        raise error(f"{what} must be {bounds}, not {number}")
    return number


def _index(what: str, value: Any, error: type[CacheError]) -> int:
    if not isinstance(value, bool) and not (isinstance(value, Tensor) and value.dtype is truth):
        try:
            return index(value)
        except (TypeError, ValueError, RuntimeError):  # a tensor of another device is a RuntimeError
            pass
    raise error(f"{what} must be an integer, not {_shown(value)}")


def _bounds(least: int | None, most: int | None) -> str:
    if most is None:
        return f"{least} or more"
    return f"{most} or less" if least is None else f"from {least} to {most}"


def _shown(value: Any) -> str:
    """A value as a message shows it: of a tensor what it is, and of anything else no more than fits a line."""
    if isinstance(value, Tensor):
        return f"a tensor {list(value.shape)} of {value.dtype} on {value.device}"
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
