"""Models of one to three modalities, and the settings that operators choose from."""

from __future__ import annotations

import random
from collections.abc import Callable

from cachespec.encoder_budget import Config


def draw(source: random.Random) -> Config:
    """Sizes around those of a step, items around those that were profiled."""
    modalities = source.randint(1, 3)
    scale = source.choice((4, 12, 300, 9_000))
    embeds = tuple(source.randint(1, scale) for _ in range(modalities))
    longer = source.choice((0, scale // 3))
    batches = tuple(source.randint(1, 2 * scale) for _ in range(3))
    limits = tuple(tuple(source.choice((0, 1, 2, 5)) for _ in embeds) for _ in range(3))
    return Config(
        embeds=embeds,
        tokens=tuple(size + source.randint(0, longer) for size in embeds),
        items=tuple(item(source, modalities, scale, longer) for _ in range(source.randint(1, 6))),
        batches=(*batches, source.choice(embeds)),
        sequences=some(source, lambda: source.choice((1, 2, 7, 256))),
        limits=source.choice(((), limits)),
        embeddings=some(source, lambda: source.randint(0, 1)),
        chunked=some(source, lambda: source.randint(0, 1)),
        whole=some(source, lambda: source.randint(0, 1)),
        model_tokens=source.randint(1, 3 * scale),
    )


def item(source: random.Random, modalities: int, scale: int, longer: int) -> tuple[int, int, int]:
    """One that a client sends."""
    embeds = source.randint(1, 2 * scale)
    return source.randrange(modalities), embeds, embeds + source.randint(0, longer)


def some(source: random.Random, value: Callable[[], int]) -> tuple[int, ...]:
    """One or two choices of a setting."""
    return tuple(sorted({value() for _ in range(source.randint(1, 2))}))
