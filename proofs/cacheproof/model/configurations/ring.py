"""Rings of any width of their fields, with few ids, so that they come round within a run, or are all live at once."""

from __future__ import annotations

import random

from cachespec.ring import Config
from cachespec.ring.configuration import BASE


def draw(source: random.Random) -> Config:
    """Fields of one to four bytes; chunks of which several find room, or one at a time, or none."""
    width = source.choice((1, 2, 4))
    header = 2 * width
    capacity = source.randint(header + 1, min(120, BASE**width // 2))
    sizes = tuple(source.randint(1, capacity) for _ in range(source.randint(1, 5)))
    live = capacity // (header + min(sizes))
    return Config(
        capacity=capacity,
        modulus=source.choice((max(2, live - 1), max(2, live), live + 2, 2 * live + 2, BASE**width // 2)),
        header=header,
        sizes=sizes,
        readers=source.randint(1, 3),
        wants=source.choice(((), (source.randint(0, capacity), capacity))),
        outstanding=source.randint(3, 9),
        clears=source.randint(0, 1),
    )
