"""The normative rules, and the transitions that follow them."""

from __future__ import annotations

from cachespec.encoder_cache import NORMATIVE_ENCODER_CACHE
from cachespec.kernel import Outcome, Transitions
from cachespec.kv_blocks import NORMATIVE_KV_BLOCKS
from cachespec.scheduler import remote, requests, rounds, transfers
from cachespec.scheduler.configuration import Config, Request, ended_length
from cachespec.scheduler.counts import known_length, length_in_sight, offered, wanted
from cachespec.scheduler.feasibility import is_feasible, limited
from cachespec.scheduler.items import fit_item
from cachespec.scheduler.lines import in_front, placed
from cachespec.scheduler.loading import has_loaded, lacks_reserve
from cachespec.scheduler.operations import (
    Abort,
    Add,
    BringOutput,
    Compile,
    FailLoad,
    FailStep,
    FinishLoad,
    FinishSend,
    LoseOutput,
    ResetEncoderCache,
    ResetPrefixCache,
    ResetRunning,
    Schedule,
    Update,
)
from cachespec.scheduler.parts import cached_prefix
from cachespec.scheduler.readiness import in_its_turn, may_join, passed_by
from cachespec.scheduler.round_state import Prefix
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import NO_TRANSFER, State
from cachespec.scheduler.work import by_content

Result = tuple[State, Outcome]


def is_positive(tokens: int) -> bool:
    """SCH-1: nothing else is ever scheduled."""
    return tokens > 0


def prefix_in_cache(rules: Table, config: Config, state: State, request: Request) -> Prefix:
    """What is cached of a waiting request, here or in an external store. One token at least is left (C-SCH-3).

    One whose load is done goes on behind it, in its own blocks.
    """
    if has_loaded(state, request):
        start = state.transfers.get(request, NO_TRANSFER).tokens
        return Prefix((), start, start)
    known = known_length(config, state, request)
    hits = cached_prefix(rules, config, state.kv, request, known)
    beyond = min(config.external[request], known - 1) if config.external else 0
    return Prefix(hits, max(len(hits) * config.block_size, beyond), 0)


def offered_whole(config: Config, state: State, request: Request, start: int, tokens: int, budget: int) -> int:
    """Where prompts are not cut, a request waits until the budget of a step has all of its tokens."""
    if config.chunked_prefill == 0 and limited(config, tokens) > budget:
        return 0
    return offered(config, state, request, start, tokens, budget)


RULES = Table(
    kv=NORMATIVE_KV_BLOCKS,
    encoder=NORMATIVE_ENCODER_CACHE,
    accepts=is_feasible,
    queued=in_its_turn,
    serve_running=rounds.serve_running,
    admit_waiting=rounds.admit_waiting,
    in_sight=length_in_sight,
    wanted=wanted,
    offered=offered,
    fit_item=fit_item,
    trimmed=rounds.untrimmed,
    output_key=by_content,
    is_count=is_positive,
    passed_over=rounds.closing,
    victim=rounds.last_running,
    lose=rounds.lose_everything,
    lose_at_reset=rounds.lose_everything,
    joined=placed,
    back_in_line=in_front,
    may_join=may_join,
    passed_by=passed_by,
    cached_prefix=prefix_in_cache,
    offered_whole=offered_whole,
    slots=rounds.slots_for_chunk,
    allocated=rounds.slots_of_all,
    is_reserved=lacks_reserve,
    load=rounds.load,
    turned_down=rounds.turned_down,
    after_round=rounds.nothing_more,
    step_done=requests.nothing_freed,
    executed=requests.executed,
    ended=ended_length,
    leave=requests.leave,
    next_turn=requests.next_turn,
    abort=requests.withdrawn,
)


def add(config: Config, state: State, op: Add) -> Result:
    """SCH-9."""
    return requests.add(RULES, config, state, op.request)


def compiled(config: Config, state: State, op: Compile) -> Result:
    """SCH-13."""
    return requests.compiled(state, op.request)


def schedule(config: Config, state: State, op: Schedule) -> Result:
    """SCH-1 to SCH-5, SCH-7."""
    return rounds.run(RULES, config, state)


def update(config: Config, state: State, op: Update) -> Result:
    """SCH-2, SCH-5."""
    return requests.update(RULES, config, state, op.accepted)


def abort(config: Config, state: State, op: Abort) -> Result:
    """X-3."""
    return requests.abort(RULES, config, state, op.request)


def finish_load(config: Config, state: State, op: FinishLoad) -> Result:
    """SCH-14, KV-7."""
    return transfers.finish_load(RULES, config, state, op.request)


def fail_load(config: Config, state: State, op: FailLoad) -> Result:
    """SCH-14, KV-7."""
    return transfers.fail_load(RULES, config, state, op.request, op.blocks)


def fail_step(config: Config, state: State, op: FailStep) -> Result:
    """SCH-14, KV-7."""
    return transfers.fail_step(RULES, config, state, op.request, op.blocks)


def finish_send(config: Config, state: State, op: FinishSend) -> Result:
    """SCH-15."""
    return transfers.finish_send(RULES, config, state, op.request)


def bring_output(config: Config, state: State, op: BringOutput) -> Result:
    """SCH-17."""
    return remote.bring(config, state, op.content)


def lose_output(config: Config, state: State, op: LoseOutput) -> Result:
    """SCH-17."""
    return remote.lose(config, state, op.content)


def reset_prefix_cache(config: Config, state: State, op: ResetPrefixCache) -> Result:
    """X-4."""
    return requests.reset_blocks(RULES, config, state)


def reset_running(config: Config, state: State, op: ResetRunning) -> Result:
    """X-4."""
    return requests.reset_running(RULES, config, state)


def reset_encoder_cache(config: Config, state: State, op: ResetEncoderCache) -> Result:
    """X-4."""
    return requests.reset_items(RULES, config, state)


TRANSITIONS: Transitions[Config, State] = {
    Add: add,
    Compile: compiled,
    Schedule: schedule,
    Update: update,
    Abort: abort,
    FinishLoad: finish_load,
    FailLoad: fail_load,
    FailStep: fail_step,
    FinishSend: finish_send,
    BringOutput: bring_output,
    LoseOutput: lose_output,
    ResetPrefixCache: reset_prefix_cache,
    ResetRunning: reset_running,
    ResetEncoderCache: reset_encoder_cache,
}
