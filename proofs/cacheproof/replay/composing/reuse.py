"""Reuse rules: which images a request of a composed load refers to; assumed, because the source does not say."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, count
from random import Random
from typing import Any, Protocol

from cacheproof.replay.options import Option, integer, number

Images = tuple[int, ...]
"""The images of a request, as numbers within its client; clients share none."""


class Reuse(Protocol):
    """How one client chooses the images of its requests."""

    def images(self, wanted: Callable[[], int], random: Random) -> Images:
        """Of the next request; `wanted` draws how many images a request has."""
        ...


@dataclass(slots=True)
class Never:
    """Every image is new."""

    fresh: count[int] = field(default_factory=count)

    def images(self, wanted: Callable[[], int], random: Random) -> Images:  # noqa: ARG002  # this rule draws nothing
        return tuple(next(self.fresh) for _ in range(wanted()))


@dataclass(slots=True)
class WithinConversation:
    """A conversation's first request brings new images, and each of its later turns sends the same ones again.

    A client has `conversations` open ones; a request is the next turn of one of them, drawn evenly, and after `turns`
    turns another one is opened in its place. How many images a request has is distributed as in the source.
    """

    turns: int
    conversations: int
    fresh: count[int] = field(default_factory=count)
    running: dict[int, tuple[Images, int]] = field(default_factory=dict)

    def images(self, wanted: Callable[[], int], random: Random) -> Images:
        place = random.randrange(self.conversations)
        images, left = self.running.get(place, ((), 0))
        if left == 0:
            images, left = tuple(next(self.fresh) for _ in range(wanted())), self.turns
        self.running[place] = images, left - 1
        return images


@dataclass(slots=True)
class Zipf:
    """Each image is drawn from a pool: the one of rank r with a weight of one over r to the exponent."""

    pool: int
    exponent: float
    cumulative: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.cumulative = list(accumulate(rank**-self.exponent for rank in range(1, self.pool + 1)))

    def images(self, wanted: Callable[[], int], random: Random) -> Images:
        return tuple(self._rank(random) for _ in range(wanted()))

    def _rank(self, random: Random) -> int:
        return min(bisect_right(self.cumulative, random.random() * self.cumulative[-1]), self.pool - 1)


RULES: Mapping[str, Callable[[Mapping[str, Any]], Reuse]] = {
    "none": lambda options: Never(),
    "conversation": lambda options: WithinConversation(options["turns"], options["conversations"]),
    "zipf": lambda options: Zipf(options["pool"], options["exponent"]),
}
"""By the name that the option `reuse` takes; each makes the rule of one client."""

PARAMETERS: Mapping[str, tuple[Option, ...]] = {
    "none": (),
    "conversation": (
        integer("turns", 4, "of a conversation (reuse=conversation)", least=1),
        integer("conversations", 8, "that a client has open at the same time (reuse=conversation)", least=1),
    ),
    "zipf": (
        integer("pool", 1000, "how many images a client has (reuse=zipf)", least=1),
        number("exponent", 1.0, "how fast the weights fall with the rank (reuse=zipf)"),
    ),
}
"""The options of each rule."""
