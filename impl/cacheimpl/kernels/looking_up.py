"""The look-up of a burst as kernels: the longest cached prefix of each request."""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from cacheimpl.kernels.decoding import Launch, power_of_two
from cacheimpl.kernels.launching import Kernel
from cacheimpl.kv_blocks.prefix import NEVER, Hits, bits_of
from cacheimpl.kv_blocks.state import Config, Pool, null_block

CELLS_OF_A_PROGRAM = 1024


def fill_keys(keys: tl.tensor, contents: tl.tensor, NEVER: tl.constexpr, CELLS: tl.constexpr) -> None:
    """No content has a copy yet."""
    content = tl.program_id(0) * CELLS + tl.arange(0, CELLS)
    tl.store(keys + content, content.to(tl.int64) * 0 + NEVER, mask=content < contents)


def lead_copies(
    keys: tl.tensor, carried: tl.tensor, stamp: tl.tensor, blocks: tl.tensor, BITS: tl.constexpr, CELLS: tl.constexpr
) -> None:
    """The least key of the copies of each content (`kv_blocks.prefix.first_copies`)."""
    block = tl.program_id(0) * CELLS + tl.arange(0, CELLS)
    there = block < blocks
    content = tl.load(carried + block, mask=there, other=-1)
    key = (tl.load(stamp + block, mask=there, other=0) << BITS) + block
    tl.atomic_min(keys + content, key, mask=content >= 0)


def find_prefix(
    requests: tl.tensor,
    tokens: tl.tensor,
    contents: tl.tensor,
    keys: tl.tensor,
    blocks: tl.tensor,
    lengths: tl.tensor,
    columns: tl.tensor,
    null: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
    NEVER: tl.constexpr,
    BITS: tl.constexpr,
    CELLS: tl.constexpr,
) -> None:
    """The hits of one request: all blocks before the first that is missing, and never all tokens."""
    turn = tl.program_id(0)
    who = tl.load(requests + turn)
    count = tl.load(tokens + turn)
    cell = tl.arange(0, CELLS)
    there = cell < columns
    content = tl.load(contents + who * columns + cell, mask=there, other=0)
    key = tl.load(keys + content, mask=there, other=NEVER)
    missed = (key == NEVER) | ((cell + 1) * BLOCK_SIZE >= count)
    hit = tl.associative_scan(missed.to(tl.int32), 0, tl.standard._sum_combine) == 0
    tl.store(blocks + turn * columns + cell, tl.where(hit, key & ((1 << BITS) - 1), null), mask=there)
    tl.store(lengths + turn, tl.reduce(hit.to(tl.int64), 0, tl.standard._sum_combine))


FILL, LEAD, FIND = Kernel(fill_keys), Kernel(lead_copies), Kernel(find_prefix)


class FusedLookUp:
    """`kv_blocks.get_computed_blocks` for `turns` requests of one pool, in three launches.

    The tensors of the hits stay at their addresses. Each call overwrites the previous hits.
    """

    def __init__(self, config: Config, pool: Pool, turns: int) -> None:
        device, columns = pool.tables.device, config.contents.shape[1]
        self.config, self.pool, self.turns = config, pool, turns
        self._block_size = int(config.block_size)
        self._keys = torch.full_like(config.hashes, NEVER)
        self.hits = Hits(
            torch.zeros((turns, columns), dtype=torch.int64, device=device),
            torch.zeros(turns, dtype=torch.int64, device=device),
        )

    def __call__(self, requests: Tensor, tokens: Tensor) -> Hits:
        """The cached blocks of each request, which now has this number of tokens (both arguments: [turns] int64)."""
        for launch in self.launches(requests, tokens):
            launch.kernel.launch(launch.programs, launch.warps, **launch.given)
        return self.hits

    def launches(self, requests: Tensor, tokens: Tensor) -> list[Launch]:
        """The launches in their order."""
        config, pool, cells = self.config, self.pool, CELLS_OF_A_PROGRAM
        contents, null, bits = self._keys.shape[0], null_block(pool), bits_of(pool)
        columns = config.contents.shape[1]
        fill = {"keys": self._keys, "contents": contents, "NEVER": NEVER, "CELLS": cells}
        lead = {"keys": self._keys, "carried": pool.carried, "stamp": pool.stamp, "blocks": null}
        find = {
            "requests": requests,
            "tokens": tokens,
            "contents": config.contents,
            "keys": self._keys,
            "blocks": self.hits.blocks,
            "lengths": self.hits.lengths,
            "columns": columns,
            "null": null,
            "BLOCK_SIZE": self._block_size,
            "NEVER": NEVER,
            "BITS": bits,
            "CELLS": max(32, power_of_two(columns)),
        }
        return [
            Launch("fill_keys", FILL, -(-contents // cells), 4, fill),
            Launch("lead_copies", LEAD, -(-null // cells), 4, {**lead, "BITS": bits, "CELLS": cells}),
            Launch("find_prefix", FIND, self.turns, max(1, min(8, power_of_two(columns) // 128)), find),
        ]
