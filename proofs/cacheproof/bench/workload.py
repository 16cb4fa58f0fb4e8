"""Work that is the same for every contender: prompts by their number, and pictures.

The child process of a release draws prompts in the same way.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

TOKENS = 100_000


def prompt_of(number: int, tokens: int) -> list[int]:
    """The tokens of a prompt."""
    return random.Random(number).choices(range(TOKENS), k=tokens)  # noqa: S311  # a workload, nothing secret


@dataclass(frozen=True, slots=True)
class Pictures:
    """`requests` requests in each of `steps` steps, with a picture each after a text; lengths are in tokens."""

    requests: int
    block_size: int
    text: int
    picture: int
    steps: int

    @property
    def prompt(self) -> int:
        """Tokens of a request."""
        return self.text + self.picture

    @property
    def blocks(self) -> int:
        """Room for the requests of two steps, each with a token of output."""
        return 2 * self.requests * -(-(self.prompt + 1) // self.block_size)

    @property
    def encoder_cache(self) -> int:
        """Room for the pictures of two steps."""
        return 2 * self.requests * self.picture


@dataclass(frozen=True, slots=True)
class Arrivals(Pictures):
    """`requests` requests that arrive before each of `steps` steps; without a picture if it has no tokens."""

    named: int
    """1: time all work on a request before it can be served, including the names of its blocks' contents"""
