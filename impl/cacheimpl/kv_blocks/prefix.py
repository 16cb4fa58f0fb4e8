"""The prefix map, read: which blocks hold the beginning of a request, and what a running batch has in common."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.kv_blocks.state import Config, Pool, null_block


class Hits(NamedTuple):
    """The longest cached prefix of each request of a burst."""

    blocks: Tensor
    """[turns, positions + 1] int64: the null block behind the last hit"""
    lengths: Tensor
    """[turns] int64"""


def get_computed_blocks(config: Config, pool: Pool, requests: Tensor, tokens: Tensor) -> Hits:
    """For requests of so many tokens now ([turns] int64 each) the blocks that hold their beginning.

    Never all tokens, so that at least one is left to compute. Costs one pass over the blocks, however many are asked.
    """
    null, cells = null_block(pool), config.contents.shape[1]
    contents = config.contents.index_select(0, requests)
    keys = first_copies(config, pool).index_select(0, contents.flatten()).reshape(contents.shape)
    ends = (torch.arange(cells, device=requests.device) + 1) * config.block_size
    missed = (keys == NEVER) | (ends >= tokens[:, None])
    hit = missed.cumsum(1, dtype=torch.int32) == 0
    return Hits(torch.where(hit, block_of(pool, keys), null), hit.sum(1))


NEVER = (1 << 63) - 1
"""Later than any block was registered."""


def bits_of(pool: Pool) -> int:
    """So many bits hold the number of a block, and the null block's."""
    return null_block(pool).bit_length()


def first_copies(config: Config, pool: Pool) -> Tensor:
    """[contents + 1] int64: of the blocks that hold each content the least stamp with its block below it, or NEVER.

    No two blocks have one stamp. It has the bits of a key that are not the block's: 43 with a million of blocks.
    """
    carried = pool.carried[:-1]
    blocks = torch.arange(carried.shape[0], device=carried.device)
    keys = (pool.stamp[:-1] << bits_of(pool)) + blocks
    nobody = carried.new_full((config.hashes.shape[0] + 1,), NEVER)
    return nobody.scatter_reduce_(0, carried + 1, keys, "amin")[1:]  # the first is of blocks that hold nothing


def block_of(pool: Pool, keys: Tensor) -> Tensor:
    """[...] int64: the block of each key; anything where that is NEVER."""
    return keys & ((1 << bits_of(pool)) - 1)


def common_prefix(config: Config, pool: Pool, request: Tensor, running: Tensor) -> Tensor:
    """[] int64: how many leading blocks of one request ([] int64) every running one has ([requests + 1] bool)."""
    cells = pool.tables.shape[1]
    places = torch.arange(cells, device=running.device)
    table = pool.tables.index_select(0, request.reshape(1))
    same = (pool.tables == table) & (places < pool.blocks[:, None])
    shared = (same | ~running[:, None]).all(0) & (places < pool.blocks.index_select(0, request.reshape(1)))
    return shared.long().cumprod(0).sum()


def slot_mapping(config: Config, pool: Pool, requests: Tensor, positions: Tensor) -> Tensor:
    """[tokens] int64: where in KV memory each token is, given its request and its place there ([tokens] int64 each).

    The slot is the number of the block times the block size, and the place in the block. A token of nobody's is in the
    null block.
    """
    cells = pool.tables.shape[1]
    position = torch.div(positions, config.block_size, rounding_mode="floor")
    block = pool.tables.flatten().index_select(0, requests * cells + position)
    return (block - position) * config.block_size + positions
