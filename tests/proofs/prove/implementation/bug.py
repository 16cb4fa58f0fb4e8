"""A bug that is planted in the tensor code, and the obligation that must fail for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Bug(NamedTuple):
    """One part of a function, another in its place, and the obligation that fails for it."""

    function: Callable[..., Any]
    right: str
    wrong: str
    component: str
    refuted: str
    shape: int = 0
