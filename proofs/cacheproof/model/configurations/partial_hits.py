"""Small pools, blocks of a few tokens, and prompts that have the beginnings of others."""

from __future__ import annotations

import random

from cacheproof.model.configurations.kv_blocks import chains_of
from cachespec.partial_hits import Config


def draw(source: random.Random) -> Config:
    """Some requests are looked up with output, as after a preemption."""
    hash_size = source.randint(1, 3)
    block_size = hash_size * source.randint(1, 4)
    lengths = tuple(source.randint(1, 3 * block_size) for _ in range(source.randint(1, 5)))
    prompts = tuple(source.randint(1, length) for length in lengths)
    return Config(
        blocks=source.randint(4, 20),
        block_size=block_size,
        chains=chains_of(source, lengths, 1),
        hash_size=hash_size,
        prompts=prompts,
        known=tuple(
            source.choice((prompt, source.randint(prompt, length)))
            for prompt, length in zip(prompts, lengths, strict=True)
        ),
        steps=source.choice(((), (1,), (1, 2, block_size), (block_size, 3 * hash_size))),
        ahead=source.randint(0, 1),
        withdrawals=source.randint(0, 1),
        resets=source.randint(0, 1),
    )
