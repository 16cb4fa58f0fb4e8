"""A function that is dear to make, made at its first call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeVar

Given = TypeVar("Given")
Result = TypeVar("Result")


def when_needed(make: Callable[[], Callable[[Given], Result]]) -> Callable[[Given], Result]:
    """The function that `make` returns. It is made once, when it is first called."""
    made = cache(make)

    def called(given: Given) -> Result:
        return made()(given)

    return called
