"""Tables that are given back, and the prefix cache that is emptied."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.answer import Code, either
from cacheimpl.layer_groups.execution import executed_all
from cacheimpl.layer_groups.queue import let_go
from cacheimpl.layer_groups.slots import put_table
from cacheimpl.layer_groups.state import Config, Pool
from cacheimpl.table import row
from cacheimpl.writing import COPYING, Writing

COLUMNS = ("lengths", "registered", "found", "loaded", "computed", "ends", "flying", "scheduled")


def free_request(config: Config, pool: Pool, request: Tensor, *, write: Writing = COPYING) -> tuple[Pool, Tensor]:
    """The request ([] int64) is finished, aborted or preempted. Its steps in flight are still executed.

    Blocks that cannot be found come to the front of the free queue, the others behind all others, the end of each
    sequence first. Returns the code: DONE or ABSENT.
    """
    known = row(pool.scheduled, request) > 0
    pool = executed_all(config, pool, request, write) if write.history else pool
    table = row(pool.tables, request).long()
    pool = let_go(pool, table, table != pool.null, write, forwards=True)
    after = pool._replace(
        tables=put_table(pool, request, pool.null.expand_as(table), write),
        **{name: _cleared(getattr(pool, name), request, write) for name in COLUMNS},
    )
    return after, either(known, Code.DONE, Code.ABSENT)


def _cleared(column: Tensor, request: Tensor, write: Writing) -> Tensor:
    """All zeros for this request."""
    return write.put_rows(column, request.reshape(1), torch.zeros_like(row(column, request))[None])


def reset_prefix_cache(config: Config, pool: Pool, *, write: Writing = COPYING) -> tuple[Pool, Tensor]:
    """Nothing can be found any more. Returns the code: DONE; REFUSED while a request holds a block."""
    used = (pool.references[:-1] > 0).any()
    kept = torch.where(used, pool.carried, -1)
    rows = torch.arange(kept.shape[0], device=kept.device)
    return pool._replace(carried=write.put(pool.carried, rows, kept)), either(used, Code.REFUSED, Code.DONE)


def new_step(config: Config, pool: Pool, *, write: Writing = COPYING) -> Pool:
    """The calls from here on belong to the next step: the states of the step before are not those of this one."""
    return pool._replace(this_step=write.fill(pool.this_step, 0)) if write.history else pool
