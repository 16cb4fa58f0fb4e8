"""The life of a request from P0 over P1 to the workers, and how P0 hears of its end: the environment of the store.

A handle lives no longer than its request. P0 hears of the end of every request anyway, so every handle is acknowledged
or revoked, whatever becomes of the request: rejected, aborted before a worker saw it, or lost with a worker (C-SHM-4).
"""

from __future__ import annotations

from cachespec.kernel import ABSENT as NOT_THERE
from cachespec.kernel import DONE, REFUSED, Outcome
from cachespec.object_store.accounting import settle
from cachespec.object_store.configuration import NOTHING, Config, Request, positions
from cachespec.object_store.operations import (
    Abort,
    Die,
    End,
    Finish,
    Forge,
    Preempt,
    Reject,
    Repeat,
    Restart,
    Resume,
    Schedule,
    Send,
)
from cachespec.object_store.state import (
    ABSENT,
    ENDED,
    IDLE,
    PREEMPTED,
    READING,
    RENDERING,
    RUNNING,
    WAITING,
    Delivery,
    Handle,
    Journey,
    Store,
    Worker,
    with_request,
    with_worker,
)
from cachespec.object_store.writer import has_to_do, without_oldest

Result = tuple[Store, Outcome]


def moved(store: Store, request: Request, expected: tuple[int, ...], phase: int) -> Result:
    """The request goes on to this phase, if it is in one of those that are expected."""
    journey = store.requests[request]
    if journey.phase not in expected:
        return store, NOT_THERE
    return with_request(store, request, journey._replace(phase=phase)), DONE


# At P0 --------------------------------------------------------------------------------------------------------------


def send(config: Config, store: Store, op: Send) -> Result:
    """Every item was walked, and every store is visible."""
    journey = store.requests[op.request]
    complete = journey.phase == RENDERING and journey.walked == len(config.requests[op.request])
    if not complete or store.writing != ():
        return store, NOT_THERE
    return with_request(store, op.request, Journey(WAITING, handles=journey.handles)), DONE


def reject(config: Config, store: Store, op: Reject) -> Result:
    """SHM-8, X-3: its issued handles are revoked: no worker has seen them (C-SHM-4, C-MIR-4)."""
    if store.requests[op.request].phase != RENDERING or store.writing != ():
        return store, NOT_THERE
    return revoked(config, store, op.request), DONE


def revoked(config: Config, store: Store, request: Request) -> Store:
    """SHM-8: no handle of the request counts any more. A worker that still reads one finds out by itself."""
    for position in positions(config, request):
        store = settle(store, (request, position))
    return gone(config, store, request, revoking=1)


def gone(config: Config, store: Store, request: Request, revoking: int) -> Store:
    """The request is nowhere; its name is free when no worker has anything to do for it."""
    store = with_request(store, request, Journey(ABSENT))
    for reader in range(config.readers):
        worker = without_cells(config, store.workers[reader], request)
        store = with_worker(store, reader, told(worker, request) if revoking == 1 else worker)
    return store


def without_cells(config: Config, worker: Worker, request: Request) -> Worker:
    """What the worker acknowledged for the request plays no part any more."""
    for position in positions(config, request):
        worker = worker._replace(acknowledged=worker.acknowledged.remove((request, position)))
    return worker


def told(worker: Worker, request: Request) -> Worker:
    """History: the handles of the request that it was sent are revoked."""
    return worker._replace(inbox=tuple(fallen(delivery, request) for delivery in worker.inbox))


def fallen(delivery: Delivery, request: Request) -> Delivery:
    """History: the handle was revoked if it is one of this request."""
    if delivery.request != request:
        return delivery
    return delivery._replace(handle=delivery.handle._replace(standing=0))


def forge(config: Config, store: Store, op: Forge) -> Result:
    """SHM-10: P0 knows every handle that is out, and lets no other pass (C-SHM-9)."""
    return store, REFUSED


# At P1 --------------------------------------------------------------------------------------------------------------


def schedule(config: Config, store: Store, op: Schedule) -> Result:
    """SHM-8: a handle is sent to every worker even if its item is not needed, for the workers acknowledge it (C-SHM-5).

    An item that was sent raw is no business of the store.
    """
    store, outcome = moved(store, op.request, (WAITING,), RUNNING)
    return (delivered(config, store, op.request, 0), outcome) if outcome == DONE else (store, outcome)


def delivered(config: Config, store: Store, request: Request, again: int) -> Store:
    """Every worker has each handle of the request in its inbox, in the order of the items."""
    for reader in range(config.readers):
        worker = store.workers[reader]
        for position in positions(config, request):
            handle = store.requests[request].handles[position]
            if handle.content >= 0:
                worker = sent(worker, Delivery(request, position, handle, READING, again))
        store = with_worker(store, reader, worker)
    return store


def sent(worker: Worker, delivery: Delivery) -> Worker:
    """One thing more to do."""
    return worker._replace(inbox=(*worker.inbox, delivery))


def repeat(config: Config, store: Store, op: Repeat) -> Result:
    """SHM-3: a worker reads and acknowledges each handle once, so a copy of the message does no harm."""
    if store.requests[op.request].phase != RUNNING:
        return store, NOT_THERE
    return delivered(config, store, op.request, 2), DONE


def preempt(config: Config, store: Store, op: Preempt) -> Result:
    """It keeps its handles, and they stay what they are. What was sent for it was executed before."""
    if has_to_do(store, op.request):
        return store, NOT_THERE
    return moved(store, op.request, (RUNNING,), PREEMPTED)


def resume(config: Config, store: Store, op: Resume) -> Result:
    """SHM-3: every worker is told that it had these items before (C-SHM-6)."""
    store, outcome = moved(store, op.request, (PREEMPTED,), RUNNING)
    return (delivered(config, store, op.request, 1), outcome) if outcome == DONE else (store, outcome)


def finish(config: Config, store: Store, op: Finish) -> Result:
    """A request finishes when every worker has executed it, so none has anything left to do for it."""
    if has_to_do(store, op.request):
        return store, NOT_THERE
    return moved(store, op.request, (RUNNING,), ENDED)


def abort(config: Config, store: Store, op: Abort) -> Result:
    """At any point: workers may never have seen it, or be in the middle of reading."""
    return moved(store, op.request, (WAITING, RUNNING, PREEMPTED), ENDED)


def end(config: Config, store: Store, op: End) -> Result:
    """SHM-8, X-3: what is still out of its handles is revoked (C-SHM-4)."""
    if store.requests[op.request].phase != ENDED:
        return store, NOT_THERE
    return revoked(config, store, op.request), DONE


# Faults -------------------------------------------------------------------------------------------------------------


def die(config: Config, store: Store, op: Die) -> Result:
    """What the worker was sent and had copied is lost; P1 ends every request that had been sent to the workers."""
    store = with_worker(store, op.reader, lost(store.workers[op.reader]))
    for request in range(len(config.requests)):
        store, _ = moved(store, request, (RUNNING, PREEMPTED), ENDED)
    return store, DONE


def lost(worker: Worker) -> Worker:
    """The one that starts in its place; the cell is in the shared memory and stays."""
    return worker._replace(inbox=(), doing=IDLE, copied=NOTHING)


def restart(config: Config, store: Store, op: Restart) -> Result:
    """SHM-5: a new epoch. Handles of the former one are revoked; whoever reads them looks before and after copying."""
    for reader in range(config.readers):
        store = with_worker(store, reader, disowned(store.workers[reader]))
    for request in range(len(config.requests)):
        store = with_request(store, request, orphaned(store.requests[request]))
        for position in positions(config, request):
            store = settle(store, (request, position))
    while holds_any(store):
        store = without_oldest(config, store)
    return store._replace(writing=(), epoch=store.epoch + 1), DONE


def holds_any(store: Store) -> bool:
    """The test of the dropping loop: the new P0 knows of no chunk. Its measure is how many chunks the ring has."""
    return store.ring.starts.has(store.ring.id_start)


def disowned(worker: Worker) -> Worker:
    """History: no handle that it was sent stands any more."""
    return worker._replace(inbox=tuple(unstanding_delivery(delivery) for delivery in worker.inbox))


def unstanding_delivery(delivery: Delivery) -> Delivery:
    """History: the handle was revoked."""
    return delivery._replace(handle=unstanding(delivery.handle))


def unstanding(handle: Handle) -> Handle:
    """History: the handle was revoked."""
    return handle._replace(standing=0)


def orphaned(journey: Journey) -> Journey:
    """What P0 rendered is lost with it; what P1 has goes on, with handles that do not stand any more."""
    if journey.phase == RENDERING:
        return Journey(ABSENT)
    return journey._replace(handles=tuple(unstanding(handle) for handle in journey.handles))
