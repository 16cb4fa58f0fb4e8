"""What execution does to the blocks: KV and states are written, and full blocks can be found from then on."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.answer import Code
from cacheimpl.layer_groups.slots import states_behind
from cacheimpl.layer_groups.state import Config, Pool, places_of, slots_of, spare_block
from cacheimpl.table import row
from cacheimpl.writing import COPYING, Writing


def commit(config: Config, pool: Pool, request: Tensor, *, write: Writing = COPYING) -> tuple[Pool, Tensor]:
    """The oldest step in flight of the request ([] int64) was executed: what is full can be found from now on.

    Returns the code: DONE; ABSENT without tables; STALE if no step is in flight.
    """
    known, flying = row(pool.scheduled, request) > 0, row(pool.flying, request)
    done = known & (flying > 0)
    ends, start = row(pool.ends, request), row(pool.computed, request)
    end = ends[0]
    pool = executed(config, pool, request, start, end, done, write) if write.history else pool
    pool = register_full(config, pool, request, end, done & config.caches, write)
    later = torch.nn.functional.pad(ends[1:], (0, 1))
    after = pool._replace(
        computed=_put(pool.computed, request, torch.where(done, end, start), write),
        ends=_put(pool.ends, request, torch.where(done, later, ends), write),
        flying=_put(pool.flying, request, flying - done.long(), write),
    )
    code = torch.where(done, int(Code.DONE), int(Code.STALE))
    return after, torch.where(known, code, int(Code.ABSENT))


def _put(column: Tensor, request: Tensor, values: Tensor, write: Writing) -> Tensor:
    return write.put_rows(column, request.reshape(1), values[None])


def register_full(config: Config, pool: Pool, request: Tensor, end: Tensor, done: Tensor, write: Writing) -> Pool:
    """The retained full blocks among the tokens before `end` can be found, where it is done; the null block never.

    Of states only the one behind the last token of its position can be.
    """
    places, table, keys = places_of(config), row(pool.tables, request).long(), row(config.keys, request)
    passed, full = row(pool.registered, request), end // config.size
    fresh = (places >= passed[:, None]) & (places < full[:, None]) & (table != pool.null) & done
    fresh = fresh & row(config.retained, request)
    is_checkpoint = ~config.is_state[:, None] | ((places + 1) * config.size[:, None] == end)
    blocks = torch.where(fresh & is_checkpoint, table, spare_block(pool)).flatten()
    after = pool._replace(
        registered=_put(pool.registered, request, torch.where(done, full, passed), write),
        carried=write.put(pool.carried, blocks, keys.flatten()),
        stamp=write.put(pool.stamp, blocks, (pool.clock + 1).expand_as(blocks)),
        clock=pool.clock + 1,
    )
    return states_done(config, after, request, end, done, write) if write.history else after


def states_done(config: Config, pool: Pool, request: Tensor, end: Tensor, done: Tensor, write: Writing) -> Pool:
    """History: the states behind `end` are there, so no step computes them any more."""
    keys = states_behind(config, pool, request, end, config.is_state & done)
    return pool._replace(this_step=write.put(pool.this_step, keys, torch.zeros_like(keys, dtype=torch.bool)))


# History --------------------------------------------------------------------------------------------------------------


def executed(
    config: Config, pool: Pool, request: Tensor, start: Tensor, end: Tensor, done: Tensor, write: Writing
) -> Pool:
    """A step from `start` to `end` writes what it computes, and what was loaded for the request before."""
    found, loaded = row(pool.found, request), row(pool.loaded, request)
    loads = done & (found < loaded) & (start == loaded)
    pool = _write_states(config, pool, request, loaded, loads, write)
    pool = _write_blocks(config, pool, request, torch.where(loads, found, start), end, done, write)
    return _write_states(config, pool, request, end, done, write)


def executed_all(config: Config, pool: Pool, request: Tensor, write: Writing) -> Pool:
    """Every step in flight is executed."""
    ends, flying = row(pool.ends, request), row(pool.flying, request)
    starts = torch.cat((row(pool.computed, request)[None], ends[:-1]))
    for step, (start, end) in enumerate(zip(starts.unbind(0), ends.unbind(0), strict=True)):
        pool = executed(config, pool, request, start, end, flying > step, write)
    return pool


def _write_blocks(
    config: Config, pool: Pool, request: Tensor, start: Tensor, end: Tensor, done: Tensor, write: Writing
) -> Pool:
    """The KV of the blocks that become full; the encoder's KV is in no full block of a prefix."""
    places, table, keys = places_of(config), row(pool.tables, request).long(), row(config.keys, request)
    first, full = start // config.size, end // config.size
    filled = (places >= first[:, None]) & (places < full[:, None]) & config.is_written[:, None]
    blocks = torch.where(filled & done & (table != pool.null), table, spare_block(pool))
    return pool._replace(bytes=write.put(pool.bytes, blocks.flatten(), keys.flatten()))


def _write_states(config: Config, pool: Pool, request: Tensor, end: Tensor, done: Tensor, write: Writing) -> Pool:
    """The state behind the step; it is that of a whole prefix only where the step ends with a block."""
    last = (slots_of(config, end) - 1).clamp(min=0)[:, None]
    block, key = (row(table, request).gather(1, last).squeeze(1).long() for table in (pool.tables, config.keys))
    blocks = torch.where(config.is_state & done & (block != pool.null), block, spare_block(pool))
    return pool._replace(bytes=write.put(pool.bytes, blocks, torch.where(end % config.size == 0, key, -1)))
