"""What the mends of the scheduler do to loads, sends and the blocks that wait for them."""

from __future__ import annotations

from functools import partial
from itertools import takewhile

from cacheproof.catalogue.mends import AnyTransition
from cachespec.encoder_cache.operations import BLOCKS
from cachespec.kernel import Code, Outcome
from cachespec.kv_blocks.transitions import forget
from cachespec.scheduler import era_loads, era_placeholders, era_rounds, era_sessions, requests
from cachespec.scheduler.configuration import (
    Config,
    Request,
    ended_length,
    is_sent,
    is_turn,
    kv_config,
    loads_later,
)
from cachespec.scheduler.counts import known_length
from cachespec.scheduler.era_fences import FENCES
from cachespec.scheduler.era_loads import FENCED, reserved
from cachespec.scheduler.era_states import marks, with_marks
from cachespec.scheduler.era_unanswered import UNANSWERED
from cachespec.scheduler.eras import S3_RULES
from cachespec.scheduler.loading import lacks_reserve, may_be_overwritten
from cachespec.scheduler.normative import RULES
from cachespec.scheduler.operations import FailStep, FinishSend, Schedule
from cachespec.scheduler.round_state import Prefix, Round
from cachespec.scheduler.rounds import denied, voided
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import LOADED, LOADS_IN_STEP, NO_TRANSFER, Scheduled, State
from cachespec.scheduler.transfers import ended_transfer, phase_of
from cachespec.scheduler.worker import UNWRITTEN, blocks_of, holds
from cachespec.scheduler.worker_properties import last_tokens


def forgetting_what_failed(own: AnyTransition, config: Config, state: State, op: FailStep) -> tuple[State, Outcome]:
    """C-KV-6: after a failed load, blocks that have no KV are not registered any more."""
    after, outcome = own(config, state, op)
    kv, ends = after.kv, dict(last_tokens(config))
    for block, content in tuple(kv.registered.items()):
        if not holds(config, after.worker.memory.get(block, UNWRITTEN), ends[content]):
            kv = forget(kv_config(config), kv, block)
    return after._replace(kv=kv), outcome


def reserving(era: Table) -> Table:
    """C-SCH-24: a load begins only if the free blocks suffice for all requests that hold blocks."""

    def load(rules: Table, config: Config, current: Round, request: Request, prefix: Prefix) -> Round:
        after = era.load(rules, config, current, request, prefix)
        lacks = not after.ended and lacks_reserve(config, after.state, request)
        return denied(rules, config, current, request, BLOCKS) if lacks else after

    return era._replace(load=load, is_reserved=lacks_reserve)


def holders_first(era: Table, rules: Table, config: Config, current: Round) -> Round:
    """C-SCH-24: the requests whose KV is loaded are admitted first."""
    line = current.state.waiting
    first = tuple(request for request in line if phase_of(current.state, request) in (LOADED, era_loads.READY))
    waiting = (*first, *(request for request in line if request not in first))
    return era.admit_waiting(rules, config, current._replace(state=current.state._replace(waiting=waiting)))


def beside_unfinished_loads(era: Table, rules: Table, config: Config, state: State, request: Request) -> Prefix:
    """C-SCH-25: no request begins with a block that a step in flight still loads."""
    prefix = era.cached_prefix(rules, config, state, request)
    loading = [other for other, transfer in state.transfers.items() if transfer.phase == LOADS_IN_STEP]
    unsure = {block for other in loading for block in blocks_of(state.kv, other)}
    hits = tuple(takewhile(lambda block: block not in unsure, prefix.hits))
    return prefix if hits == prefix.hits else Prefix(hits, len(hits) * config.block_size, 0)


def reserving_for_others(
    era: Table, rules: Table, config: Config, current: Round, request: Request, prefix: Prefix
) -> Round:
    """C-SCH-35: a load that begins again leaves blocks free for other requests only."""
    before = current.state.transfers
    forgotten = current.state._replace(transfers=before.remove(request))
    after = era.load(rules, config, current._replace(state=forgotten), request, prefix)
    if after.state.transfers.has(request) or not before.has(request):
        return after
    kept = after.state.transfers.set(request, before.get(request, NO_TRANSFER))
    return after._replace(state=after.state._replace(transfers=kept))


def without_own_drafts(
    era: Table, rules: Table, config: Config, current: Round, request: Request, prefix: Prefix
) -> Round:
    """C-SCH-50: where no other request needs blocks, a load leaves none free."""
    alone = reserved(config, current) == 0
    return era.load(rules, config._replace(drafts=0) if alone else config, current, request, prefix)


def without_places(era: Table, rules: Table, config: Config, state: State, part: Scheduled, accepted: int) -> State:
    """C-SCH-36: no place is kept for output that was dropped."""
    kept = marks(state, UNANSWERED)
    state = with_marks(state, UNANSWERED, kept.remove(part.request) if part.void else kept)
    return era.executed(rules, config, state, part, accepted)


def dropping_behind_what_failed(
    own: AnyTransition, config: Config, state: State, op: FailStep
) -> tuple[State, Outcome]:
    """C-SCH-37: what the request has in flight behind the failed load is void."""
    after, outcome = own(config, state, op)
    return (voided(after, op.request) if outcome.code is Code.DONE else after), outcome


def giving_back_between_turns(rules: Table) -> Table:
    """C-SCH-26: a session holds nothing between two turns."""
    return rules._replace(leave=RULES.leave, next_turn=RULES.next_turn)


def ended_by_its_own_limit(era: Table, config: Config, request: Request) -> int:
    """C-SCH-27: each turn ends at its own limit."""
    return ended_length(config, request) if is_turn(config, request) else era.ended(config, request)


def session_fits_the_model(config: Config, request: Request) -> bool:
    """C-SCH-28: the tokens of a session leave room for output within the model's length."""
    return config.prompts[request] < config.max_model_len


def counting_what_came(era: Table, rules: Table, config: Config, current: Round) -> Round:
    """C-SCH-43: of a request whose load is over, the tokens count that the load has brought."""
    for request in current.state.waiting:
        current = era_loads.promoted(rules, config, current, request)
    return era.admit_waiting(rules, config, current)


def kept_while_a_load_writes(era: Table, rules: Table, config: Config, state: State, request: Request) -> State:
    """C-SCH-44: the blocks of an aborted request are freed when its load is done."""
    state = requests.withdrawn(rules, config, state, request)
    return era_placeholders.with_placeholders(state, request, 0)


def finished_once(era: Table) -> Table:
    """C-SCH-45: output of a request that is finished is dropped."""
    return era._replace(executed=era_placeholders.executed_with_place)


def behind_steps_in_flight(
    era: Table, rules: Table, config: Config, current: Round, request: Request, prefix: Prefix
) -> Round:
    """C-SCH-46: no load begins while a step in flight may write to blocks that were given back."""
    if may_be_overwritten(current.state):
        return rules.passed_by(rules, config, current, request)
    return era.load(rules, config, current, request, prefix)


def forgetting_what_is_withdrawn(
    own: AnyTransition, config: Config, state: State, op: Schedule
) -> tuple[State, Outcome]:
    """C-KV-6: what a request has registered in the step that preempts it is not registered any more."""
    after, outcome = own(config, state, op)
    if len(after.plans) == len(state.plans) or not after.plans[-1].preempted:
        return after, outcome
    kv, ends = after.kv, dict(last_tokens(config))
    for block, content in tuple(kv.registered.items()):
        is_new = not state.kv.registered.has(block)
        if is_new and not holds(config, after.worker.memory.get(block, UNWRITTEN), ends[content]):
            kv = forget(kv_config(config), kv, block)
    return after._replace(kv=kv), outcome


def freed_at_once(era: Table) -> Table:
    """C-SCH-40: blocks are free when their request ends, and a load waits for the steps that may still write them."""

    def load(rules: Table, config: Config, current: Round, request: Request, prefix: Prefix) -> Round:
        there = current.state.running
        flying = (part for plan in current.state.plans for part in plan.scheduled)
        if any(part.void or part.request not in there for part in flying):
            return rules.passed_by(rules, config, current, request)
        return era.load(rules, config, current, request, prefix)

    return era._replace(
        serve_running=partial(era_rounds.serve_restoring, moves_with_the_list=True, stays=era_rounds.nobody_stays),
        leave=era_sessions.kept_for_next_turn,
        abort=requests.withdrawn,
        step_done=RULES.step_done,
        load=load,
    )


def freed_when_sent(own: AnyTransition, config: Config, state: State, op: FinishSend) -> tuple[State, Outcome]:
    """C-SCH-40: blocks whose KV was sent are free at once, too."""
    after, outcome = own(config, state, op)
    if after.transfers.get(op.request, NO_TRANSFER).phase != FENCED:
        return after, outcome
    after = with_marks(after, FENCES, marks(after, FENCES).remove(op.request))
    return ended_transfer(S3_RULES, config, after, op.request), outcome


def but_for_the_last_token(era: Table, rules: Table, config: Config, state: State, request: Request) -> Prefix:
    """C-SCH-48: nothing is loaded for the last token of a prompt, if that is all there is."""
    prefix = era.cached_prefix(rules, config, state, request)
    if prefix.covered or not loads_later(config, request) or known_length(config, state, request) > 1:
        return prefix
    return Prefix(prefix.hits, len(prefix.hits) * config.block_size, 0)


def sent_with_its_blocks(era: Table, rules: Table, config: Config, state: State, request: Request) -> State:
    """C-SCH-49: a request without blocks is not sent."""
    unsent = is_sent(config, request) and not blocks_of(state.kv, request)
    return (requests.withdrawn if unsent else era.leave)(rules, config, state, request)
