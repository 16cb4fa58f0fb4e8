"""How the parts of an engine move together.

P0 sends a request with the message of the mirror; P1 hands it to the scheduler when it applies the message; a round of
the scheduler becomes a step in the inbox of every worker; its output is taken when every worker has executed it.
Nothing here decides anything: the decisions are those of the parts.
"""

from __future__ import annotations

from functools import partial

from cachespec import scheduler
from cachespec.engine.configuration import (
    Config,
    Request,
    SenderName,
    contents_of,
    mirror_config,
    requests,
    scheduler_config,
    sender_of,
    store_config,
)
from cachespec.engine.handles import completed, ended, handed_out, read_all, stored
from cachespec.engine.ledger import inserted, removed
from cachespec.engine.operations import Cancel, DeliverAbort, DeliverRequest, Execute, SubmitRequest
from cachespec.engine.parts import Parts
from cachespec.engine.plans import step_of
from cachespec.engine.state import AT_P0, AT_P1, State, is_executed, is_on_its_way, issued, with_worker
from cachespec.engine.worker import Step, Worker, executed, kept_blocks, kept_crossed
from cachespec.kernel import ABSENT, DONE, FAILED, PRESENT, REFUSED, Code, Outcome, Transitions
from cachespec.kv_blocks.state import NO_TABLE
from cachespec.mirror.faults import ResetReceiver
from cachespec.mirror.operations import Deliver, Expire, Join, Receive, Retry, Submit, Transmit
from cachespec.object_store.operations import Clear, End
from cachespec.object_store.state import WAITING
from cachespec.scheduler.configuration import first_turn
from cachespec.scheduler.counts import goes_on_behind, rejected_drafts
from cachespec.scheduler.operations import (
    Abort,
    Add,
    Compile,
    FailLoad,
    FailStep,
    FinishLoad,
    FinishSend,
    ResetEncoderCache,
    ResetPrefixCache,
    ResetRunning,
    Schedule,
    Update,
)
from cachespec.scheduler.state import LOADING, NO_TRANSFER, Scheduled
from cachespec.scheduler.worker import UNWRITTEN, blocks_of, truncated
from cachespec.scheduler.worker import Worker as Memory

Result = tuple[State, Outcome]


# Frontends and the mirror -------------------------------------------------------------------------------------------


def submit_request(parts: Parts, config: Config, state: State, op: SubmitRequest) -> Result:
    """MIR-4: the update of P0 and its message are one step. A request without items concerns no mirror."""
    if state.submitted.has(op.request):
        return state, PRESENT
    if config.shared_memory:
        return with_handles(parts, config, state, op.request)
    if contents_of(config, op.request) == ():
        deaf = parts.ledger.is_deaf(state.mirror)
        sent = submitted(state, op.request)
        return (sent, DONE) if deaf else received(parts, config, sent, op.request)
    return rendered(parts, config, state, op.request)


def with_handles(parts: Parts, config: Config, state: State, request: Request) -> Result:
    """Eras: a request that fails while P0 walks its items is over (C-MIR-9)."""
    state = stored(parts, config, submitted(state, request), request)
    if state.store.requests[request].phase == WAITING:
        return state, DONE
    return state._replace(rejected=state.rejected.set(request, AT_P0)), FAILED


def rendered(parts: Parts, config: Config, state: State, request: Request) -> Result:
    """A request with items. Eras: one that fails at P0 is over, unless its client is told to send it again."""
    sender = sender_of(config, request)
    before, call = state.mirror.links[sender], Submit(sender, contents_of(config, request))
    mirror, outcome = parts.mirror.step(mirror_config(config), state.mirror, call)
    if outcome.code is Code.REFUSED:
        return state, REFUSED
    state, repeated = submitted(state._replace(mirror=mirror), request), parts.ledger.repeated
    if outcome.code is Code.DONE:
        return listed(state, sender, parts.ledger.sent_at(before), request), outcome
    if repeated(mirror.links[sender]) > repeated(before):
        return listed(state, sender, len(state.unconfirmed[sender]), request), outcome
    if outcome.code is Code.DIVERGED:
        return state, outcome
    return state._replace(rejected=state.rejected.set(request, AT_P0)), outcome


def submitted(state: State, request: Request) -> State:
    """A client has sent it."""
    return state._replace(submitted=state.submitted.set(request, 1))


def with_unconfirmed(state: State, sender: SenderName, requests: tuple[Request, ...]) -> State:
    """The requests of one frontend's log replaced."""
    before = state.unconfirmed
    return state._replace(unconfirmed=(*before[:sender], requests, *before[sender + 1 :]))


def listed(state: State, sender: SenderName, place: int, request: Request) -> State:
    """The request is on its way, at this place of the frontend's ledger."""
    return with_unconfirmed(state, sender, inserted(state.unconfirmed[sender], place, request))


def deliver(parts: Parts, config: Config, state: State, op: Deliver) -> Result:
    """P1 takes a message; a request whose update it applies goes on to the scheduler, once (X-3)."""
    link = state.mirror.links[op.sender]
    after, outcome = parts.mirror.step(mirror_config(config), state.mirror, op)
    state = state._replace(mirror=after)
    if outcome.code is Code.HIT:
        request = state.unconfirmed[op.sender][parts.ledger.delivered(link)]
        return received(parts, config, state, request)
    if outcome.code in (Code.FAILED, Code.TOO_LARGE, Code.DIVERGED):
        return failed_at_p1(parts, state, op.sender, parts.ledger.delivered(link)), outcome
    return state, outcome


def failed_at_p1(parts: Parts, state: State, sender: SenderName, place: int) -> State:
    """Eras: an error at P1 ends the request, or with the thread that takes messages nobody hears of it."""
    if parts.ledger.is_deaf(state.mirror):
        return with_unconfirmed(state, sender, removed(state.unconfirmed[sender], place))
    return turned_away(state, state.unconfirmed[sender][place])


def turned_away(state: State, request: Request) -> State:
    """P1 knows the request, and does not serve it."""
    return state._replace(received=state.received.set(request, 1), rejected=state.rejected.set(request, AT_P1))


def deliver_request(parts: Parts, config: Config, state: State, op: DeliverRequest) -> Result:
    """With shared memory: P1 takes the request, with its handles."""
    if not is_on_its_way(state, op.request):
        return state, ABSENT
    return received(parts, config, state, op.request)


def received(parts: Parts, config: Config, state: State, request: Request) -> Result:
    """P1 knows the request; the scheduler takes it, or refuses it for good."""
    taken, outcome = parts.scheduler.step(scheduler_config(config), state.scheduler, Add(request))
    state = state._replace(scheduler=taken, received=state.received.set(request, 1))
    if outcome.code is Code.TOO_LARGE:
        state = state._replace(rejected=state.rejected.set(request, AT_P1))
        state = ended(parts, config, state, request) if config.shared_memory else state
    return state, outcome


def step_mirror(parts: Parts, config: Config, state: State, op: Receive | Transmit | Expire | Join | Retry) -> Result:
    """The mirror on its own; what is confirmed is forgotten on this side, too. Eras: a retry comes behind the rest."""
    before = state.mirror.links[op.sender]
    after, outcome = parts.mirror.step(mirror_config(config), state.mirror, op)
    confirmed = parts.ledger.unanswered(before) - parts.ledger.unanswered(after.links[op.sender])
    state = with_unconfirmed(state, op.sender, state.unconfirmed[op.sender][max(confirmed, 0) :])
    return state._replace(mirror=after), outcome


def receive(parts: Parts, config: Config, state: State, op: Receive) -> Result:
    """MIR-7: as `step_mirror`. Eras: a client that is told to send its request again does so, if it is there still."""
    before, requests = state.mirror.links[op.sender], state.unconfirmed[op.sender]
    state, outcome = step_mirror(parts, config, state, op)
    link = state.mirror.links[op.sender]
    if parts.ledger.repeated(link) == parts.ledger.repeated(before):
        return state, outcome
    if state.cancelled.has(requests[0]):
        state = state._replace(mirror=parts.ledger.given_up(state.mirror, op.sender))
        return turned_away(state, requests[0]), outcome
    return listed(state, op.sender, len(state.unconfirmed[op.sender]), requests[0]), outcome


# Clients that go away -----------------------------------------------------------------------------------------------


def cancel(parts: Parts, config: Config, state: State, op: Cancel) -> Result:
    """X-3: at any point after it was sent. What the request did to the mirror stays: its message is on the way."""
    if not state.submitted.has(op.request) or state.cancelled.has(op.request):
        return state, ABSENT
    return state._replace(cancelled=state.cancelled.set(op.request, 1)), DONE


def deliver_abort(parts: Parts, config: Config, state: State, op: DeliverAbort) -> Result:
    """X-3: an abort comes behind its request. A request that P1 has not got yet will come, so the abort waits."""
    if not state.cancelled.has(op.request) or not state.received.has(op.request):
        return state, ABSENT
    if parts.ledger.is_deaf(state.mirror):
        return state, ABSENT
    under_way = Abort(turn_under_way(config, state.scheduler, op.request))
    after, outcome = parts.scheduler.step(scheduler_config(config), state.scheduler, under_way)
    state = forgotten(config, state._replace(scheduler=after, cancelled=state.cancelled.remove(op.request)))
    return (ended(parts, config, state, op.request) if config.shared_memory else state), outcome


def turn_under_way(config: Config, state: scheduler.State, request: Request) -> Request:
    """The client of a session leaves it: the first turn that is not over is aborted, with all turns behind it."""
    for turn in range(first_turn(scheduler_config(config), request), request):
        if not state.gone.has(turn):
            return turn
    return request


# Scheduler and workers ----------------------------------------------------------------------------------------------


def compiled(parts: Parts, config: Config, state: State, op: Compile) -> Result:
    """A thread of the engine core has compiled the grammar of a request."""
    after, outcome = parts.scheduler.step(scheduler_config(config), state.scheduler, op)
    return state._replace(scheduler=after), outcome


def schedule(parts: Parts, config: Config, state: State, op: Schedule) -> Result:
    """A round; its plan goes to every worker, with the blocks as they are now."""
    before = state.scheduler
    after, outcome = parts.scheduler.step(scheduler_config(config), state.scheduler, op)
    state = state._replace(scheduler=after)
    if outcome.code is not Code.DONE:
        return state, outcome
    plan = after.plans[-1]
    state = handed_out(parts, config, state, plan) if config.shared_memory else state
    step = step_of(scheduler_config(config), before, after, plan)
    return forgotten(config, issued(config, state, step, parts.takes_plan)), outcome


def execute(parts: Parts, config: Config, state: State, op: Execute) -> Result:
    """One worker takes one step; workers do not wait for one another."""
    if state.workers[op.worker].inbox == ():
        return state, ABSENT
    state = read_all(parts, config, state, op.worker) if config.shared_memory else state
    after = executed(scheduler_config(config), state.workers[op.worker], parts.phases)
    state = forgotten(config, with_worker(state, op.worker, after))
    return state, Outcome(Code.DONE if after.finding == 0 else Code.FAILED)


def update(parts: Parts, config: Config, state: State, op: Update) -> Result:
    """The output of a plan that every worker has executed."""
    if state.scheduler.plans == () or not is_executed(state):
        return state, ABSENT
    state = with_rejected_drafts(config, state, op.accepted)
    after, outcome = parts.scheduler.step(scheduler_config(config), state.scheduler, op)
    state = forgotten(config, state._replace(scheduler=after))
    return (completed(parts, config, state, outcome.values) if config.shared_memory else state), outcome


def transferred(parts: Parts, config: Config, state: State, op: FinishLoad | FailLoad | FinishSend) -> Result:
    """SCH-14, SCH-15: a load or a sending is over, whatever steps are in flight."""
    after, outcome = parts.scheduler.step(scheduler_config(config), state.scheduler, op)
    loaded = loading_blocks(config, state.scheduler, op.request)
    return followed_by_workers(parts, config, state, after, loaded), outcome


def loading_blocks(config: Config, state: scheduler.State, request: Request) -> tuple[int, ...]:
    """The blocks to which the load of a waiting request writes: those behind what it has hit."""
    transfer = state.transfers.get(request, NO_TRANSFER)
    if transfer.phase != LOADING:
        return ()
    size = scheduler_config(config).block_size
    first = state.kv.holdings.get(request, NO_TABLE).computed // size
    return blocks_of(state.kv, request)[first : -(-transfer.tokens // size)]


def fail_step(parts: Parts, config: Config, state: State, op: FailStep) -> Result:
    """SCH-14: the output of a plan that every worker has executed, of which a load has failed."""
    if state.scheduler.plans == () or not is_executed(state):
        return state, ABSENT
    after, outcome = parts.scheduler.step(scheduler_config(config), state.scheduler, op)
    return followed_by_workers(parts, config, state, after, ()), outcome


def followed_by_workers(
    parts: Parts, config: Config, state: State, after: scheduler.State, loaded: tuple[int, ...]
) -> State:
    """What a load has brought, and what is lost with it, reaches every worker by no step. A request may end of it."""
    before = state.scheduler
    changed = tuple(with_changes(config, worker, before.worker, after.worker, loaded) for worker in state.workers)
    state = forgotten(config, state._replace(scheduler=after, workers=changed))
    for request in requests(config):
        if config.shared_memory and after.gone.has(request) and not before.gone.has(request):
            state = ended(parts, config, state, request)
    return state


def with_changes(config: Config, worker: Worker, before: Memory, after: Memory, loaded: tuple[int, ...]) -> Worker:
    """One worker, whose blocks change as those of the scheduler's own worker do.

    Of `loaded` blocks all count: a load may write what the scheduler's own worker still had from an earlier request.
    """
    memory = worker.memory.memory
    for block in range(scheduler_config(config).kv_blocks):
        there = after.memory.get(block, UNWRITTEN)
        if there != before.memory.get(block, UNWRITTEN) or any(block == other for other in loaded):
            memory = memory.remove(block) if there == UNWRITTEN else memory.set(block, there)
    return worker._replace(memory=worker.memory._replace(memory=memory))


def forgotten(config: Config, state: State) -> State:
    """What a free block holds that nothing can find does not count: no step reads it before it is written."""
    return state._replace(workers=tuple(without_unread(config, state, worker) for worker in state.workers))


def without_unread(config: Config, state: State, worker: Worker) -> Worker:
    """One worker without KV that no step reads before it is written: that of free blocks and of cross-attention."""
    told = scheduler_config(config)
    return kept_crossed(told, kept_blocks(told, worker, state.scheduler.kv), state.scheduler.computed)


def with_rejected_drafts(config: Config, state: State, accepted: int) -> State:
    """The KV of drafts that the oldest plan has computed and the output rejects is of no use, at any worker.

    A request that was preempted since has other blocks now.
    """
    for part in state.scheduler.plans[0].scheduled:
        is_of_this_run = goes_on_behind(state.scheduler, part.request, part.start)
        rejected = rejected_drafts(part, accepted) if is_of_this_run else 0
        state = state._replace(
            workers=tuple(without(config, state, worker, part, rejected) for worker in state.workers)
        )
    return state


def without(config: Config, state: State, worker: Worker, part: Scheduled, tokens: int) -> Worker:
    """One worker without the last tokens of a request."""
    memory = truncated(scheduler_config(config), worker.memory, state.scheduler.kv, part.request, tokens)
    return worker._replace(memory=memory)


# Resets -------------------------------------------------------------------------------------------------------------


def reset_receiver(parts: Parts, config: Config, state: State, op: ResetReceiver) -> Result:
    """X-4: P1 forgets what its part of the mirror holds; requests that it has taken already keep their data."""
    if state.resets_left == 0:
        return state, REFUSED
    after, outcome = parts.mirror.step(mirror_config(config), state.mirror, op)
    return state._replace(mirror=after, resets_left=state.resets_left - 1), outcome


def clear_store(parts: Parts, config: Config, state: State, op: Clear) -> Result:
    """X-4: P0 forgets what it has stored; handles that are out stay good, or are known to be stale."""
    if state.resets_left == 0:
        return state, REFUSED
    after, outcome = parts.store.step(store_config(config), state.store, op)
    return state._replace(store=after, resets_left=state.resets_left - 1), outcome


def end(parts: Parts, config: Config, state: State, op: End) -> Result:
    """P0 hears of the end of a request."""
    after, outcome = parts.store.step(store_config(config), state.store, op)
    return state._replace(store=after), outcome


def reset_prefix_cache(parts: Parts, config: Config, state: State, op: ResetPrefixCache) -> Result:
    """X-4: the workers need not know: a block that is not found is written before it is read."""
    if state.resets_left == 0:
        return state, REFUSED
    after, outcome = parts.scheduler.step(scheduler_config(config), state.scheduler, op)
    return state._replace(scheduler=after, resets_left=state.resets_left - 1), outcome


def reset_running(parts: Parts, config: Config, state: State, op: ResetRunning) -> Result:
    """X-4: steps in flight are executed, and their output is dropped."""
    if state.resets_left == 0:
        return state, REFUSED
    after, outcome = parts.scheduler.step(scheduler_config(config), state.scheduler, op)
    return forgotten(config, state._replace(scheduler=after, resets_left=state.resets_left - 1)), outcome


def reset_encoder_cache(parts: Parts, config: Config, state: State, op: ResetEncoderCache) -> Result:
    """X-4: the workers are told in the order of their steps, so what is in flight still finds what it relies on."""
    if state.resets_left == 0:
        return state, REFUSED
    after, outcome = parts.scheduler.step(scheduler_config(config), state.scheduler, op)
    state = state._replace(scheduler=after, resets_left=state.resets_left - 1)
    return (issued(config, state, Step(clears=1), parts.takes_reset) if outcome.code is Code.DONE else state), outcome


def following(parts: Parts) -> Transitions[Config, State]:
    """The transitions of an engine that is made of these parts: a retry only if its mirror has one."""
    retries: Transitions[Config, State] = {Retry: partial(step_mirror, parts)}
    transfers: Transitions[Config, State] = {
        FinishLoad: partial(transferred, parts),
        FailLoad: partial(transferred, parts),
        FailStep: partial(fail_step, parts),
        FinishSend: partial(transferred, parts),
    }
    return {
        SubmitRequest: partial(submit_request, parts),
        Deliver: partial(deliver, parts),
        Receive: partial(receive, parts),
        Transmit: partial(step_mirror, parts),
        Expire: partial(step_mirror, parts),
        Join: partial(step_mirror, parts),
        **(retries if Retry in parts.mirror.transitions else {}),
        DeliverRequest: partial(deliver_request, parts),
        End: partial(end, parts),
        Clear: partial(clear_store, parts),
        Cancel: partial(cancel, parts),
        DeliverAbort: partial(deliver_abort, parts),
        Compile: partial(compiled, parts),
        Schedule: partial(schedule, parts),
        Execute: partial(execute, parts),
        Update: partial(update, parts),
        **{kind: each for kind, each in transfers.items() if kind in parts.scheduler.transitions},
        ResetReceiver: partial(reset_receiver, parts),
        ResetPrefixCache: partial(reset_prefix_cache, parts),
        ResetRunning: partial(reset_running, parts),
        ResetEncoderCache: partial(reset_encoder_cache, parts),
    }
