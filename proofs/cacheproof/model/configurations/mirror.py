"""Few contents, one or two senders, and some of the faults."""

from __future__ import annotations

import random

from cachespec.mirror import Config


def draw(source: random.Random) -> Config:
    """Requests of up to three items, but of two where there are many contents: every sequence is a request."""
    capacity, contents = source.randint(1, 6), source.randint(1, 5)
    largest = source.choice((1, 2, capacity + 1))
    identities = tuple(source.randrange(contents) for _ in range(contents))
    modalities = tuple(source.randint(0, 2) for _ in range(contents))
    return Config(
        capacity=capacity,
        sizes=tuple(source.randint(1, largest) for _ in range(contents)),
        items=source.randint(1, 2 if contents > 3 else 3),
        modalities=source.choice(((), modalities)),
        identities=source.choice(((), (), identities)),
        senders=source.choice((1, 1, 2)),
        rendered=source.choice((0, 0, 1, 3)),
        outstanding=source.randint(1, 4),
        channel=source.randint(1, 5),
        reorder=source.randint(0, 1),
        drop=source.randint(0, 1),
        reject=source.randint(0, 1),
        abort=source.randint(0, 1),
        reset=source.randint(0, 1),
        restart=source.randint(0, 1),
        processing=source.choice((0, 0, 1, 2)),
        fan_out=source.choice((1, 1, 2, 3)),
        embeddings=source.randint(0, 1),
        cancel=source.randint(0, 1),
        duplicate=source.choice((0, 0, 1)),
    )
