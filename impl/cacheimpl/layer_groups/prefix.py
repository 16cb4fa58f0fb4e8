"""The prefix map, read: the longest prefix that all groups have, and the blocks that each group needs of it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.layer_groups.state import Config, Pool, first_needed, places_of, spare_block, spare_key
from cacheimpl.table import row

NEVER = (1 << 63) - 1
"""Later than any block was registered."""


class Prefix(NamedTuple):
    """What a look-up of one request finds."""

    tokens: Tensor
    """[] int64: the longest prefix that all groups have; 0 where there is none"""
    blocks: Tensor
    """[groups, positions] int64: the first copy of each block; anything where there is none"""


def first_copies(pool: Pool) -> Tensor:
    """[keys + 1] int64: of the blocks that hold each key the least stamp with its block below it, or NEVER."""
    keys = torch.where(pool.carried[:-1] < 0, spare_key(pool), pool.carried[:-1])
    blocks = torch.arange(keys.shape[0], device=keys.device)
    stamped = (pool.stamp[:-1] << bits_of(pool)) + blocks
    nobody = keys.new_full((spare_key(pool) + 1,), NEVER)
    found = nobody.scatter_reduce(0, keys, stamped, "amin")
    return torch.where(torch.arange(found.shape[0], device=keys.device) == spare_key(pool), NEVER, found)


def bits_of(pool: Pool) -> int:
    """So many bits hold the number of a block."""
    return spare_block(pool).bit_length()


def look_up(config: Config, pool: Pool, request: Tensor) -> Prefix:
    """The longest prefix of the request ([] int64) that all groups have; at least one token is left to compute.

    Of each group only what the token behind the prefix reads must be findable, and with draft layers one block more of
    the prompt.
    """
    keys, prompt = row(config.keys, request), row(config.prompts, request)
    copies = first_copies(pool).index_select(0, keys.flatten()).reshape(keys.shape)
    missing = torch.nn.functional.pad((copies == NEVER).cumsum(1), (1, 0))
    most = keys.shape[1]
    before, until = (missing.gather(1, ends.t().clamp(max=most)) for ends in (config.first, config.last))
    there = (before == until) & (config.last * config.size <= prompt).t()
    good = (there.all(0) & (config.prefixes < prompt)) | (config.prefixes == 0)
    tokens = torch.where(good, config.prefixes, 0).amax()
    return Prefix(tokens, copies & ((1 << bits_of(pool)) - 1))


def hits(config: Config, prefix: Prefix, null: Tensor) -> tuple[Tensor, Tensor]:
    """[groups, positions] int64: the blocks of the hit, the null block where the group needs none.

    And [groups] int64: how many positions the hit has in each group.
    """
    places = places_of(config)
    counts = prefix.tokens // config.size
    needed = (places >= first_needed(config, prefix.tokens)[:, None]) & (places < counts[:, None])
    return torch.where(needed, prefix.blocks, null), counts
