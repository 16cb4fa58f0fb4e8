"""What must hold of every step of an engine: X-4, and what goes from one part to the next (X-1, X-3)."""

from __future__ import annotations

from cachespec.engine.configuration import Config, scheduler_config
from cachespec.engine.operations import Cancel, DeliverAbort, Execute, SubmitRequest
from cachespec.engine.state import View, WorkerView
from cachespec.engine.worker import SOUND
from cachespec.engine.worker import Step as Told
from cachespec.kernel import Code, Operation, Outcome, Step
from cachespec.mirror.faults import ResetReceiver
from cachespec.object_store.operations import Clear
from cachespec.scheduler.operations import (
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
from cachespec.scheduler.state import ABANDONED, LOADED, LOADING, LOADS_IN_STEP, SENDING
from cachespec.scheduler.transfer_properties import hit_tokens
from cachespec.scheduler.view import in_phase
from cachespec.scheduler.worker import UNWRITTEN, Chunk, holds

RESETS = (ResetReceiver, Clear, ResetPrefixCache, ResetEncoderCache)


def can_find(view: View, reset: Operation) -> bool:
    """Whether anything can be found in the cache that this operation resets."""
    if isinstance(reset, ResetReceiver):
        return any(link.held_order for link in view.mirror.links)
    if isinstance(reset, Clear):
        return view.store.listed != ()
    if isinstance(reset, ResetPrefixCache):
        return view.scheduler.kv.registered != ()
    return view.scheduler.encoder.entries != ()


def others_are_alone(before: View, reset: Operation, after: View) -> bool:
    """Everything stays but the cache that is reset, and the steps that workers have still to do."""
    was, now = before.scheduler, after.scheduler
    account = was._replace(kv=now.kv, encoder=now.encoder, worker=now.worker) == now
    mirror = isinstance(reset, ResetReceiver) or before.mirror == after.mirror
    store = isinstance(reset, Clear) or before.store == after.store
    blocks = isinstance(reset, ResetPrefixCache) or was.kv == now.kv
    items = isinstance(reset, ResetEncoderCache) or was.encoder == now.encoder
    caches = mirror and store and blocks and items
    return account and caches and requests_of(before) == requests_of(after) and at_workers(before) == at_workers(after)


def requests_of(view: View) -> tuple[tuple[int, ...], ...]:
    """Where requests are outside of the scheduler."""
    return (view.submitted, view.received, view.rejected, view.cancelled)


def at_workers(view: View) -> tuple[object, ...]:
    """What the workers hold, without the steps that they have still to do."""
    return tuple((worker.tensors, worker.memory, worker.finding) for worker in view.workers)


def reset_is_alone(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, RESETS) or outcome.code is not Code.DONE:
        return True
    return not can_find(after, op) and others_are_alone(before, op, after)


def empties_beside_a_step(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A reset that has something to forget, while a worker has still to do a step."""
    done = isinstance(op, RESETS) and outcome.code is Code.DONE
    return done and can_find(before, op) and any(worker.inbox for worker in before.workers)


def resets_are_counted(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return after.resets_left == before.resets_left - isinstance(op, (*RESETS, ResetRunning))


def clients_are_heard(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """One request is sent, or left, or the scheduler is told that it was left; and nothing else of the kind happens."""
    sent, left = set(before.submitted), set(before.cancelled)
    if outcome.code in (Code.REFUSED, Code.PRESENT, Code.ABSENT) and not isinstance(op, DeliverAbort):
        return (sent, left) == (set(after.submitted), set(after.cancelled))
    if isinstance(op, SubmitRequest):
        sent |= {op.request}
    if isinstance(op, Cancel):
        left |= {op.request}
    if isinstance(op, DeliverAbort):
        left -= {op.request}
    return (sent, left) == (set(after.submitted), set(after.cancelled))


def the_left_are_gone(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return not isinstance(op, DeliverAbort) or op.request in (*after.scheduler.gone, *after.rejected)


def steps_are_in_turn(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A plan comes last, a reset does so or is done at once; a worker takes the first, and only the one that is to.

    Memory of other workers only shrinks: free blocks are forgotten, and so is the KV of rejected drafts. A load that
    ends brings KV to all of them, into the blocks of its request.
    """
    loaded = loaded_blocks(before, op)
    return len(before.workers) == len(after.workers) and all(
        now.inbox[: len(was.inbox)] == was.inbox
        and len(now.inbox) - len(was.inbox) in added(op, outcome)
        and (isinstance(op, (Schedule, ResetEncoderCache)) or now.tensors == was.tensors)
        and nothing_is_written(config, was, now, loaded)
        if not (isinstance(op, Execute) and op.worker == name)
        else now.inbox == was.inbox[1:]
        for name, (was, now) in enumerate(zip(before.workers, after.workers, strict=True))
    )


def missing_data_is_reported(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Execute) or not before.workers[op.worker].inbox:
        return True
    return outcome.code is (Code.DONE if after.workers[op.worker].finding == SOUND else Code.FAILED)


def loaded_blocks(before: View, op: Operation) -> tuple[int, ...]:
    """The blocks that a load which ends may have written."""
    if not isinstance(op, FinishLoad | FailLoad):
        return ()
    return dict(before.scheduler.kv.tables).get(op.request, ())


def nothing_is_written(config: Config, was: WorkerView, now: WorkerView, loaded: tuple[int, ...]) -> bool:
    """What a worker has of a block now, it had before, unless the block was loaded."""
    memory = dict(was.memory)
    return all(
        block in loaded or holds(scheduler_config(config), memory.get(block, UNWRITTEN), token)
        for block, token in now.memory
    )


def added(op: Operation, outcome: Outcome) -> tuple[int, ...]:
    """How many steps each worker may be told."""
    if isinstance(op, Schedule):
        return (int(outcome.code is Code.DONE),)
    return (0, 1) if isinstance(op, ResetEncoderCache) else (0,)


def steps_are_their_plans(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Schedule) or outcome.code is not Code.DONE:
        return True
    size, plan = scheduler_config(config).block_size, after.scheduler.plans[-1]
    parts = tuple((part.request, part.start, part.start + part.tokens) for part in plan.scheduled)
    return all(
        tuple((chunk.request, chunk.start, chunk.end) for chunk in worker.inbox[-1].chunks) == parts
        and all(len(chunk.blocks) * size >= chunk.end for chunk in worker.inbox[-1].chunks)
        for worker in after.workers
    )


def loads_are_those_of_admissions(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """What a load has brought before the admission is not loaded again."""
    if not isinstance(op, Schedule) or outcome.code is not Code.DONE:
        return True
    scheduled = after.scheduler.plans[-1].scheduled
    loaded = in_phase(before.scheduler, (LOADED,))
    admitted = (part for part in scheduled if part.request in before.scheduler.waiting and part.request not in loaded)
    expected = tuple(
        (part.request, hit_tokens(after.scheduler, part.request), part.start)
        for part in admitted
        if part.start > hit_tokens(after.scheduler, part.request)
    )
    return all(
        tuple((load.request, load.start, load.end) for load in worker.inbox[-1].loads) == expected
        for worker in after.workers
    )


def transfers_are_heard_of(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A step whose load fails is the oldest one, and still counts."""
    if outcome.code is Code.DONE:
        return True
    inside = before.scheduler
    if isinstance(op, FinishLoad):
        return op.request not in in_phase(inside, (LOADING, ABANDONED))
    if isinstance(op, FailLoad):
        return op.request not in in_phase(inside, (LOADING,))
    if isinstance(op, FinishSend):
        return op.request not in in_phase(inside, (SENDING,))
    return not isinstance(op, FailStep) or not (
        op.request in in_phase(inside, (LOADS_IN_STEP,))
        and any(part.request == op.request and not part.void for plan in inside.plans[:1] for part in plan.scheduled)
    )


def unused_slots_are_forgotten(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """What a freed block still holds is not taken for KV of the request that gets the block next.

    A reset of the prefix cache reaches no worker (X-4).
    """
    return isinstance(op, ResetPrefixCache) or all(
        unused_blocks(after, now) <= unused_blocks(before, was) and unused_crossed(after, now) == set()
        for was, now in zip(before.workers, after.workers, strict=True)
    )


def unused_blocks(view: View, worker: WorkerView) -> set[int]:
    """Blocks with KV that are free, that nothing can find, and that no issued step names."""
    kv = view.scheduler.kv
    used = {block for block, _ in (*kv.registered, *kv.references)}
    issued = {block for chunk in issued_chunks(worker) for block in chunk.blocks}
    return {block for block, _ in worker.memory} - used - issued


def unused_crossed(view: View, worker: WorkerView) -> set[int]:
    """Requests with cross-attention KV that do not run, and that no issued step names."""
    running = {request for request, _ in view.scheduler.computed}
    issued = {chunk.request for chunk in issued_chunks(worker)}
    return {request for request, _ in worker.settled_crossed} - running - issued


def issued_chunks(worker: WorkerView) -> tuple[Chunk, ...]:
    """What the worker has still to load and to compute."""
    return tuple(chunk for step in worker.inbox for chunk in (*step.loads, *step.chunks))


def fills_in_part(config: Config, step: Told) -> bool:
    """A chunk of the step ends within a block."""
    return any(chunk.end % scheduler_config(config).block_size > 0 for chunk in step.chunks)


def output_was_computed(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Every worker has executed the oldest plan: it has others to do, at most all the rest."""
    plans = len(before.scheduler.plans)
    return not isinstance(op, Update | FailStep) or all(
        sum(step.clears == 0 for step in worker.inbox) < plans for worker in before.workers
    )


STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "X-4",
        "a reset empties its own cache and leaves other caches, requests, plans and worker memory unchanged",
        reset_is_alone,
        empties_beside_a_step,
    ),
    Step(
        "X-4/counted",
        "each reset uses up exactly one of the permitted resets, and no other operation does",
        resets_are_counted,
        empties_beside_a_step,
    ),
    Step(
        "X-3/heard",
        "a request counts as sent once its client sends it, and as cancelled until the scheduler learns of it",
        clients_are_heard,
        lambda c, b, op, o, a: isinstance(op, DeliverAbort) and bool(a.cancelled),
    ),
    Step(
        "X-3/told",
        "a cancelled request is finished as soon as the scheduler is told",
        the_left_are_gone,
        lambda c, b, op, o, a: isinstance(op, DeliverAbort) and op.request in b.scheduler.running,
    ),
    Step(
        "X-1/turn",
        "workers receive every plan and execute them one at a time, in order",
        steps_are_in_turn,
        lambda c, b, op, o, a: isinstance(op, Execute) and len(b.workers[op.worker].inbox) > 1,
    ),
    Step(
        "X-1/answered",
        "a worker answers a step with success if and only if it has never missed data",
        missing_data_is_reported,
        lambda c, b, op, o, a: isinstance(op, Execute) and o.code is Code.DONE,
    ),
    Step(
        "KV-7/told",
        "a step computes exactly the tokens of its plan's chunks, and has a block for each of them",
        steps_are_their_plans,
        lambda c, b, op, o, a: (
            isinstance(op, Schedule)
            and o.code is Code.DONE
            and any(fills_in_part(c, worker.inbox[-1]) for worker in a.workers)
        ),
    ),
    Step(
        "KV-7/loads",
        "a step loads, for each request that its plan admits, exactly the tokens between its prefix hit and its chunk",
        loads_are_those_of_admissions,
        lambda c, b, op, o, a: (
            isinstance(op, Schedule) and any(step.loads for worker in a.workers for step in worker.inbox[-1:])
        ),
    ),
    Step(
        "KV-7/forgotten",
        "except for a prefix cache reset, no operation leaves KV in a block that it frees and that nothing can find, "
        "or cross-attention KV of a request that it stops",
        unused_slots_are_forgotten,
        lambda c, b, op, o, a: (
            isinstance(op, Update)
            and any(len(now.memory) < len(was.memory) for was, now in zip(b.workers, a.workers, strict=True))
        ),
    ),
    Step(
        "SCH-14/heard",
        "the scheduler hears of every transfer that ends or fails",
        transfers_are_heard_of,
        lambda c, b, op, o, a: isinstance(op, FailStep) and o.code is Code.DONE,
    ),
    Step(
        "X-1/output",
        "the output of a plan is taken only after every worker has executed it",
        output_was_computed,
        lambda c, b, op, o, a: isinstance(op, Update) and any(worker.inbox for worker in b.workers),
    ),
)
