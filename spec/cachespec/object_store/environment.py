"""Which operations a scope offers in a state.

P0 renders up to `concurrent` requests at a time. It looks all items up, touches them (with `touches`), walks
them, each by `GetCached` if the store has it and by `Put` otherwise, and sends. If a walk was given up, P0 releases the
items that are still protected. Normatively P0 walks one request at a time. In the eras walks overlap, and each releases
at its end. All else may happen at any time when it makes sense.
"""

from __future__ import annotations

from collections.abc import Iterable

from cachespec.kernel import Operation
from cachespec.object_store.configuration import Config, Request, content_of, positions
from cachespec.object_store.operations import (
    Abort,
    Acknowledge,
    Clear,
    Copy,
    Die,
    End,
    Finish,
    Forge,
    FreeUnused,
    GetCached,
    Look,
    Preempt,
    Put,
    Read,
    ReaderTouch,
    Reject,
    Release,
    Render,
    Repeat,
    Restart,
    Resume,
    Schedule,
    Send,
    Touch,
)
from cachespec.object_store.operations import Store as StorePart
from cachespec.object_store.state import (
    ABSENT,
    COPIED,
    ENDED,
    IDLE,
    PREEMPTED,
    READING,
    RENDERING,
    RUNNING,
    WAITING,
    Store,
)
from cachespec.object_store.writer import may_begin, may_walk, unused, walker


def calls(config: Config, store: Store) -> Iterable[Operation]:
    """The operations, in a fixed order; P0 walks one request at a time."""
    return calls_with(config, store, apart=True)


def calls_of_overlapping_walks(config: Config, store: Store) -> Iterable[Operation]:
    """The same, if P0 may walk several requests at a time."""
    return calls_with(config, store, apart=False)


def calls_with(config: Config, store: Store, *, apart: bool) -> Iterable[Operation]:
    """The operations; walks are kept `apart`, or overlap."""
    for request in range(len(config.requests)):
        yield from of_request(config, store, request, apart=apart)
    for reader in range(config.readers):
        yield from of_reader(config, store, reader)
    if store.writing:
        yield StorePart(0)
        yield StorePart(1)
    elif config.reclaims:
        yield FreeUnused()
    if config.clears and not store.writing:
        yield Clear()
    if config.restarts:
        yield Restart()
    between = walker(config, store) < 0 or not (apart or config.concurrent == 1)
    if store.protected.length > 0 and between:
        yield Release()


def of_request(config: Config, store: Store, request: Request, *, apart: bool) -> Iterable[Operation]:
    """What may happen to this request where it is."""
    phase = store.requests[request].phase
    if phase == ABSENT and unused(store, request):
        yield from of_nobody(config, store, request)
    elif phase == RENDERING and not store.writing:
        yield from of_rendering(config, store, request, apart=apart)
    elif phase == WAITING:
        yield from (Schedule(request, covered) for covered in range(len(config.requests[request]) * config.covered + 1))
    elif phase == RUNNING:
        yield Finish(request)
        if config.repeats and not has_copies(store, request):
            yield Repeat(request)
        if config.preempts:
            yield Preempt(request)
    elif phase == PREEMPTED:
        yield Resume(request)
    elif phase == ENDED:
        yield End(request)
    if config.aborts and phase in (WAITING, RUNNING, PREEMPTED):
        yield Abort(request)


def of_nobody(config: Config, store: Store, request: Request) -> Iterable[Operation]:
    """Requests arrive; and some have been made up."""
    if may_begin(config, store) and store.renders_left != 0:
        yield Render(request)
    if config.forges:
        first = content_of(config, request, 0)
        yield from (Forge(request, content) for content in range(len(config.payloads)) if content != first)


def has_copies(store: Store, request: Request) -> bool:
    """Whether a worker has a copy of the request's message."""
    return any(
        delivery.request == request and delivery.again == 2 for worker in store.workers for delivery in worker.inbox
    )


def of_rendering(config: Config, store: Store, request: Request, *, apart: bool) -> Iterable[Operation]:
    """The next item to touch, or to walk; or the end of the walk."""
    journey, items = store.requests[request], len(config.requests[request])
    if apart and journey.walked < items and not may_walk(config, store, request):
        pass
    elif config.touches and journey.touched < items:
        yield Touch(request, journey.touched)
    elif journey.walked < items:
        listed = store.listed.has(content_of(config, request, journey.walked))
        yield GetCached(request, journey.walked) if listed else Put(request, journey.walked)
    else:
        yield Send(request)
    if config.rejects:
        yield Reject(request)


def of_reader(config: Config, store: Store, reader: int) -> Iterable[Operation]:
    """The next thing that this worker does, and that it may die."""
    worker = store.workers[reader]
    if config.deaths:
        yield Die(reader)
    if not worker.inbox:
        return
    if worker.inbox[0].task != READING:
        yield ReaderTouch(reader)
    elif not config.stepwise:
        yield Read(reader)
    elif worker.doing == IDLE:
        yield Look(reader)
    elif worker.doing == COPIED:
        yield Acknowledge(reader)
    else:
        yield Copy(reader)


def unknown(config: Config, operation: Operation) -> str | None:
    """What an operation names that the configuration does not have."""
    request = getattr(operation, "request", 0)
    position = getattr(operation, "position", None)
    if position is not None and position not in positions(config, request):
        return f"request {request} has no item {position}"
    if isinstance(operation, Schedule) and operation.covered > len(config.requests[request]):
        return f"request {request} has {len(config.requests[request])} items, of which {operation.covered} are covered"
    if isinstance(operation, StorePart) and operation.part > 1:
        return f"a chunk has a header (0) and data (1), and no part {operation.part}"
    return None
