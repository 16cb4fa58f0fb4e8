"""The calls of the KV cache manager, one request at a time: each is the burst of one.

Every operation takes the configuration, the state and its operands (shape [] each) and returns the next state and the
answer. Lifted by `torch.func.vmap`, the same functions step a whole frontier.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.answer import Answer, Code, answer, either
from cacheimpl.kv_blocks import admission, execution, forgetting, groups, prefix, releasing, slots
from cacheimpl.kv_blocks.state import Config, Pool, null_block
from cacheimpl.table import choose

Result = tuple[Pool, Answer]


def get_computed_blocks(config: Config, pool: Pool, request: Tensor, tokens: Tensor) -> Result:
    """HIT with the blocks of the longest cached prefix, or MISS."""
    hits = prefix.get_computed_blocks(config, pool, request.reshape(1), tokens.reshape(1))
    length = hits.lengths[0]
    return pool, Answer(either(length > 0, Code.HIT, Code.MISS), shown(pool, hits.blocks[0]), length)


def allocate_slots(
    config: Config, pool: Pool, request: Tensor, computed: Tensor, tokens: Tensor, hit_blocks: Tensor, *hits: Tensor
) -> Result:
    """DONE with the new blocks, TOO_LARGE, PRESENT, STALE, or REFUSED.

    The hits are the first `found` of `hits`. A call without any is the burst of requests without hits, as in a step of
    running requests; one with hits is the burst of an admission.
    """
    width, null = pool.tables.shape[1] - 1, null_block(pool)
    who, since, more = request.reshape(1), computed.reshape(1), tokens.reshape(1)
    nothing = torch.full((pool.tables.shape[1] - len(hits),), null, device=hit_blocks.device)
    brought = prefix.Hits(torch.cat((*(hit.reshape(1) for hit in hits), nothing))[None], hit_blocks.reshape(1))
    running, given = slots.allocate_slots(config, pool, who, since, more, width=width)
    admitted, with_hits = admission.admit(config, pool, who, since, more, brought, width=width)
    after = choose(hit_blocks > 0, admitted, running)
    code, blocks, length = (
        torch.where(hit_blocks > 0, new[0], other[0])
        for new, other in (
            (with_hits.codes, given.codes),
            (with_hits.blocks, given.blocks),
            (with_hits.lengths, given.lengths),
        )
    )
    return after, Answer(code, shown(pool, blocks), length)


def allocate_groups(
    config: Config, pool: Pool, request: Tensor, other: Tensor, external: Tensor, tokens: Tensor, *hits: Tensor
) -> Result:
    """DONE with the new blocks of both tables, TOO_LARGE, PRESENT, STALE, or REFUSED.

    `hits`: how many the one table brings along, and the other; then those of the one, padded to half of what is left,
    and those of the other.
    """
    hit_blocks, others = hits[0], hits[1]
    half = (len(hits) - 2) // 2
    null, cells = null_block(pool), pool.tables.shape[1]
    nothing = torch.full((2, cells - half), null, device=hit_blocks.device)
    rows = torch.stack(hits[2:]).reshape(2, half)
    brought = prefix.Hits(torch.cat((rows, nothing), 1), torch.stack((hit_blocks, others)))
    after, code, blocks, lengths = groups.allocate_groups(
        config, pool, torch.stack((request, other)), external, tokens, brought, width=cells - 1
    )
    return after, Answer(code, shown(pool, groups.one_after_the_other(blocks, lengths, null)), lengths.sum())


def commit(config: Config, pool: Pool, request: Tensor, computed: Tensor) -> Result:
    """DONE, ABSENT or STALE."""
    width = pool.tables.shape[1] - 1
    after, step = execution.commit(config, pool, request.reshape(1), computed.reshape(1), width=width)
    return after, answer(step.codes[0])


def roll_back(config: Config, pool: Pool, request: Tensor, computed: Tensor) -> Result:
    """DONE, ABSENT, STALE, or REFUSED."""
    after, code = execution.roll_back(config, pool, request, computed)
    return after, answer(code)


def free_request(config: Config, pool: Pool, request: Tensor) -> Result:
    """DONE or ABSENT."""
    after, codes = releasing.free_request(config, pool, request.reshape(1))
    return after, answer(codes[0])


def withdraw(config: Config, pool: Pool, request: Tensor) -> Result:
    """DONE or ABSENT."""
    after, codes = releasing.withdraw(config, pool, request.reshape(1))
    return after, answer(codes[0])


def evict_block(config: Config, pool: Pool, block: Tensor) -> Result:
    """DONE or ABSENT."""
    after, code = forgetting.evict_block(config, pool, block)
    return after, answer(code)


def reset_prefix_cache(config: Config, pool: Pool) -> Result:
    """DONE or REFUSED."""
    after, code = forgetting.reset_prefix_cache(config, pool)
    return after, answer(code)


def common_prefix(config: Config, pool: Pool, request: Tensor, *running: Tensor) -> Result:
    """DONE with the number of leading blocks that all running requests have (one operand for each: 1 if it runs)."""
    runs = torch.stack((*running, torch.zeros_like(request))) > 0
    count = prefix.common_prefix(config, pool, request, runs)
    return pool, Answer(torch.full_like(count, int(Code.DONE)), count.reshape(1), torch.ones_like(count))


def shown(pool: Pool, blocks: Tensor) -> Tensor:
    """Blocks as values of an answer: -1 instead of the null block."""
    return torch.where(blocks < null_block(pool), blocks, -1)
