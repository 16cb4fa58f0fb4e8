"""Keys of few sizes, some of none and some that never fit."""

from __future__ import annotations

import random

from cachespec.lru import Config


def draw(source: random.Random) -> Config:
    """Up to nine keys; in every other configuration keys change their size."""
    capacity, keys = source.randint(1, 12), source.randint(1, 9)
    largest = source.choice((1, capacity, capacity + 2))
    sizes = tuple(source.randint(0, largest) for _ in range(keys))
    grown = tuple(source.randint(0, largest) for _ in range(keys))
    return Config(
        capacity=capacity,
        sizes=sizes,
        grown=source.choice(((), grown)),
        lookups=1_000,
        pins=source.choice((0, 0, 1, 3)),
    )
