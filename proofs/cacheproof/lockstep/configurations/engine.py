"""Small engines: the scheduler's random requests and settings, behind one or two frontends and the mirror."""

from __future__ import annotations

import random

from cacheproof.lockstep.configurations import scheduler
from cachespec.engine import Config
from cachespec.scheduler.configuration import CONTENT


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
    return Config(**{**inside._asdict(), **own})
