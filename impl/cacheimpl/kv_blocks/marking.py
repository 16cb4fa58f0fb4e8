"""Which element of a burst names a block first, or last."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.kv_blocks.prefix import NEVER
from cacheimpl.kv_blocks.state import Pool
from cacheimpl.writing import Writing


def least_by_block(
    pool: Pool, blocks: Tensor, values: Tensor, asked: Tensor, marks: Tensor | None, write: Writing
) -> Tensor:
    """[asked] int64: for each block that is asked for, the least value of those that name it; NEVER where none does.

    `blocks` and `values` are [elements] int64, one for each. `marks` ([blocks + 1] int64) is NEVER everywhere, and is
    so again afterwards: who has such a column at hand saves making one, which is a pass over all blocks.
    """
    if marks is None:
        return torch.full_like(pool.references, NEVER).scatter_reduce_(0, blocks, values, "amin").index_select(0, asked)
    marked = write.lower(marks, blocks, values)
    least = marked.index_select(0, asked)
    write.put(marked, blocks, NEVER)
    return least
