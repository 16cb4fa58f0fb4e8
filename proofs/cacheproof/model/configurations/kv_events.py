"""Small pools, and requests that have the beginnings of others."""

from __future__ import annotations

import random

from cacheproof.model.configurations.kv_blocks import hashes, requests
from cachespec.kv_events import Config


def draw(source: random.Random) -> Config:
    """Steps of any size; sometimes two contents have one hash."""
    size, chains, lengths = requests(source, source.randint(1, 5))
    return Config(
        block_size=size,
        blocks=source.randint(2, 12),
        chains=chains,
        lengths=lengths,
        hashes=source.choice(((), (), (), hashes(source, chains))),
        steps=source.choice(((), (1, 2, 4), (source.randint(1, max(lengths)), 3))),
        withdrawals=source.randint(0, 1),
        evictions=source.randint(0, 1),
        resets=source.randint(0, 1),
        queued=source.randint(1, 6),
    )
