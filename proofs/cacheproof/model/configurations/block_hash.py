"""Prompts of few tokens and items, so that many blocks are alike."""

from __future__ import annotations

import random

from cachespec.block_hash import Config


def draw(source: random.Random) -> Config:
    """Up to eight requests that begin alike, with items, adapters and salts, or without."""
    prompt = source.randint(1, 9)
    opening = tuple(source.randint(0, 2) for _ in range(source.choice((0, 0, 1, prompt - 1))))
    adapters = tuple(
        (source.randint(1, 3), source.randint(1, 2), source.randint(0, 1)) for _ in range(source.choice((0, 0, 2, 4)))
    )
    return Config(
        block_size=source.randint(1, 5),
        prompt_tokens=prompt,
        tokens=prompt + source.randint(0, 8),
        requests=source.randint(2, 8),
        opening=opening,
        words=source.choice(((0,), (1,), (0, 1), (1, 2))),
        lengths=tuple(source.randint(1, 4) for _ in range(source.randint(0, 4))),
        items=source.randint(0, 4),
        adapters=adapters,
        salts=source.choice((0, 0, 1, 3)),
        disciplined=source.randint(0, 1),
    )
