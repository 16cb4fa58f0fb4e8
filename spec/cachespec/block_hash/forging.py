"""C-KV-10: a hash function with few values, and an adversary who computes with it at home.

The function is a toy with the one property that matters: which inputs collide depends on the parent of the first
block. Whoever knows that parent finds a collision without asking the engine; whoever does not, finds one for another
parent. A real function has more values, so that a collision by chance is rare; a toy's seed is chosen so that there is
none in the scope.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from cachespec.block_hash.configuration import Config
from cachespec.block_hash.state import Key, Link, Request
from cachespec.block_hash.transitions import next_key

PUBLIC = 0
"""The hash of None is the same in every process from Python 3.12 on."""


def digest(config: Config, parent: int, tokens: Iterable[int]) -> int:
    """The value for these tokens after this parent."""
    value = parent
    for token in tokens:
        value = (token + 1) * (token + 1 + value) % config.digests
    return value


def weak_key(config: Config, request: Request, link: Link, seed: int) -> Key:
    """The value, and beside it the block's own tokens and extras, as in the early keys.

    Without digests, no two inputs have the same value.
    """
    if config.digests == 0:
        return next_key(request, link)
    parent = request.blocks[-1].key.chain[0].tokens[0] if request.blocks else seed
    value = digest(config, parent, (*link.tokens, *(extra.value for extra in link.extras)))
    return Key((Link((value,), ()), link))


def predictable(config: Config, request: Request, link: Link) -> Key:
    """C-KV-10: the parent of first blocks is the same everywhere."""
    return weak_key(config, request, link, PUBLIC)


def seeded(config: Config, request: Request, link: Link) -> Key:
    """#12621: the parent of first blocks is drawn when the process starts."""
    return weak_key(config, request, link, config.seed)


def forged(config: Config, tokens: tuple[int, ...]) -> tuple[int, ...]:
    """Another first block of the same digest under the public parent, and the rest as it is; () if there is none."""
    first, rest = tokens[: config.block_size], tokens[config.block_size :]
    wanted = digest(config, PUBLIC, first)
    for choice in product(sorted(config.words), repeat=config.block_size):
        if choice != first and digest(config, PUBLIC, choice) == wanted:
            return (*choice, *rest)
    return ()
