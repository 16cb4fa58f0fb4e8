"""What leaves the prefix map while nobody takes it: blocks that are evicted by number, and everything at a reset."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.answer import Code, either
from cacheimpl.kv_blocks.state import Config, Pool, null_block


def evict_block(config: Config, pool: Pool, block: Tensor) -> tuple[Pool, Tensor]:
    """The block ([] int64) cannot be found any more, nor what stands behind its content in any table (KV-6).

    Who holds it keeps it. Looks at every table. Returns DONE or ABSENT.
    """
    null = null_block(pool)
    rows = torch.arange(null + 1, device=pool.carried.device)
    content = pool.carried.index_select(0, block.reshape(1))[0]
    known = content >= 0
    its = torch.arange(pool.tables.shape[1], device=rows.device) < pool.blocks[:, None]
    here = its & (config.contents == content)
    behind = its & (here.cumsum(1) - here.long() > 0)
    places = torch.where(behind, pool.tables.long(), null).flatten()
    hidden = (rows == block) | torch.zeros_like(pool.carried).scatter(0, places, torch.ones_like(places)).bool()
    after = pool._replace(carried=torch.where(hidden & known, -1, pool.carried))
    return after, either(known, Code.DONE, Code.ABSENT)


def reset_prefix_cache(config: Config, pool: Pool) -> tuple[Pool, Tensor]:
    """Nothing can be found any more. Returns DONE, or REFUSED where a request holds a block."""
    idle = pool.free == null_block(pool)
    return pool._replace(carried=torch.where(idle, -1, pool.carried)), either(idle, Code.DONE, Code.REFUSED)
