"""Which operations a scope offers in a state.

P0 renders one request at a time: it touches the items (where the scope has `touches`), walks them, each by `GetCached`
where it is in the store and by `Put` otherwise, and sends. If a walk was given up, it releases what is still protected.
All else may happen at any time when it makes sense.
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
from cachespec.object_store.writer import idle, unused


def calls(config: Config, store: Store) -> Iterable[Operation]:
    """The operations, in a fixed order."""
    for request in range(len(config.requests)):
        yield from of_request(config, store, request)
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
    if store.protected.length > 0 and idle(store):
        yield Release()


def of_request(config: Config, store: Store, request: Request) -> Iterable[Operation]:
    """What may happen to this request where it is."""
    phase = store.requests[request].phase
    if phase == ABSENT and unused(store, request):
        yield from of_nobody(config, store, request)
    elif phase == RENDERING and not store.writing:
        yield from of_rendering(config, store, request)
    elif phase == WAITING:
        yield from (Schedule(request, covered) for covered in range(len(config.requests[request]) * config.covered + 1))
    elif phase == RUNNING:
        yield Finish(request)
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
    if idle(store) and store.renders_left != 0 and store.protected.length == 0:
        yield Render(request)
    if config.forges:
        first = content_of(config, request, 0)
        yield from (Forge(request, content) for content in range(len(config.payloads)) if content != first)


def of_rendering(config: Config, store: Store, request: Request) -> Iterable[Operation]:
    """The next item to touch, or to walk; or the end of the walk."""
    journey, items = store.requests[request], len(config.requests[request])
    if config.touches and journey.touched < items:
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
