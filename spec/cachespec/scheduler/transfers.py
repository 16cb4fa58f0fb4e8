"""How loads from an external store end, and how the blocks of finished requests are sent.

A load that is done makes its tokens computed, and its blocks can be found from then on. One that has failed brings the
blocks before the first failed one; the tokens behind them go back, and are computed. While a transfer reads or writes
blocks they are not freed, whatever becomes of their request.
"""

from __future__ import annotations

from cachespec.kernel import ABSENT, DONE, Code, Outcome
from cachespec.kv_blocks import RollBack
from cachespec.kv_blocks.state import NO_TABLE
from cachespec.scheduler.configuration import Config, Request, kv_config
from cachespec.scheduler.parts import without_blocks, written
from cachespec.scheduler.requests import executed_all, gone, named
from cachespec.scheduler.rounds import voided
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import (
    ABANDONED,
    LOADED,
    LOADING,
    LOADS_IN_STEP,
    NO_TRANSFER,
    SENDING,
    State,
    Transfer,
)
from cachespec.scheduler.work import load_lost, load_written

Result = tuple[State, Outcome]


def phase_of(state: State, request: Request) -> int:
    """The phase of the request's transfer; 0 if it has none."""
    return state.transfers.get(request, NO_TRANSFER).phase


def finish_load(rules: Table, config: Config, state: State, request: Request) -> Result:
    """SCH-14: the request may be admitted with its KV. The blocks of one that was aborted meanwhile are freed."""
    transfer = state.transfers.get(request, NO_TRANSFER)
    if transfer.phase == ABANDONED:
        return ended_transfer(rules, config, state, request), DONE
    if transfer.phase != LOADING:
        return state, ABSENT
    return arrived(rules, config, state, request, transfer.tokens), DONE


def arrived(rules: Table, config: Config, state: State, request: Request, tokens: int) -> State:
    """KV-7: what was loaded is there, and can be found, and nothing else."""
    state = load_written(config, state, request, tokens)
    loaded = state.transfers.set(request, Transfer(LOADED, tokens))
    return state._replace(kv=written(rules, config, state.kv, request, tokens), transfers=loaded)


def whole_tokens(config: Config, state: State, request: Request, blocks: int) -> int:
    """The request's tokens that stay computed if a load brings only its first blocks. Hits were not loaded."""
    hits = state.kv.holdings.get(request, NO_TABLE).computed
    return max(hits, min(blocks * config.block_size, state.transfers.get(request, NO_TRANSFER).tokens))


def fail_load(rules: Table, config: Config, state: State, request: Request, blocks: int) -> Result:
    """SCH-14: the load is over. The request goes on behind the whole blocks, or is ended."""
    if phase_of(state, request) != LOADING:
        return state, ABSENT
    tokens = whole_tokens(config, state, request, blocks)
    if config.failed_loads_end:
        return gone(ended_transfer(rules, config, state, request), request), DONE
    return gone_back(rules, config, arrived(rules, config, state, request, tokens), request, tokens), DONE


def gone_back(rules: Table, config: Config, state: State, request: Request, tokens: int) -> State:
    """KV-7: the request's tokens behind these are not computed, and their blocks cannot be found."""
    kv, _ = rules.kv.step(kv_config(config), state.kv, RollBack(request, tokens))
    return state._replace(kv=kv)


def fail_step(rules: Table, config: Config, state: State, request: Request, blocks: int) -> Result:
    """SCH-14: what the request has computed behind the whole blocks is void, also in steps that are in flight."""
    if not state.plans or phase_of(state, request) != LOADS_IN_STEP or not is_first(state, request):
        return state, ABSENT
    tokens = whole_tokens(config, state, request, blocks)
    after = load_lost(config, voided(state, request), request, tokens)
    if config.failed_loads_end:
        after = gone(rules.abort(rules, config, after, request), request)
    else:
        after = set_back_to(rules, config, after, request, tokens)
    after = executed_all(rules, config, after, 0)
    return after, Outcome(Code.DONE, named(state.plans[0], state, after))


def is_first(state: State, request: Request) -> bool:
    """Whether the oldest plan has the step that loads the request's KV."""
    return any(part.request == request and not part.void for part in state.plans[0].scheduled)


def set_back_to(rules: Table, config: Config, state: State, request: Request, tokens: int) -> State:
    """The request runs on with so many computed tokens."""
    state = state._replace(
        kv=written(rules, config, state.kv, request, tokens),
        computed=state.computed.set(request, tokens),
        transfers=state.transfers.remove(request),
    )
    return gone_back(rules, config, state, request, tokens)


def ended_transfer(rules: Table, config: Config, state: State, request: Request) -> State:
    """SCH-15: the blocks are freed, once."""
    return without_blocks(rules, config, state._replace(transfers=state.transfers.remove(request)), request)


def finish_send(rules: Table, config: Config, state: State, request: Request) -> Result:
    """SCH-15: nothing reads the blocks of the finished request any more."""
    if phase_of(state, request) != SENDING:
        return state, ABSENT
    return ended_transfer(rules, config, state, request), DONE
