"""Requests that share contents, with callers that keep the scheduler's order and with others."""

from __future__ import annotations

import random

from cachespec.encoder_cache import Config


def draw(source: random.Random) -> Config:
    """Up to five requests with up to four inputs; some claim another size than the content has."""
    capacity, contents = source.randint(1, 10), source.randint(1, 6)
    largest = source.choice((1, capacity, capacity + 2))
    disciplined = source.randint(0, 1)
    requests = tuple(
        tuple(source.randrange(contents) for _ in range(source.randint(0 if disciplined else 1, 4)))
        for _ in range(source.randint(1, 5))
    )
    claims = tuple(tuple(source.randint(0, largest) for _ in inputs) for inputs in requests)
    return Config(
        capacity=capacity,
        sizes=tuple(source.randint(0, largest) for _ in range(contents)),
        requests=requests,
        claims=source.choice(((), () if disciplined else claims)),
        budgets=source.choice(((), (source.randint(0, largest), 100))),
        disciplined=disciplined,
        failures=source.randint(0, 1),
        resets=source.randint(0, 1),
        unreported=source.randint(2, 8),
        repeats=source.randint(0, 1),
    )
