"""The calls of the KV cache manager, one request at a time: each is the burst of one.

Every operation takes the configuration, the state and its operands (shape [] each) and returns the next state and the
answer. Lifted by `torch.func.vmap`, the same functions step a whole frontier.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.answer import Answer, Code, answer, either
from cacheimpl.kv_blocks import execution, prefix, releasing, slots
from cacheimpl.kv_blocks.state import Config, Pool, null_block

Result = tuple[Pool, Answer]


def get_computed_blocks(config: Config, pool: Pool, request: Tensor, tokens: Tensor) -> Result:
    """HIT with the blocks of the longest cached prefix, or MISS."""
    hits = prefix.get_computed_blocks(config, pool, request.reshape(1), tokens.reshape(1))
    length = hits.lengths[0]
    return pool, Answer(either(length > 0, Code.HIT, Code.MISS), shown(pool, hits.blocks[0]), length)


def allocate_slots(config: Config, pool: Pool, request: Tensor, computed: Tensor, tokens: Tensor) -> Result:
    """DONE with the new blocks, TOO_LARGE, STALE, or REFUSED."""
    width = pool.tables.shape[1] - 1
    operands = (operand.reshape(1) for operand in (request, computed, tokens))
    after, given = slots.allocate_slots(config, pool, *operands, width=width)
    return after, Answer(given.codes[0], shown(pool, given.blocks[0]), given.lengths[0])


def commit(config: Config, pool: Pool, request: Tensor, computed: Tensor) -> Result:
    """DONE, ABSENT or STALE."""
    width = pool.tables.shape[1] - 1
    after, codes = execution.commit(config, pool, request.reshape(1), computed.reshape(1), width=width)
    return after, answer(codes[0])


def free_request(config: Config, pool: Pool, request: Tensor) -> Result:
    """DONE or ABSENT."""
    after, codes = releasing.free_request(config, pool, request.reshape(1))
    return after, answer(codes[0])


def withdraw(config: Config, pool: Pool, request: Tensor) -> Result:
    """DONE or ABSENT."""
    after, codes = releasing.withdraw(config, pool, request.reshape(1))
    return after, answer(codes[0])


def common_prefix(config: Config, pool: Pool, request: Tensor, *running: Tensor) -> Result:
    """DONE with the number of leading blocks that all running requests have (one operand for each: 1 if it runs)."""
    runs = torch.stack((*running, torch.zeros_like(request))) > 0
    count = prefix.common_prefix(config, pool, request, runs)
    return pool, Answer(torch.full_like(count, int(Code.DONE)), count.reshape(1), torch.ones_like(count))


def shown(pool: Pool, blocks: Tensor) -> Tensor:
    """Blocks as values of an answer: -1 instead of the null block."""
    return torch.where(blocks < null_block(pool), blocks, -1)
