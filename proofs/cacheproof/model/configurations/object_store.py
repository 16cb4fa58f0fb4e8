"""Stores of a few items, with one to four readers, and what happens to requests on the way.

Chunks begin at multiples of 12 bytes, here and in a release: a header of 8, as released, a count of 4, and items of a
multiple of 12. So a handle that is out of date points at a header or at bytes of one item, and never at both. As for
the ring, there are never so few ids that all of them are live at once.
"""

from __future__ import annotations

import random

from cachespec.object_store.configuration import Config

UNIT, HEADER, COUNT = 12, 8, 4


def draw(source: random.Random) -> Config:
    """Room for one item up to five, and ids that come round now and then."""
    contents = source.randint(1, 5)
    payloads = tuple(COUNT + UNIT * source.randint(1, 5) for _ in range(contents))
    capacity = UNIT * source.randint(3, 14)
    largest = source.choice((max(payloads), source.choice(payloads)))
    requests = tuple(
        tuple(source.randrange(contents) for _ in range(source.randint(1, 3))) for _ in range(source.randint(1, 4))
    )
    live = capacity // (HEADER + min(payloads))
    return Config(
        capacity=capacity,
        payloads=payloads,
        requests=requests,
        largest=largest,
        readers=source.randint(1, 4),
        header=HEADER,
        modulus=source.choice((live + 2, 2 * live + 2, 2**31)),
        concurrent=source.choice((1, 1, 2, 3)),
        touches=source.randint(0, 1),
        skips=source.randint(0, 1),
        rejects=source.randint(0, 1),
        aborts=source.randint(0, 1),
        covered=source.randint(0, 1),
        preempts=source.randint(0, 1),
        clears=source.randint(0, 1),
        forges=source.randint(0, 1),
        reclaims=source.randint(0, 1),
        repeats=source.choice((0, 0, 1)),
    )
