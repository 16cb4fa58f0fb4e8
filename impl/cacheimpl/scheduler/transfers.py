"""How loads from an external store end, and how the blocks of finished requests are sent.

A load that is done makes its tokens computed, and its blocks can be found from then on. One that has failed brings the
blocks before the first failed one; the tokens behind them are computed. While a transfer reads or writes blocks they
are not freed, whatever becomes of their request. Operands are [] int64.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl import kv_blocks
from cacheimpl.answer import Answer, Code, answer, either
from cacheimpl.kv_blocks.execution import roll_back
from cacheimpl.recency import without
from cacheimpl.scheduler.items import released_in_turn
from cacheimpl.scheduler.plans import voided
from cacheimpl.scheduler.requests import departed
from cacheimpl.scheduler.state import Config, State
from cacheimpl.scheduler.transferring import ABANDONED, IN_STEP, LOADED, LOADING, SENDING, only
from cacheimpl.table import is_row, row
from cacheimpl.writing import COPYING, Writing

Result = tuple[State, Answer]


def with_phase(state: State, request: Tensor, condition: Tensor, phase: int, tokens: Tensor) -> State:
    """The request's transfer is in this phase where the condition holds ([] bool)."""
    mine = is_row(state.transfer, request) & condition
    return state._replace(
        transfer=torch.where(mine, phase, state.transfer), brought=torch.where(mine, tokens, state.brought)
    )


def written(config: Config, state: State, condition: Tensor, request: Tensor, tokens: Tensor, write: Writing) -> State:
    """Where the condition holds ([] bool), the KV of the request's tokens before this one is there."""
    rows, ends = only(config, condition, request), torch.where(condition, tokens, 0)[None]
    kv, _ = kv_blocks.commit(config.kv, state.kv, rows, ends, width=state.kv.tables.shape[1] - 1, write=write)
    return state._replace(kv=kv)


def freed(config: Config, state: State, condition: Tensor, request: Tensor, write: Writing) -> State:
    """Where the condition holds ([] bool), the transfer is over, and the blocks are free."""
    kv, _ = kv_blocks.free_request(config.kv, state.kv, only(config, condition, request), write=write)
    return with_phase(state._replace(kv=kv), request, condition, 0, torch.zeros_like(request))


def finish_load(config: Config, state: State, request: Tensor, *, write: Writing = COPYING) -> Result:
    """`finished_recving`: the request may be admitted with its KV; blocks of one that was aborted meanwhile are freed.

    DONE; ABSENT if no KV is loaded for it.
    """
    phase, tokens = row(state.transfer, request), row(state.brought, request)
    loading, abandoned = phase == LOADING, phase == ABANDONED
    after = freed(config, state, abandoned, request, write)
    after = with_phase(written(config, after, loading, request, tokens, write), request, loading, LOADED, tokens)
    return after, answer(either(loading | abandoned, Code.DONE, Code.ABSENT))


def finish_send(config: Config, state: State, request: Tensor, *, write: Writing = COPYING) -> Result:
    """`finished_sending`: nothing reads the blocks of the finished request any more. DONE, or ABSENT."""
    sending = row(state.transfer, request) == SENDING
    return freed(config, state, sending, request, write), answer(either(sending, Code.DONE, Code.ABSENT))


def whole_tokens(config: Config, state: State, request: Tensor, blocks: Tensor) -> Tensor:
    """[] int64: the tokens that stay computed if a load brings only the first blocks. Hits were not loaded."""
    brought = torch.minimum(blocks * config.block_size, row(state.brought, request))
    return torch.maximum(row(state.kv.computed, request), brought)


def fail_load(config: Config, state: State, request: Tensor, blocks: Tensor, *, write: Writing = COPYING) -> Result:
    """`invalid_block_ids` of a waiting request: its load is over, and only its first blocks are whole.

    The request goes on behind them, or is ended. DONE; ABSENT if no KV is loaded for it.
    """
    loading = row(state.transfer, request) == LOADING
    code = answer(either(loading, Code.DONE, Code.ABSENT))
    if config.failed_ends:
        leaving = is_row(state.gone, request) & loading
        after = departed(freed(config, state, loading, request, write), leaving)
        return after._replace(waiting=without(state.waiting, leaving)), code
    tokens = whole_tokens(config, state, request, blocks)
    after = with_phase(written(config, state, loading, request, tokens, write), request, loading, LOADED, tokens)
    return gone_back(config, after, loading, request, tokens), code


def gone_back(config: Config, state: State, condition: Tensor, request: Tensor, tokens: Tensor) -> State:
    """Where the condition holds ([] bool), the tokens behind these are not computed, and not found in their blocks."""
    kv, _ = roll_back(config.kv, state.kv, only(config, condition, request)[0], tokens)
    return state._replace(kv=kv)


def failed_step(
    config: Config, state: State, request: Tensor, blocks: Tensor, *, write: Writing = COPYING
) -> tuple[State, Tensor, Tensor]:
    """`invalid_block_ids` in the output of the oldest plan: what the request has computed behind these blocks is void.

    `update` takes the output of the other requests afterwards, without drafts. Returns whether the oldest plan loads KV
    for the request ([] bool), and whether it ended the request ([] bool).
    """
    first = (row(state.turns[0], request) >= 0) & ~row(state.void[0], request)
    fails = (row(state.transfer, request) == IN_STEP) & first & (state.plans > 0)
    mine, tokens = is_row(state.gone, request) & fails, whole_tokens(config, state, request, blocks)
    after = voided(state, mine)
    if config.failed_ends:
        after = freed(config, after, fails, request, write)
        encoder = released_in_turn(config, after.encoder, mine[:, None].expand_as(after.encoder.held), config.rows)
        return departed(after._replace(encoder=encoder), mine), fails, fails
    after = with_phase(
        written(config, after, fails, request, tokens, write), request, fails, 0, torch.zeros_like(tokens)
    )
    after = after._replace(computed=torch.where(mine, tokens, after.computed))
    return gone_back(config, after, fails, request, tokens), fails, torch.zeros_like(fails)
