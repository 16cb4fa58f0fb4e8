"""Slots for the next tokens of one request, in all groups or in none."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.answer import Code
from cacheimpl.layer_groups.prefix import hits, look_up
from cacheimpl.layer_groups.queue import let_go, taken, without_held
from cacheimpl.layer_groups.state import (
    Config,
    Pool,
    first_needed,
    places_of,
    slots_of,
    spare_block,
    spare_key,
)
from cacheimpl.table import row
from cacheimpl.writing import COPYING, Writing


def allocate_running(
    config: Config, pool: Pool, request: Tensor, external: Tensor, tokens: Tensor, *, write: Writing = COPYING
) -> tuple[Pool, Tensor]:
    """Slots for so many tokens more of a request that has tables; all operands are [] int64.

    What is behind its windows goes back first, even if there is no room then. Returns the code: DONE; TOO_LARGE;
    STALE if tokens are to be loaded; REFUSED for no tokens, or if all groups together need more blocks than are free.
    """
    end = row(pool.scheduled, request) + tokens
    large, stale = end > row(config.lengths, request), external > 0
    pool = give_back(config, pool, request, ~(large | stale), write)
    lengths = row(pool.lengths, request)
    new = new_places(config, lengths, torch.zeros_like(end), end)
    done = ~(large | stale) & has_room(pool, tokens, new.sum())
    pool = with_slots(pool, request, row(pool.tables, request).long(), new & done, write)
    pool = scheduled_to(config, pool, request, lengths, end, done, write)
    return pool, _code(large, stale, done)


def allocate_new(
    config: Config, pool: Pool, request: Tensor, external: Tensor, tokens: Tensor, *, write: Writing = COPYING
) -> tuple[Pool, Tensor, Tensor]:
    """Slots for so many tokens of a request without tables, behind its hit and what is loaded; operands are [] int64.

    The hits of all groups are adopted before a block is taken for any. Returns the code: DONE, TOO_LARGE or REFUSED;
    and [] int64: the tokens of the hit.
    """
    prefix = look_up(config, pool, request)
    start = prefix.tokens + external
    end = start + tokens
    blocks, counts = hits(config, prefix, pool.null)
    first = first_needed(config, start)
    lengths = torch.maximum(first, counts)
    adopted = (places_of(config) >= first[:, None]) & (blocks != pool.null)
    new = new_places(config, lengths, torch.where(external > 0, start, 0), end)
    leaving = adopted & (pool.references.index_select(0, blocks.flatten()) == 0).reshape(blocks.shape)
    large = end > row(config.lengths, request)
    done = ~large & has_room(pool, tokens, new.sum() + leaving.sum())
    adopted = adopted & done
    pool = adopt(pool, blocks, adopted, write)
    pool = with_slots(pool, request, torch.where(adopted, blocks, pool.null), new & done, write)
    begun = pool._replace(
        registered=_put_row(pool.registered, request, lengths, done, write),
        found=_put_row(pool.found, request, prefix.tokens, done, write),
        loaded=_put_row(pool.loaded, request, start, done, write),
        computed=_put_row(pool.computed, request, start, done, write),
    )
    after = scheduled_to(config, begun, request, lengths, end, done, write)
    return after, _code(large, torch.zeros_like(large), done), prefix.tokens


def _code(large: Tensor, stale: Tensor, done: Tensor) -> Tensor:
    """[] int64."""
    code = torch.where(done, int(Code.DONE), int(Code.REFUSED))
    return torch.where(large, int(Code.TOO_LARGE), torch.where(stale, int(Code.STALE), code))


def has_room(pool: Pool, tokens: Tensor, needed: Tensor) -> Tensor:
    """[] bool: whether there is something to compute, and so many blocks ([] int64) are free."""
    return (tokens > 0) & (needed <= pool.free)


def new_places(config: Config, lengths: Tensor, loaded: Tensor, end: Tensor) -> Tensor:
    """[2, groups, positions] bool: the places that get a block, for loaded tokens, then for those before `end`.

    `lengths`: [groups] int64, the positions that there are. `loaded`: 0 if nothing is loaded. A state-space group gets
    one block for the state behind what is loaded, one for the state behind the step, and none for what they pass.
    """
    until = torch.where(loaded > 0, slots_of(config, loaded), 0)
    parts = ((lengths, until), (torch.maximum(lengths, until), slots_of(config, end)))
    return torch.stack([_behind(config, since, to) for since, to in parts])


def _behind(config: Config, since: Tensor, until: Tensor) -> Tensor:
    """[groups, positions] bool: places from `since` to before `until` ([groups] int64) that get a block."""
    places = places_of(config)
    start = torch.where(config.is_state, torch.maximum(since, until - 1), since)
    return (places >= start[:, None]) & (places < until[:, None])


def give_back(config: Config, pool: Pool, request: Tensor, allowed: Tensor, write: Writing) -> Pool:
    """Blocks that no token behind the executed ones reads go back, in each group the last one first.

    A step in flight still reads its window, so what is scheduled does not count.
    """
    table = row(pool.tables, request).long()
    behind = places_of(config) < first_needed(config, row(pool.computed, request))[:, None]
    gone = behind & (table != pool.null) & allowed
    after = let_go(pool, table, gone, write, forwards=False)
    return after._replace(tables=put_table(after, request, torch.where(gone, pool.null, table), write))


def adopt(pool: Pool, blocks: Tensor, adopted: Tensor, write: Writing) -> Pool:
    """The hits ([groups, positions] int64 and bool) are held once more, and leave the free queue."""
    held = torch.where(adopted, blocks, spare_block(pool)).flatten()
    touched = pool._replace(references=write.add(pool.references, held, adopted.flatten().long()))
    return without_held(touched, write)


def with_slots(pool: Pool, request: Tensor, table: Tensor, new: Tensor, write: Writing) -> Pool:
    """The new places ([2, groups, positions] bool) get the next free blocks, those for loaded tokens first.

    `table`: [groups, positions] int64, what the other places have.
    """
    pool, blocks = taken(pool, new.flatten())
    nothing = torch.full_like(blocks, -1)
    given = blocks.reshape(new.shape)
    filled = torch.where(new[0], given[0], torch.where(new[1], given[1], table))
    return pool._replace(
        tables=put_table(pool, request, filled, write),
        references=write.put(pool.references, blocks, torch.ones_like(blocks)),
        carried=write.put(pool.carried, blocks, nothing),
        bytes=write.put(pool.bytes, blocks, nothing) if write.history else pool.bytes,
    )


def put_table(pool: Pool, request: Tensor, table: Tensor, write: Writing) -> Tensor:
    """The tables, with those of one request ([groups, positions] int64)."""
    return write.put_rows(pool.tables, request.reshape(1), table.to(pool.tables.dtype)[None])


def scheduled_to(
    config: Config, pool: Pool, request: Tensor, lengths: Tensor, end: Tensor, done: Tensor, write: Writing
) -> Pool:
    """Where it is done, one step more is in flight, and ends here; tables had so many positions ([groups] int64)."""
    ends, flying = row(pool.ends, request), row(pool.flying, request)
    places = torch.arange(ends.shape[0], device=ends.device)
    steps = torch.where(places == flying, end, ends)
    after = pool._replace(
        lengths=_put_row(pool.lengths, request, torch.maximum(lengths, slots_of(config, end)), done, write),
        ends=_put_row(pool.ends, request, steps, done, write),
        flying=_put_row(pool.flying, request, flying + 1, done, write),
        scheduled=_put_row(pool.scheduled, request, end, done, write),
    )
    return states_begun(config, after, request, end, done, write) if write.history else after


def states_begun(config: Config, pool: Pool, request: Tensor, end: Tensor, done: Tensor, write: Writing) -> Pool:
    """History: the current step computes the states behind `end`."""
    begun = config.is_state & config.caches & done
    keys = states_behind(config, pool, request, end, begun)
    return pool._replace(this_step=write.put(pool.this_step, keys, torch.ones_like(keys, dtype=torch.bool)))


def states_behind(config: Config, pool: Pool, request: Tensor, end: Tensor, chosen: Tensor) -> Tensor:
    """[groups] int64: the keys of the blocks that end with this token, in the chosen groups; no key in others."""
    last = (end // config.size - 1).clamp(min=0, max=config.keys.shape[2] - 1)
    keys = row(config.keys, request).gather(1, last[:, None]).squeeze(1)
    return torch.where(chosen & (end % config.size == 0), keys, spare_key(pool))


def _put_row(column: Tensor, request: Tensor, values: Tensor, done: Tensor, write: Writing) -> Tensor:
    """The column ([requests, ...]) with these values for the request, where it is done."""
    return write.put_rows(column, request.reshape(1), torch.where(done, values, row(column, request))[None])
