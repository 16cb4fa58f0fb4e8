"""A backend of Hypothesis whose integers can be asked for: what is generated is steered, what is repeated is not.

Hypothesis asks a backend for each value of a new example. It keeps the values, repeats and shrinks them itself. So a
value may depend on all that was seen in the run, and a failing example is the same in the next process.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

BACKEND = "cacheproof"

_wishes: list[Callable[[], int]] = []
"""What the value that is drawn now should be: at most one."""


class SteeredProvider(HypothesisProvider):
    """Draws as Hypothesis does, but for integers that are wished for."""

    def draw_integer(
        self,
        min_value: int | None = None,
        max_value: int | None = None,
        *,
        weights: dict[int, float] | None = None,
        shrink_towards: int = 0,
    ) -> int:
        """The wish, or a random one."""
        if _wishes:
            return _wishes.pop()()
        return super().draw_integer(min_value, max_value, weights=weights, shrink_towards=shrink_towards)


AVAILABLE_PROVIDERS[BACKEND] = SteeredProvider


def drawn(data: st.DataObject, largest: int, wish: Callable[[], int]) -> int:
    """An integer from 0: what Hypothesis repeats, or, in a new example, the wish, which is asked for only then."""
    _wishes[:] = [wish]
    try:
        return data.draw(st.integers(0, largest))
    finally:
        _wishes.clear()
