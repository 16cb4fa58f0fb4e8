"""Small pools, and requests that have the beginnings of others."""

from __future__ import annotations

import random

from cachespec.kv_blocks import Config

Chains = tuple[tuple[int, ...], ...]


def draw(source: random.Random) -> Config:
    """Of three sorts: one group of layers, two groups, or callers that do what they like."""
    sort = source.choice((of_one_group, of_one_group, of_two_groups, without_discipline))
    return sort(source)


def of_one_group(source: random.Random) -> Config:
    """Prompts and output, steps of any size, drafts, withdrawals; sometimes two contents have one hash."""
    size, chains, lengths = requests(source, source.randint(1, 5))
    prompts = tuple(source.randint(1, length) for length in lengths)
    return Config(
        block_size=size,
        blocks=source.randint(2, 12),
        chains=chains,
        lengths=lengths,
        prompts=source.choice(((), prompts)),
        hashes=source.choice(((), (), (), hashes(source, chains))),
        limit=source.choice((0, max(lengths) + source.randint(0, 3))),
        preallocated=source.randint(0, 2),
        steps=source.choice(((), (1, 2, 4), (source.randint(1, max(lengths)), 3))),
        drafts=source.choice((0, 0, 1, 3)),
        withdrawals=source.randint(0, 1),
        evictions=source.randint(0, 1),
        resets=source.randint(0, 1),
        commons=source.randint(0, 1),
        repeats=source.choice((0, 0, 1)),
        rollbacks=source.choice((0, 0, 1)),
    )


def of_two_groups(source: random.Random) -> Config:
    """Each request has two tables, with contents of their own in the second."""
    size, chains, lengths = requests(source, source.randint(1, 3))
    apart = max(content for chain in chains for content in (*chain, 0)) + 1
    return Config(
        block_size=size,
        blocks=source.randint(3, 16),
        chains=tuple(table for chain in chains for table in (chain, tuple(content + apart for content in chain))),
        lengths=tuple(length for length in lengths for _ in range(2)),
        withdrawals=source.randint(0, 1),
        evictions=source.randint(0, 1),
        resets=source.randint(0, 1),
        groups=1,
    )


def without_discipline(source: random.Random) -> Config:
    """Hits that were never found are offered in all combinations, so there are few blocks."""
    size, chains, lengths = requests(source, source.randint(1, 3))
    return Config(
        block_size=size,
        blocks=source.randint(2, 5),
        chains=chains,
        lengths=lengths,
        prompts=source.choice(((), tuple(source.randint(1, length) for length in lengths))),
        preallocated=source.randint(0, 1),
        steps=source.choice(((), (1, 3))),
        withdrawals=source.randint(0, 1),
        evictions=source.randint(0, 1),
        resets=source.randint(0, 1),
        commons=source.randint(0, 1),
        disciplined=0,
    )


def requests(source: random.Random, count: int) -> tuple[int, Chains, tuple[int, ...]]:
    """A block size; for each request the contents of its blocks, which it may share with others, and its length."""
    size = source.randint(1, 4)
    lengths = tuple(source.randint(1, 4 * size) for _ in range(count))
    return size, chains_of(source, lengths, size), lengths


def chains_of(source: random.Random, lengths: tuple[int, ...], size: int) -> Chains:
    """For each length the contents of its full blocks. Equal contents have equal contents before them."""
    numbers: dict[tuple[int, ...], int] = {}
    chains: list[tuple[int, ...]] = []
    for length in lengths:
        path: tuple[int, ...] = ()
        chain: list[int] = []
        for _ in range(length // size):
            path = (*path, source.choice((0, 0, 1)))
            chain.append(numbers.setdefault(path, len(numbers)))
        chains.append(tuple(chain))
    return tuple(chains)


def hashes(source: random.Random, chains: Chains) -> tuple[int, ...]:
    """For each content its own hash, or that of an earlier one, be it of the same request (C-KV-21)."""
    contents = max((content for chain in chains for content in chain), default=-1) + 1
    given: list[int] = []
    for content in range(contents):
        given.append(source.choice((content, content, source.choice([*given, content]))))
    return tuple(given)
