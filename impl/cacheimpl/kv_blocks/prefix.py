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
    homes = first_copies(config, pool)
    cells = config.contents.shape[1]
    contents = config.contents.index_select(0, requests)
    found = homes.index_select(0, contents.flatten()).reshape(contents.shape)
    ends = (torch.arange(cells, device=requests.device) + 1) * config.block_size
    hit = ((found < null_block(pool)) & (ends < tokens[:, None])).long().cumprod(1)
    return Hits(torch.where(hit > 0, found, null_block(pool)), hit.sum(1))


def first_copies(config: Config, pool: Pool) -> Tensor:
    """[contents + 1] int64: the block that was registered first of those that hold each content, or the null block."""
    null, none = null_block(pool), config.hashes.shape[0] - 1
    rows = torch.arange(null + 1, device=pool.carried.device)
    known = (pool.carried >= 0) & (rows < null)
    contents = torch.where(known, pool.carried, none)
    latest = torch.full_like(config.hashes, torch.iinfo(torch.int64).max)
    earliest = latest.scatter_reduce(0, contents, pool.stamp, "amin")
    chosen = known & (earliest.index_select(0, contents) == pool.stamp)
    # No two blocks have one stamp, so no two are written to one place, but to that of no content.
    return torch.full_like(config.hashes, null).scatter(
        0, torch.where(chosen, contents, none), torch.where(chosen, rows, null)
    )


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
    place = torch.div(positions, config.block_size, rounding_mode="floor")
    block = pool.tables.flatten().index_select(0, requests * cells + place)
    return (block - place) * config.block_size + positions
