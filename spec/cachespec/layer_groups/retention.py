"""Which blocks of windows and which states stay findable: those of the prefixes with which later requests can go on.

Each request passes many prefixes, and a window or a state behind each of them takes blocks that are seldom found again.
With `retention`, those of a few prefixes are registered: of the prefix with which the same prompt goes on, of one that
the caller knows to be shared, and of each multiple of the interval. Groups of full attention and of chunks keep all.
"""

from __future__ import annotations

from cachespec.layer_groups.configuration import (
    STATE,
    WINDOW,
    Config,
    Group,
    Position,
    Request,
    alignment,
    prompt_of,
    proofs_of,
    shared_prefix_of,
    size_of,
)
from cachespec.layer_groups.prefixes import first_needed


def proved_within(config: Config, tokens: int) -> int:
    """The longest prefix that a hit can have if a sequence shares these tokens: draft layers need a block behind it."""
    needed = 0
    for group in range(len(config.kinds)):
        needed = max(needed, proofs_of(config, group) * size_of(config, group))
    return max(0, tokens - needed) // alignment(config) * alignment(config)


def replayed(config: Config, request: Request) -> int:
    """The longest prefix that the same prompt can find; at least one token is left to compute."""
    unit, prompt = alignment(config), prompt_of(config, request)
    return min(max(0, prompt - 1) // unit * unit, proved_within(config, prompt))


def needs(config: Config, group: Group, position: Position, tokens: int) -> bool:
    """LG-12: a hit of these tokens needs the block at this position."""
    last = tokens // size_of(config, group) + proofs_of(config, group)
    return tokens > 0 and first_needed(config, group, tokens) <= position < last


def next_multiple(config: Config, group: Group, position: Position) -> int:
    """The first multiple of the interval of which a hit needs this block, or one behind it."""
    tokens = (position + 1 - proofs_of(config, group)) * size_of(config, group)
    return max(1, (tokens + config.retention - 1) // config.retention) * config.retention


def is_retained(config: Config, request: Request, group: Group, position: Position) -> bool:
    """LG-15: whether the request's block at this position can be found once it is written."""
    if config.retention < 0 or (config.kinds[group] != WINDOW and config.kinds[group] != STATE):
        return True
    if config.retention > 0 and needs(config, group, position, next_multiple(config, group, position)):
        return True
    unit, shared = alignment(config), shared_prefix_of(config, request)
    return (
        needs(config, group, position, replayed(config, request))
        or needs(config, group, position, shared // unit * unit)
        or needs(config, group, position, proved_within(config, shared))
    )
