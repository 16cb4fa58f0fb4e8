"""Items by way of shared memory: P0 stores them, sends handles, and every worker reads them once.

With shared memory there is no mirror at P1: a request carries a handle for each item, P1 passes the handles on when it
schedules the request for the first time, and a worker reads all of them before it executes that step. P0 hears of the
end of every request, and revokes what is still out of its handles.
"""

from __future__ import annotations

from collections.abc import Iterable

from cachespec.engine.configuration import Config, Request, WorkerName, contents_of, store_config
from cachespec.engine.parts import Parts
from cachespec.engine.state import State, with_worker
from cachespec.engine.worker import DIED
from cachespec.kernel import Code, Operation
from cachespec.object_store.operations import (
    Abort,
    Finish,
    GetCached,
    Preempt,
    Put,
    Read,
    ReaderTouch,
    Release,
    Render,
    Resume,
    Schedule,
    Send,
    Touch,
)
from cachespec.object_store.state import PREEMPTED, RUNNING, TOUCHING, WAITING
from cachespec.scheduler import Plan


def stepped(parts: Parts, config: Config, state: State, operations: Iterable[Operation]) -> State:
    """The store after these operations, one after the other."""
    store = state.store
    for operation in operations:
        store, _ = parts.store.step(store_config(config), store, operation)
    return state._replace(store=store)


# P0 -----------------------------------------------------------------------------------------------------------------


def stored(parts: Parts, config: Config, state: State, request: Request) -> State:
    """P0 renders the request, touches and walks its items, and sends it with its handles, unless the walk fails."""
    indices = range(len(contents_of(config, request)))
    state = stepped(parts, config, state, (Render(request), *(Touch(request, index) for index in indices)))
    for index in indices:
        state = walked(parts, config, state, request, index)
    return stepped(parts, config, state, (Release(), Send(request)))


def walked(parts: Parts, config: Config, state: State, request: Request, index: int) -> State:
    """One item: a handle to what is there, or the item is put there now."""
    listed = state.store.listed.has(contents_of(config, request)[index])
    return stepped(parts, config, state, (GetCached(request, index) if listed else Put(request, index),))


# P1 -----------------------------------------------------------------------------------------------------------------


def ended(parts: Parts, config: Config, state: State, request: Request) -> State:
    """X-3: wherever the request is, it is over; P0 will hear of it."""
    return stepped(parts, config, state, (Abort(request),))


def handed_out(parts: Parts, config: Config, state: State, plan: Plan) -> State:
    """A preempted request waits again; a request that is scheduled, first or again, sends its handles.

    Eras: a request that the plan preempts may stay in it, and is not sent again (C-SCH-11).
    """
    state = stepped(parts, config, state, (Preempt(request) for request in plan.preempted))
    for part in plan.scheduled:
        if part.request not in state.scheduler.running:
            continue
        phase = state.store.requests[part.request].phase
        if phase == WAITING:
            state = stepped(parts, config, state, (Schedule(part.request, 0),))
        if phase == PREEMPTED:
            state = stepped(parts, config, state, (Resume(part.request),))
    return state


def completed(parts: Parts, config: Config, state: State, requests: Iterable[Request]) -> State:
    """Requests that are finished; every worker has executed them."""
    return stepped(parts, config, state, (Finish(request) for request in requests))


# Workers ------------------------------------------------------------------------------------------------------------


def read_all(parts: Parts, config: Config, state: State, name: WorkerName) -> State:
    """SHM-10: a worker reads every item that it was sent. What it cannot read must be of a request that is over."""
    while has_to_read(state, name):
        state = read_next(parts, config, state, name)
    return state


def has_to_read(state: State, name: WorkerName) -> bool:
    """The test of the reading loop; its measure is the length of the inbox."""
    return state.store.workers[name].inbox != () and state.workers[name].finding != DIED


def read_next(parts: Parts, config: Config, state: State, name: WorkerName) -> State:
    """The body of that loop: the item that was sent first."""
    delivery = state.store.workers[name].inbox[0]
    if delivery.task == TOUCHING:
        store, outcome = parts.store.step(store_config(config), state.store, ReaderTouch(name))
        worker = parts.judges(state.workers[name], int(outcome.code is Code.STALE), 0)
        return with_worker(state, name, worker)._replace(store=store)
    store, outcome = parts.store.step(store_config(config), state.store, Read(name))
    right = outcome.code is Code.HIT and outcome.values == (delivery.handle.content,)
    wanted = state.store.requests[delivery.request].phase == RUNNING
    worker = parts.judges(state.workers[name], int(outcome.code is Code.STALE), int(wanted and not right))
    return with_worker(state, name, worker)._replace(store=store)
