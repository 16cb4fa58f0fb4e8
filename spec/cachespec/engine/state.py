"""All parts of an engine, what is between them, and the view that properties read."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, NamedTuple

from cachespec import encoder_cache, mirror, object_store, scheduler
from cachespec.engine.configuration import (
    Config,
    Request,
    WorkerName,
    frontends,
    mirror_config,
    scheduler_config,
    store_config,
)
from cachespec.engine.worker import Intake, Phase, Step, Worker, executed
from cachespec.engine.worker import initial as initial_worker
from cachespec.kernel import Containers, Grouping, IndexedBy, Map, Observation
from cachespec.mirror.normative_state import State as Mirror
from cachespec.object_store.state import Store
from cachespec.object_store.view import View as StoreView

AT_P1, AT_P0 = 1, 2
"""Where a request was turned down."""


class State(NamedTuple):
    """Each part as it is on its own, and what ties them together."""

    mirror: Mirror
    store: Store
    scheduler: scheduler.State
    workers: Annotated[tuple[Worker, ...], IndexedBy("worker")]
    unconfirmed: Annotated[tuple[tuple[Request, ...], ...], IndexedBy("sender")]
    """For each frontend the requests whose messages no answer has confirmed, in the order of its ledger."""
    submitted: Map[Request, int]
    """Requests that clients have sent; each 1."""
    received: Map[Request, int]
    """Those of them that P1 knows of; each 1."""
    rejected: Map[Request, int]
    """Those that P1 has refused, each 1; and those that failed at their frontend, each 2."""
    cancelled: Map[Request, int]
    """Those whose client has gone away, and P1 has not been told yet; each 1."""
    resets_left: int


class WorkerView(NamedTuple):
    """One worker as it is, and as it will be when its inbox is empty."""

    tensors: tuple[int, ...]
    memory: tuple[tuple[int, int], ...]
    inbox: tuple[Step, ...]
    finding: int
    settled_tensors: tuple[int, ...]
    settled_memory: tuple[tuple[int, int], ...]
    settled_crossed: tuple[tuple[int, int], ...]


class View(NamedTuple):
    """What properties read."""

    mirror: mirror.View
    store: StoreView
    scheduler: scheduler.View
    workers: tuple[WorkerView, ...]
    submitted: tuple[int, ...]
    received: tuple[int, ...]
    rejected: tuple[int, ...]
    failed: tuple[int, ...]
    """Requests that ended with an error at their frontend."""
    cancelled: tuple[int, ...]
    unconfirmed: tuple[tuple[int, ...], ...]
    """For each frontend, the requests whose messages no answer has confirmed, oldest first."""
    resets_left: int


def initial(config: Config, containers: Containers) -> State:
    """No request was sent; no frontend has joined."""
    nobody = containers.map()
    return State(
        mirror=mirror.COMPONENT.normative.start(mirror_config(config), containers),
        store=object_store.COMPONENT.normative.start(store_config(config), containers),
        scheduler=scheduler.COMPONENT.normative.start(scheduler_config(config), containers),
        workers=(initial_worker(containers),) * config.workers,
        unconfirmed=((),) * frontends(config),
        submitted=nobody,
        received=nobody,
        rejected=nobody,
        cancelled=nobody,
        resets_left=config.resets,
    )


def issued(config: Config, state: State, step: Step, intake: Intake) -> State:
    """Every worker gets the step."""
    told = scheduler_config(config)
    return state._replace(workers=tuple(intake(told, worker, step) for worker in state.workers))


def with_worker(state: State, name: WorkerName, worker: Worker) -> State:
    """One worker replaced."""
    return state._replace(workers=(*state.workers[:name], worker, *state.workers[name + 1 :]))


def is_on_its_way(state: State, request: Request) -> bool:
    """With shared memory: P0 has sent the request, and P1 has not taken it."""
    failed = state.rejected.has(request)
    return state.submitted.has(request) and not state.received.has(request) and not failed


def is_executed(state: State) -> bool:
    """Every worker has executed the scheduler's oldest plan: fewer plans wait in its inbox than are in flight."""
    return all(waiting_plans(worker) < len(state.scheduler.plans) for worker in state.workers)


def waiting_plans(worker: Worker) -> int:
    """How many plans the worker has not executed yet."""
    return sum(1 - step.clears for step in worker.inbox)


# What is seen -------------------------------------------------------------------------------------------------------


def members(requests: Map[Request, int]) -> tuple[int, ...]:
    """The requests in the map."""
    return tuple(request for request, _ in requests.items())


def worker_view(config: Config, worker: Worker, phases: tuple[Phase, ...]) -> WorkerView:
    """The worker now, and after everything that it was told."""
    settled = worker
    while settled.inbox != ():
        settled = executed(scheduler_config(config), settled, phases)
    return WorkerView(
        tensors=contents(worker),
        memory=tuple(worker.memory.memory.items()),
        inbox=worker.inbox,
        finding=worker.finding,
        settled_tensors=contents(settled),
        settled_memory=tuple(settled.memory.memory.items()),
        settled_crossed=tuple(pair for pair, _ in settled.memory.crossed.items()),
    )


def contents(worker: Worker) -> tuple[int, ...]:
    """The contents whose encoder outputs the worker has."""
    return tuple(content for (content,), _ in worker.memory.outputs.items())


def turned_down(state: State, where: int) -> tuple[int, ...]:
    """The requests that were turned down at P1, or at their frontend."""
    return tuple(request for request, at in state.rejected.items() if at == where)


OBSERVABLES: Mapping[str, str] = MappingProxyType(
    {
        **mirror.COMPONENT.observables,
        **{name: f"{text}; with shared memory only" for name, text in object_store.COMPONENT.observables.items()},
        **scheduler.COMPONENT.observables,
        "tensors_{worker}": "contents of the encoder outputs that the worker holds, ascending",
        "finding_{worker}": "the first missing data: 0 nothing, 1 an encoder output, 2 the bytes of an item, "
        "3 an output to be dropped twice, 4 an item of its message, 5 in eras: a stale handle, which ends the worker",
    }
)
"""What each observable holds."""


GROUPING: Mapping[str, Grouping] = MappingProxyType(
    {
        **mirror.COMPONENT.grouping,
        **object_store.COMPONENT.grouping,
        **scheduler.COMPONENT.grouping,
        "tensors_{worker}": Grouping(row=("content",), lane="workers"),
        "finding_{worker}": Grouping(lane="workers"),
    }
)
"""Which integers of an observable belong together."""


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """What the parts show, and for each worker its encoder outputs and whether something was missing."""
    shown: dict[str, Observation] = {}
    shown |= mirror.COMPONENT.observe(mirror_config(config), view.mirror)
    shown |= object_store.COMPONENT.observe(store_config(config), view.store) if config.shared_memory else {}
    shown |= scheduler.COMPONENT.observe(scheduler_config(config), view.scheduler)
    for name, worker in enumerate(view.workers):
        shown[f"tensors_{name}"] = worker.tensors
        shown[f"finding_{name}"] = worker.finding
    return shown


def resident(view: encoder_cache.View) -> tuple[int, ...]:
    """The contents that the encoder cache counts as resident."""
    return tuple(key[0] for key, _ in view.entries)


def unreported(view: encoder_cache.View) -> tuple[int, ...]:
    """The contents that are evicted, and not reported yet."""
    return tuple(key[0] for key in view.freed)
