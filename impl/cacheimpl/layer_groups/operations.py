"""The calls of a KV cache manager over groups of layers, one request at a time.

Every operation takes the configuration, the state and its operands (shape [] each) and returns the next state and the
answer. Lifted by `torch.func.vmap`, the same functions step a whole frontier.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.answer import Answer, Code, answer, either
from cacheimpl.layer_groups import execution, releasing, slots
from cacheimpl.layer_groups.prefix import hits, look_up
from cacheimpl.layer_groups.state import Config, Pool, places_of
from cacheimpl.table import choose, row

Result = tuple[Pool, Answer]


def new_step(config: Config, pool: Pool) -> Result:
    """DONE."""
    return releasing.new_step(config, pool), answer(torch.full_like(pool.clock, int(Code.DONE)))


def get_computed_blocks(config: Config, pool: Pool, request: Tensor) -> Result:
    """HIT with the tokens of the longest prefix that all groups have, then the blocks of each group; or MISS."""
    prefix = look_up(config, pool, request)
    blocks, counts = hits(config, prefix, pool.null)
    before = 1 + counts.cumsum(0) - counts
    places = places_of(config)
    nowhere = 1 + blocks.numel()
    at = torch.where(places < counts[:, None], before[:, None] + places, nowhere)
    values = torch.full((nowhere + 1,), -1, dtype=torch.int64, device=blocks.device)
    values = torch.where(torch.arange(nowhere + 1, device=blocks.device) == 0, prefix.tokens, values)
    shown = values.scatter(0, at.flatten(), blocks.flatten())[:-1]
    is_hit = prefix.tokens > 0
    length = torch.where(is_hit, 1 + counts.sum(), 0)
    return pool, Answer(either(is_hit, Code.HIT, Code.MISS), torch.where(is_hit, shown, -1), length)


def allocate_slots(config: Config, pool: Pool, request: Tensor, external: Tensor, tokens: Tensor) -> Result:
    """DONE with the tokens of the hit, TOO_LARGE, STALE, or REFUSED."""
    runs = row(pool.scheduled, request) > 0
    running, code = slots.allocate_running(config, pool, request, external, tokens)
    new, code_of_new, found = slots.allocate_new(config, pool, request, external, tokens)
    code = torch.where(runs, code, code_of_new)
    done = code == int(Code.DONE)
    values = torch.where(done, torch.where(runs, 0, found), -1).reshape(1)
    return choose(runs, running, new), Answer(code, values, done.long())


def commit(config: Config, pool: Pool, request: Tensor) -> Result:
    """DONE, ABSENT, or STALE."""
    after, code = execution.commit(config, pool, request)
    return after, answer(code)


def free_request(config: Config, pool: Pool, request: Tensor) -> Result:
    """DONE or ABSENT."""
    after, code = releasing.free_request(config, pool, request)
    return after, answer(code)


def reset_prefix_cache(config: Config, pool: Pool) -> Result:
    """DONE or REFUSED."""
    after, code = releasing.reset_prefix_cache(config, pool)
    return after, answer(code)
