"""What must hold of every state of an engine: across its parts, and of each part as on its own.

What the parts owe in each of their steps is checked where they are on their own; `steps` has what goes between them.
"""

from __future__ import annotations

from cachespec import mirror, object_store, scheduler
from cachespec.engine.configuration import Config, contents_of, mirror_config, scheduler_config, store_config
from cachespec.engine.state import View, WorkerView, resident, unreported
from cachespec.engine.worker import DIED, DROPPED_TWICE, NO_BYTES, NO_ITEM, NO_TENSOR
from cachespec.kernel import Progress, Safety, lifted, lifted_progress
from cachespec.object_store.state import ABSENT, ENDED, PREEMPTED, RUNNING, WAITING
from cachespec.scheduler.configuration import is_turn, items_of
from cachespec.scheduler.connector_properties import CONNECTED
from cachespec.scheduler.properties import POOLING
from cachespec.scheduler.state import ABANDONED, LOADING
from cachespec.scheduler.view import in_phase
from cachespec.scheduler.worker import UNWRITTEN, holds
from cachespec.scheduler.worker_properties import WORKER_SAFETY, is_crossed, last_tokens, may_be_gone

CONFIGURED = ("SHM-11", "SHM-10/visible", "SHM-10/parts", "SHM-7/concurrent")
"""Properties of the object store that speak of what an engine's configuration does not vary."""

OF_OTHERS = tuple(rule.name for rule in (*WORKER_SAFETY, *CONNECTED, *POOLING))
"""Properties of the scheduler's worker, which executes each plan at once: here the engine's own workers are judged.

And those of an encoder connector and of pooling models, which no engine has.
"""


def nothing_was_found(view: View, finding: int) -> bool:
    return all(worker.finding != finding for worker in view.workers)


def settled_outputs_are_those_counted(config: Config, view: View) -> bool:
    gone = may_be_gone(scheduler_config(config))
    counted = {*resident(view.scheduler.encoder), *unreported(view.scheduler.encoder)}
    settled = [set(worker.settled_tensors) for worker in view.workers]
    return all(outputs == counted or (gone and outputs <= counted) for outputs in settled)


def settled_bytes_are_those_written(config: Config, view: View) -> bool:
    return all(bytes_are_there(config, worker, view.scheduler.kv.registered) for worker in view.workers)


def bytes_are_there(config: Config, worker: WorkerView, registered: tuple[tuple[int, int], ...]) -> bool:
    inside = scheduler_config(config)
    memory, ends = dict(worker.settled_memory), dict(last_tokens(inside))
    return all(holds(inside, memory.get(block, UNWRITTEN), ends[content]) for block, content in registered)


def settled_cross_attention_is_written(config: Config, view: View) -> bool:
    inside = scheduler_config(config)
    return all(is_crossed(inside, view.scheduler, worker.settled_crossed) for worker in view.workers)


def is_about_to_read_cross_attention(config: Config, view: View) -> bool:
    """A worker has still to do a step that reads the cross-attention KV of an item, and does not write it."""
    inside = scheduler_config(config)
    return inside.encoder_decoder == 1 and any(
        chunk.start > 0 and items_of(inside, chunk.request) != ()
        for worker in view.workers
        for step in worker.inbox
        for chunk in step.chunks
    )


def received_were_sent(config: Config, view: View) -> bool:
    """The turns of an aborted session are gone, whether they were sent or not."""
    inside, received = scheduler_config(config), set(view.received)
    at_scheduler = {*view.scheduler.waiting, *view.scheduler.running, *view.scheduler.queued, *view.scheduler.gone}
    never_sent = {turn for turn in set(view.scheduler.gone) - received if is_turn(inside, turn)}
    return received <= set(view.submitted) and {*at_scheduler, *view.rejected} - never_sent == received


def ledgers_agree(config: Config, view: View) -> bool:
    return len(view.unconfirmed) == len(view.mirror.links) and all(
        link.kept == tuple(contents_of(config, request) for request in requests)
        for requests, link in zip(view.unconfirmed, view.mirror.links, strict=False)
    )


def settled_memory_is_that_assumed(config: Config, view: View) -> bool:
    return all(memory_is_that_assumed(config, view, worker) for worker in view.workers)


def memory_is_that_assumed(config: Config, view: View, worker: WorkerView) -> bool:
    """The scheduler's own worker executes each plan as soon as it is made.

    A block that a load has still to write may hold anything of an earlier request.
    """
    kv = view.scheduler.kv
    loading = in_phase(view.scheduler, (LOADING, ABANDONED))
    held = {block for request, blocks in kv.tables if request not in loading for block in blocks}
    used = held | {block for block, _ in kv.registered}
    settled, assumed = dict(worker.settled_memory), dict(view.scheduler.worker.memory)
    return all(settled.get(block, UNWRITTEN) == assumed.get(block, UNWRITTEN) for block in used)


def store_follows_the_scheduler(config: Config, view: View) -> bool:
    """The store is asked for nothing where there is none."""
    over = {*view.scheduler.gone, *view.rejected}
    return config.shared_memory == 0 or all(
        (request in view.scheduler.running) == (view.store.phases[request] == RUNNING)
        and (request in view.scheduler.waiting) == (view.store.phases[request] in (WAITING, PREEMPTED))
        and (request in over) == (view.store.phases[request] in (ENDED, ABSENT))
        for request in view.received
    )


def somebody_waits(config: Config, view: View) -> bool:
    answered = {*view.scheduler.gone, *view.rejected, *view.failed}
    return any(request not in answered for request in view.submitted) or bool(view.cancelled)


def drops_are_on_the_way(view: View) -> bool:
    return any(step.drops for worker in view.workers for step in worker.inbox)


OWN: tuple[Safety[Config, View], ...] = (
    Safety(
        "X-1",
        "every encoder output that a worker is told to drop is in its memory, once",
        lambda c, v: nothing_was_found(v, DROPPED_TWICE),
        lambda c, v: drops_are_on_the_way(v),
    ),
    Safety(
        "X-1/agreement",
        "a worker with an empty inbox has exactly the encoder outputs that are resident or await a report; in an "
        "encoder-decoder model it may lack some",
        settled_outputs_are_those_counted,
        lambda c, v: drops_are_on_the_way(v) and bool(v.scheduler.encoder.entries),
    ),
    Safety(
        "ENC-8",
        "a worker has every encoder output that a step gathers, and every cross-attention KV that it reads",
        lambda c, v: nothing_was_found(v, NO_TENSOR),
        lambda c, v: any(step.gathers and not step.encodes for worker in v.workers for step in worker.inbox),
    ),
    Safety(
        "KV-7/read",
        "every block that a worker reads has the content that the scheduler assumes",
        lambda c, v: nothing_was_found(v, NO_BYTES),
        lambda c, v: any(chunk.start > 0 for worker in v.workers for step in worker.inbox for chunk in step.chunks),
    ),
    Safety(
        "KV-7/crossed",
        "a worker with an empty inbox has the cross-attention KV of all items of every running request with a token",
        settled_cross_attention_is_written,
        is_about_to_read_cross_attention,
    ),
    Safety(
        "KV-7/found",
        "a worker with an empty inbox has, in every findable block, the KV of the content it is registered for",
        settled_bytes_are_those_written,
        lambda c, v: bool(v.scheduler.kv.registered) and any(worker.inbox for worker in v.workers),
    ),
    Safety(
        "KV-7/settled",
        "a worker with an empty inbox has, in every block in use and not being loaded, exactly the KV that the "
        "scheduler assumes there",
        settled_memory_is_that_assumed,
        lambda c, v: any(worker.inbox and worker.settled_memory for worker in v.workers),
    ),
    Safety(
        "SHM-10/used",
        "a worker reads every item of a running request, each with its right content, and no handle ends a worker",
        lambda c, v: nothing_was_found(v, NO_ITEM) and nothing_was_found(v, DIED),
        lambda c, v: c.shared_memory == 1 and any(step.encodes for worker in v.workers for step in worker.inbox),
    ),
    Safety(
        "SHM-8/heard",
        "the object store knows whether each request at P1 is waiting, running or finished",
        store_follows_the_scheduler,
        lambda c, v: c.shared_memory == 1 and PREEMPTED in v.store.phases and bool(v.scheduler.gone),
    ),
    Safety(
        "X-3",
        "P1 knows exactly the requests that it has received, each once",
        received_were_sent,
        lambda c, v: bool(v.received) and len(v.submitted) > len(v.received),
    ),
    Safety(
        "X-3/ledger",
        "a frontend keeps exactly the requests whose messages no answer has confirmed, in the order of their messages",
        ledgers_agree,
        lambda c, v: any(len(requests) > 1 for requests in v.unconfirmed),
    ),
)

SAFETY: tuple[Safety[Config, View], ...] = (
    *OWN,
    *lifted(mirror.COMPONENT.safety, config=mirror_config, view=lambda view: view.mirror),
    *lifted(
        (rule for rule in object_store.COMPONENT.safety if rule.name not in CONFIGURED),
        config=store_config,
        view=lambda view: view.store,
    ),
    *lifted(
        (rule for rule in scheduler.COMPONENT.safety if rule.name not in OF_OTHERS),
        config=scheduler_config,
        view=lambda view: view.scheduler,
    ),
)

PROGRESS: tuple[Progress[Config, View], ...] = (
    Progress("X-3/answered", "every request that was sent is eventually finished, rejected or aborted", somebody_waits),
    *lifted_progress(mirror.COMPONENT.progress, config=mirror_config, view=lambda view: view.mirror),
    *lifted_progress(
        (rule for rule in object_store.COMPONENT.progress if rule.name not in CONFIGURED),
        config=store_config,
        view=lambda view: view.store,
    ),
    *lifted_progress(scheduler.COMPONENT.progress, config=scheduler_config, view=lambda view: view.scheduler),
)
