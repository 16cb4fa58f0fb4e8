"""Prompts by their number, the same for everybody; the child process of a release draws them in the same way."""

from __future__ import annotations

import random

TOKENS = 100_000


def prompt_of(number: int, tokens: int) -> list[int]:
    """The tokens of a prompt."""
    return random.Random(number).choices(range(TOKENS), k=tokens)  # noqa: S311  # a workload, nothing secret
