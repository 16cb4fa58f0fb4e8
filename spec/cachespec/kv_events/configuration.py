"""The pool whose events are told, and how many may wait."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from cachespec import kv_blocks
from cachespec.kernel import Operation
from cachespec.kv_blocks.configuration import hash_of
from cachespec.kv_events.operations import TakeEvents


class Config(NamedTuple):
    """A pool of `kv_blocks`, with fields of the same names, and the queue of events. Fields are in tokens or blocks."""

    block_size: int
    """Tokens in a block."""
    blocks: int
    """Blocks in the pool."""
    chains: tuple[tuple[int, ...], ...]
    """For each request, the content of each of its full blocks."""
    lengths: tuple[int, ...]
    """For each request, how many tokens it has."""
    hashes: tuple[int, ...] = ()
    """For each content, its hash: the least content with the same one. Empty if no two hashes are equal."""
    steps: tuple[int, ...] = ()
    """Tokens that are scheduled at once. Empty: all that are left."""
    withdrawals: int = 0
    """1: a scheduled request may be taken back before its step is executed."""
    evictions: int = 0
    """1: blocks may be taken out of the prefix cache by number."""
    resets: int = 0
    """1: the prefix cache may be reset."""
    queued: int = 2
    """The number of events that may wait. When it is reached, callers take the events first."""


@cache
def pool_config(config: Config) -> kv_blocks.Config:
    """The configuration of the pool."""
    return kv_blocks.Config(
        block_size=config.block_size,
        blocks=config.blocks,
        chains=config.chains,
        lengths=config.lengths,
        hashes=config.hashes,
        steps=config.steps,
        withdrawals=config.withdrawals,
        evictions=config.evictions,
        resets=config.resets,
    )


@cache
def told_hashes(config: Config) -> tuple[int, ...]:
    """Every hash that an event can have, ascending."""
    pool = pool_config(config)
    return tuple(sorted({hash_of(pool, content) for chain in config.chains for content in chain}))


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    if config.queued <= 0:
        return "queued must be positive"
    return kv_blocks.COMPONENT.invalid(pool_config(config))


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """As in the pool."""
    return kv_blocks.COMPONENT.interchangeable(pool_config(config))


def config_of(config: Config, kind: type[Operation]) -> Config | kv_blocks.Config:
    """The calls of the pool know its configuration."""
    return config if kind is TakeEvents else pool_config(config)


def unknown(config: Config, operation: Operation) -> str | None:
    """What the pool does not have."""
    return kv_blocks.COMPONENT.unknown(pool_config(config), operation)
