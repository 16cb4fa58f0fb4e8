"""How 0.20.2 and 0.33.0 load KV before a request is admitted, and what they do when a load fails.

A request counts as computed from the moment its load begins. When the load is done nothing happens yet: only when the
request is looked at again are its blocks registered, or freed if the load has brought none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cachespec.encoder_cache.operations import BLOCKS
from cachespec.kernel import ABSENT, DONE, Code, Operation, Outcome, Transition, Transitions
from cachespec.kv_blocks import Config as Blocks
from cachespec.kv_blocks import EvictBlock, Pool
from cachespec.kv_blocks.era_on_demand import registered
from cachespec.scheduler.configuration import (
    FIRST_COME,
    Config,
    Request,
    final_length,
    is_asynchronous,
    is_turn,
    kv_config,
    loads_later,
)
from cachespec.scheduler.counts import known_length
from cachespec.scheduler.era_arrivals import rank_of
from cachespec.scheduler.era_drafts import begun_earlier, with_drafts_kept
from cachespec.scheduler.era_readiness import skipped
from cachespec.scheduler.era_states import marks
from cachespec.scheduler.era_unanswered import without_answer
from cachespec.scheduler.parts import cached_prefix, slots, without_blocks, written
from cachespec.scheduler.requests import executed_all, gone, named, with_drafts
from cachespec.scheduler.round_state import Prefix, Round
from cachespec.scheduler.rounds import consider, denied, is_full, takes_watermark, void_in, voided
from cachespec.scheduler.rules import Table
from cachespec.scheduler.state import (
    ABANDONED,
    LOADED,
    LOADING,
    LOADS_IN_STEP,
    NO_TRANSFER,
    Scheduled,
    State,
    Transfer,
    View,
)
from cachespec.scheduler.transfers import ended_transfer, is_first, phase_of
from cachespec.scheduler.view import seen
from cachespec.scheduler.work import load_lost, load_written
from cachespec.scheduler.worker import blocks_of, table_length

Op = TypeVar("Op", bound=Operation)
Result = tuple[State, Outcome]

READY, PUT_BACK, FENCED = 7, 8, 9
"""Further phases. `READY`: the load is over, and the request was looked at since. `PUT_BACK`: it was looked at and put
back, without blocks, and still counts as one that computes a prompt. `FENCED`: the request has ended, and its blocks
are freed when `tokens` further steps are done."""

HOLDING = (LOADING, LOADED, READY)
"""Those of requests in the queue that 0.33.0 serves first (`kv_holding_waiting`)."""


# Where a request begins ---------------------------------------------------------------------------------------------


def found_or_loaded(rules: Table, config: Config, state: State, request: Request) -> Prefix:
    """What is cached here or outside. C-SCH-3 is left to the connector: one token at least, in the step that loads."""
    transfer = state.transfers.get(request, NO_TRANSFER)
    if transfer.phase in HOLDING and transfer.tokens > 0:
        return Prefix((), transfer.tokens, transfer.tokens)
    known = known_length(config, state, request)
    hits = cached_prefix(rules, config, state.kv, request, known)
    most = known if loads_later(config, request) else known - 1
    stored = min(config.external[request], most) if config.external else 0
    return Prefix(hits, max(len(hits) * config.block_size, stored), 0)


def undelayed(config: Config, request: Request, tokens: int) -> Blocks:
    """The configuration of the pool in which the request is so long: blocks behind are not registered yet."""
    parts = kv_config(config)
    lengths = list(parts.lengths)
    lengths[request] = tokens
    return parts._replace(lengths=tuple(lengths))


def nothing_reserved(config: Config, state: State, request: Request) -> bool:
    """SCH-14: an admission leaves no blocks free for requests that wait with theirs."""
    return False


# Loads that begin ---------------------------------------------------------------------------------------------------


def load_and_skip(rules: Table, config: Config, current: Round, request: Request, prefix: Prefix) -> Round:
    """S2b. SCH-14: no blocks are reserved, neither for it nor for others; steps in flight are not waited for."""
    after = loading(rules, config, current, request, prefix, 0)
    return after if after.ended else skipped(rules, config, after, request)


def load_reserving(rules: Table, config: Config, current: Round, request: Request, prefix: Prefix) -> Round:
    """S3. SCH-14: blocks for what is known of the prompts that are computed or loaded are left free, not for output.

    C-SCH-35, SCH-8: a request whose load has failed counts among them when it loads again. C-SCH-50: so do its drafts.
    """
    drafted = -(-(1 + config.drafts) // config.block_size) if config.drafts else 0
    return loading(rules, config, current, request, prefix, reserved(config, current) + drafted)


def loading(rules: Table, config: Config, current: Round, request: Request, prefix: Prefix, kept: int) -> Round:
    """Blocks for what is loaded, if all that is known would find some. `kept`: so many are left free."""
    state, hits = current.state, len(prefix.hits) * config.block_size
    if not config.admit_by_chunk:
        everything = known_length(config, state, request) - hits
        whole = slots(rules, kv_config(config), state.kv, request, 0, everything, prefix.hits)
        if not whole.yes or takes_watermark(config, state, whole):
            return denied(rules, config, current, request, BLOCKS)
    own = undelayed(config, request, hits)
    answer = slots(rules, own, state.kv, request, 0, prefix.start - hits, prefix.hits)
    left = config.watermark if state.running else 0
    if not answer.yes or answer.kv.free_count() < kept + left:
        return denied(rules, config, current, request, BLOCKS)
    return current._replace(state=load_begun(config, state, answer.kv, request, prefix))


def load_begun(config: Config, state: State, kv: Pool, request: Request, prefix: Prefix) -> State:
    """The request waits with these blocks. KV-7: what was in its new ones counts as lost."""
    begun = state.transfers.set(request, Transfer(LOADING, prefix.start))
    new = max(len(prefix.hits), table_length(state.kv, request))
    return load_lost(config, state._replace(kv=kv, transfers=begun), request, new * config.block_size)


def reserved(config: Config, current: Round) -> int:
    """S3: blocks that requests in a prompt, or with a load, still need for what is known of them."""
    state, blocks = current.state, 0
    for request in range(len(config.prompts)):
        phase = phase_of(state, request)
        if phase in HOLDING or phase == PUT_BACK or in_a_prompt(current, request):
            tokens = min(known_length(config, state, request), config.max_model_len)
            tokens = tokens + (1 + config.drafts if config.drafts else 0)
            blocks = blocks + max(0, -(-tokens // config.block_size) - table_length(state.kv, request))
    return blocks


def in_a_prompt(current: Round, request: Request) -> bool:
    """S3: the request runs, and its last chunk left known tokens to compute."""
    if not any(request == other for other in current.state.running):
        return False
    marked = marks(current.state, "prefilling").has(request)
    return marked or any(part.request == request and part.samples == 0 for part in current.scheduled)


# Loads that end -----------------------------------------------------------------------------------------------------


def finish_load(rules: Table, config: Config, state: State, request: Request) -> Result:
    """The load is over, and the request is looked at in the next round. One that was aborted is freed."""
    transfer = state.transfers.get(request, NO_TRANSFER)
    if transfer.phase == LOADING:
        return brought(rules, config, state, request, transfer.tokens), DONE
    if transfer.phase == ABANDONED:
        return ended_transfer(rules, config, state, request), DONE
    return state, ABSENT


def brought(rules: Table, config: Config, state: State, request: Request, tokens: int) -> State:
    """The workers have the KV of these tokens; the manager is not told."""
    state = load_written(config, state, request, tokens)
    over = state.transfers.set(request, Transfer(LOADED, tokens))
    return state._replace(kv=written(rules, config, state.kv, request, tokens), transfers=over)


def fail_load(rules: Table, config: Config, state: State, request: Request, blocks: int) -> Result:
    """The request counts as computed up to the first failed block, or is ended.

    A request that loads again may have shared its blocks meanwhile: those that run with them are set back, or ended.
    """
    transfer = state.transfers.get(request, NO_TRANSFER)
    if transfer.phase != LOADING:
        return state, ABSENT
    lost = blocks_of(state.kv, request)[blocks : -(-transfer.tokens // config.block_size)]
    state, affected, evicted = set_back(config, state, lost, ())
    if config.failed_loads_end:
        state = without_found(rules, config, state, evicted)
        state = gone(ended_transfer(rules, config, state, request), request)
        return ended_by_loss(rules, config, state, (), affected), DONE
    for other in affected:
        state = state._replace(kv=written(rules, config, state.kv, other, state.computed.get(other, 0)))
    return brought(rules, config, state, request, min(transfer.tokens, blocks * config.block_size)), DONE


def promoted(rules: Table, config: Config, current: Round, request: Request) -> Round:
    """A request whose load is over is looked at: its blocks are registered, or freed if the load has brought none."""
    state, transfer = current.state, current.state.transfers.get(request, NO_TRANSFER)
    if transfer.phase != LOADED:
        return current
    tokens = transfer.tokens
    if tokens == 0:
        state = without_blocks(rules, config, state, request)
    else:
        state = state._replace(kv=registered(kv_config(config), state.kv, request, tokens, 0)[0])
    tokens = min(tokens, known_length(config, state, request) - 1)
    return current._replace(state=state._replace(transfers=state.transfers.set(request, Transfer(READY, tokens))))


def admit_and_promote(rules: Table, config: Config, current: Round) -> Round:
    """S2b: in the order of the queues; each is looked at before it is considered."""
    for request in current.state.waiting:
        if not current.ended and not is_full(config, current):
            current = promoted(rules, config, current, request)
        current = with_drafts_kept(current.state, consider(rules, config, current, request), request)
    return current


def put_back(current: Round, request: Request) -> Round:
    """S3: without blocks the request leaves the queue that is served first, if it was passed over."""
    state, transfer = current.state, current.state.transfers.get(request, NO_TRANSFER)
    if current.ended or transfer.phase != READY or transfer.tokens > 0:
        return current
    return current._replace(state=state._replace(transfers=state.transfers.set(request, Transfer(PUT_BACK, 0))))


# Loads that fail in their step --------------------------------------------------------------------------------------


def fail_step(rules: Table, config: Config, state: State, request: Request, blocks: int) -> Result:
    """KV-7: the failed blocks stay registered, as if the request were sure to compute them before anyone reads them.

    Running requests that have a failed block are set back, and their output of this step is dropped. A request that has
    hit one, and waits for its KV, goes on from there when its load is done.
    """
    transfer = state.transfers.get(request, NO_TRANSFER)
    if not state.plans or transfer.phase != LOADS_IN_STEP or not is_first(state, request):
        return state, ABSENT
    lost = blocks_of(state.kv, request)[blocks : -(-transfer.tokens // config.block_size)]
    begun, plan = state, state.plans[0]
    waiting = tuple(other for other in state.waiting if lost_hit(config, state, other, lost) >= 0)
    state, affected, evicted = set_back(config, hits_cut(config, state, waiting, lost), lost, plan.scheduled)
    state = outputs_dropped(rules, config, state, affected)
    if config.failed_loads_end:
        state = without_found(rules, config, state, evicted)
    state = executed_all(rules, config, state, 0)
    for part in plan.scheduled if not is_asynchronous(config) else ():
        if any(part.request == other for other in affected):
            state = with_drafts(state, part.request, drafted(config, state, part))
    if config.failed_loads_end:
        state = ended_by_loss(rules, config, state, waiting, affected)
    return state, Outcome(Code.DONE, named(plan, begun, state))


def without_found(rules: Table, config: Config, state: State, blocks: tuple[int, ...]) -> State:
    """Nothing finds these blocks any more."""
    for block in blocks:
        state = state._replace(kv=rules.kv.step(kv_config(config), state.kv, EvictBlock(block))[0])
    return state


def hits_cut(config: Config, state: State, waiting: tuple[Request, ...], lost: tuple[int, ...]) -> State:
    """Requests that wait for hit blocks go on from their first lost block when they are looked at after the load."""
    for request in waiting:
        end = lost_hit(config, state, request, lost) * config.block_size
        cut = state.transfers.get(request, NO_TRANSFER)._replace(tokens=end)
        state = state._replace(transfers=state.transfers.set(request, cut))
    return state


def outputs_dropped(rules: Table, config: Config, state: State, affected: tuple[Request, ...]) -> State:
    """The requests that are set back get no output of the oldest step, and load nothing in it."""
    for part in state.plans[0].scheduled:
        if any(part.request == request for request in affected) and not part.void:
            state = begun_earlier(config, without_answer(config, state, part), part.request, part.drafts)
    plans = state.plans
    for request in affected:
        plans = (void_in(plans[0], request), *plans[1:])
    state = state._replace(plans=plans)
    for request in affected:
        end = state.computed.get(request, 0)
        state = load_lost(config, state, request, end)._replace(kv=written(rules, config, state.kv, request, end))
        state = state._replace(transfers=state.transfers.remove(request))
    return state


def ended_by_loss(
    rules: Table, config: Config, state: State, waiting: tuple[Request, ...], affected: tuple[Request, ...]
) -> State:
    """With `failed_loads_end`: requests that have or have hit a failed block end. Their output in flight is dropped."""
    for request in (*waiting, *affected):
        state = gone(rules.abort(rules, config, voided(state, request), request), request)
    return state


def drafted(config: Config, state: State, part: Scheduled) -> int:
    """The drafts that the workers propose behind an output, although it is dropped."""
    left = final_length(config, part.request) - 1 - known_length(config, state, part.request)
    return min(config.drafts, left) if part.samples else 0


def lost_hit(config: Config, state: State, request: Request, lost: tuple[int, ...]) -> int:
    """The first of these blocks that a request has hit that waits for its KV; -1 if there is none.

    It waits until it is looked at, although its load may be over.
    """
    transfer, table = state.transfers.get(request, NO_TRANSFER), blocks_of(state.kv, request)
    if transfer.phase not in (LOADING, LOADED):
        return -1
    for index in range(min(-(-transfer.tokens // config.block_size), len(table))):
        if any(table[index] == block for block in lost):
            return index
    return -1


def set_back(
    config: Config, state: State, lost: tuple[int, ...], step: tuple[Scheduled, ...]
) -> tuple[State, tuple[Request, ...], tuple[int, ...]]:
    """Who has a lost block counts as computed up to the first that nobody before it computes again.

    `step`: what the step computes whose output says so. Returns the requests in the order in which they run, and the
    blocks that leave the prefix map if requests are ended.
    """
    marked: tuple[int, ...] = ()
    affected: tuple[Request, ...] = ()
    evicted: tuple[int, ...] = ()
    for request in state.running:
        table = blocks_of(state.kv, request)
        count = state.computed.get(request, 0) - sum(part.tokens for part in step if part.request == request)
        has = tuple(
            index
            for index in range(min(-(-count // config.block_size), len(table)))
            if any(table[index] == block for block in lost)
        )
        new = tuple(index for index in has if not any(table[index] == block for block in marked))
        if has:
            end = new[0] * config.block_size if new else count
            state = state._replace(computed=state.computed.set(request, end))
            affected = (*affected, request)
            marked = (*marked, *(table[index] for index in new))
            evicted = (*evicted, *(table[new[0] :] if new else ()))
    return state, affected, evicted


# The queue of requests that hold blocks -----------------------------------------------------------------------------


def with_holders_first(transitions: Transitions[Config, State]) -> Transitions[Config, State]:
    """S3: the transitions of a scheduler with two waiting queues, shown as one in the order of service."""
    return {kind: in_two_queues(transition) for kind, transition in transitions.items()}


def in_two_queues(transition: Transition[Config, State, Op]) -> Transition[Config, State, Op]:
    """One of them."""

    def called(config: Config, state: State, op: Op) -> tuple[State, Outcome]:
        after, outcome = transition(config, state, op)
        if not config.loads_later and not any(config.turns):
            return after, outcome
        first = tuple(request for request in after.waiting if waits_with_blocks(config, after, request))
        others = tuple(request for request in after.waiting if not waits_with_blocks(config, after, request))
        if config.policy != FIRST_COME:
            first = tuple(sorted(first, key=lambda request: rank_of(config, after, request)))
        return after._replace(waiting=(*first, *others)), outcome

    return called


def waits_with_blocks(config: Config, state: State, request: Request) -> bool:
    """Whether it counts as a holder of KV. A turn does not whose session was preempted before its end."""
    if is_turn(config, request) and state.transfers.get(request, NO_TRANSFER).tokens == 0:
        return False
    return phase_of(state, request) in HOLDING


def seen_with_loads(rules: Table) -> Callable[[Config, State], View]:
    """The view of a scheduler with these rules."""
    return lambda config, state: shown(seen(rules, config, state))


def shown(view: View) -> View:
    """A request that was looked at waits with its KV; one without blocks has no transfer, and a fence is none."""
    over = tuple(
        (request, transfer._replace(phase=LOADED) if transfer.phase == READY else transfer)
        for request, transfer in view.transfers
        if transfer.phase not in (PUT_BACK, FENCED) and not (transfer.phase == READY and transfer.tokens == 0)
    )
    return view._replace(transfers=over)
