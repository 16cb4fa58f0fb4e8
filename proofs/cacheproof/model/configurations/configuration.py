"""Which settings deployments are started with."""

from __future__ import annotations

import random

from cachespec.configuration import Config

FLAGS = ((0,), (1,), (0, 1))


def draw(source: random.Random) -> Config:
    """Deployments of up to sixteen engines and frontends."""
    return Config(
        multimodal=source.choice(FLAGS),
        gigabytes=tuple(sorted({source.choice((0, 1, 4, 100)) for _ in range(2)})),
        api_processes=tuple(sorted({source.randint(1, 16) for _ in range(3)})),
        engines=tuple(sorted({source.randint(1, 16) for _ in range(3)})),
        external=source.choice(FLAGS),
        cache_types=source.choice(FLAGS),
    )
