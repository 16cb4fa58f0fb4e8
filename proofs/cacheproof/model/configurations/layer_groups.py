"""Small pools, groups of all kinds, and requests that have the beginnings of others."""

from __future__ import annotations

import random
from itertools import zip_longest

from cacheproof.model.configurations.kv_blocks import Chains, chains_of
from cachespec.layer_groups import CHUNK, CROSS, FULL, STATE, WINDOW, Config
from cachespec.layer_groups.configuration import alignment, has_many, sorts_of


def draw(source: random.Random) -> Config:
    """Of four sorts: one kind beside full attention, cross attention, blocks of several sizes, or many kinds."""
    kinds, sizes, size = groups(source)
    chains, lengths = requests(source, source.randint(1, 4), size)
    spans = tuple(span_of(source, kind, block) for kind, block in zip_longest(kinds, sizes, fillvalue=size))
    config = Config(
        blocks=source.randint(4, 24),
        kinds=kinds,
        chains=chains,
        lengths=lengths,
        spans=spans,
        sizes=sizes,
        hash_size=size,
        prompts=source.choice(((), tuple(source.randint(1, length) for length in lengths))),
        steps=source.choice(((), (1,), (1, 2, size, 4 * size), (size, 3))),
        external=0 if CROSS in kinds else source.choice((0, 0, 0, 1, size)),
        ahead=source.randint(0, 1),
        resets=source.randint(0, 1),
    )
    config = config._replace(many=int(has_many(config)))
    config = config._replace(drafting=flags(source, config))
    return retaining(source, config) if WINDOW in kinds or STATE in kinds else config


def retaining(source: random.Random, config: Config) -> Config:
    """In half of the draws, few windows and states are kept, and callers may know of shared prefixes."""
    if source.random() < 0.5:
        return config
    shared = tuple(source.choice((0, 0, source.randint(0, length))) for length in config.lengths)
    interval = source.choice((0, 0, 1, 2)) * alignment(config)
    return config._replace(retention=interval, shared_prefixes=source.choice(((), shared)))


def flags(source: random.Random, config: Config) -> tuple[int, ...]:
    """Which groups have draft layers: none, all, or those of some sorts. Only some kinds of groups go with them."""
    if CHUNK in config.kinds or CROSS in config.kinds or source.random() < 0.5:
        return ()
    sorts = sorts_of(config)
    if any(kind == FULL and size != config.hash_size for kind, _, size in sorts):
        return tuple(int(kind == WINDOW) for kind, _, _ in sorts)
    chosen = {sort for sort in dict.fromkeys(sorts) if source.random() < 0.5} or set(sorts)
    return tuple(int(sort in chosen) for sort in sorts)


def groups(source: random.Random) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """The kinds, the sizes of blocks if they differ, and the size of a hash block.

    Groups of full attention have blocks of one size: 0.20.2 cuts the hit of the first such size only.
    """
    size = source.randint(1, 3)
    sort = source.choice(("two", "two", "cross", "sizes", "many"))
    if sort == "two":
        other = source.choice((WINDOW, WINDOW, CHUNK, STATE))
        kinds = [FULL] * source.randint(1, 2) + [other] * source.randint(0, 2)
        return tuple(source.choice((kinds, kinds[::-1]))), (), size
    if sort == "cross":
        return (FULL, CROSS), (), size
    if sort == "sizes":
        full, window = source.choice(((2, 1), (1, 2), (2, 3), (3, 1)))
        kinds = source.choice(([FULL, WINDOW], [FULL, WINDOW, WINDOW], [WINDOW, FULL]))
        return tuple(kinds), tuple(size * (full if kind == FULL else window) for kind in kinds), size
    return tuple(source.choice((FULL, WINDOW, CHUNK, STATE)) for _ in range(source.randint(2, 3))), (), size


def span_of(source: random.Random, kind: int, size: int) -> int:
    """A window, a chunk of whole blocks, or encoder tokens."""
    if kind == WINDOW:
        return source.randint(2, 3 * size + 1)
    if kind == CHUNK:
        return size * source.randint(1, 3)
    return source.randint(1, 4) if kind == CROSS else 0


def requests(source: random.Random, count: int, size: int) -> tuple[Chains, tuple[int, ...]]:
    """For each request the contents of its hash blocks, which it may share with others, and its length."""
    lengths = tuple(source.randint(1, 5 * size) for _ in range(count))
    return chains_of(source, lengths, size), lengths
