"""Small engines: the scheduler's random requests and settings, behind the mirror or shared memory.

In shared memory chunks begin at multiples of three units, for the reason that the object store's generator gives.
"""

from __future__ import annotations

import random
from typing import Any

from cacheproof.model.configurations import scheduler
from cachespec.engine import Config
from cachespec.engine.configuration import HEADER, IDS
from cachespec.scheduler.configuration import CONTENT

SIZES = (4, 7, 10)
"""Units of an item in shared memory."""
CHUNKS = HEADER + SIZES[0]
"""Units of the smallest chunk. Memory holds fewer of them than there are ids."""


def draw(source: random.Random) -> Config:
    """Mirrors that hold few of the items, one or two workers, and some resets."""
    inside = scheduler.draw(source)
    contents = 1 + max((item[CONTENT] for items in inside.items for item in items), default=0)
    sizes = tuple(source.randint(1, 2) for _ in range(contents))
    senders = tuple(source.randint(0, 1) for _ in inside.prompts)
    own = {
        "sizes": sizes,
        "mirror_capacity": source.randint(1, sum(sizes) + 1),
        "senders": source.choice(((), senders)),
        "workers": source.choice((1, 1, 2)),
        "channel": source.randint(1, 5),
        "resets": source.choice((0, 1, 3)) if inside.resets else 0,
    }
    shared = by_handles(source, contents) if source.randrange(3) == 0 else {}
    return Config(**{**inside._asdict(), **own, **shared})


def by_handles(source: random.Random, contents: int) -> dict[str, Any]:
    """Memory for one item up to six, one frontend, and one step in flight."""
    sizes = tuple(source.choice(SIZES) for _ in range(contents))
    return {
        "shared_memory": 1,
        "sizes": sizes,
        "store_capacity": CHUNKS * source.randint(2, IDS - 2),
        "senders": (),
        "workers": source.choice((1, 1, 2, 3)),
        "ahead": 1,
        "running_resets": 0,
    }
