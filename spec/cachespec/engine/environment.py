"""Which operations are possible in a state of the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cachespec import mirror, object_store, scheduler
from cachespec.engine.configuration import (
    Config,
    contents_of,
    mirror_config,
    requests,
    scheduler_config,
    sender_of,
    store_config,
)
from cachespec.engine.operations import Cancel, DeliverAbort, DeliverRequest, Execute, SubmitRequest
from cachespec.engine.parts import Parts
from cachespec.engine.state import State, is_executed, is_on_its_way
from cachespec.engine.worker import DIED
from cachespec.kernel import Operation
from cachespec.mirror.faults import ResetReceiver
from cachespec.mirror.operations import Deliver, Expire, Join, Receive, Retry, Submit, Transmit
from cachespec.object_store.operations import Clear, End
from cachespec.scheduler.configuration import is_turn
from cachespec.scheduler.operations import (
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

OF_THE_MIRROR = (Deliver, Receive, Transmit, Expire, Join, Retry)
MIRRORED: tuple[type[Operation], ...] = (*OF_THE_MIRROR, ResetReceiver)
OUTPUTS = (Update, FailStep)
"""What the scheduler hears of a plan that every worker has executed."""
BY_THEMSELVES = (Compile, Schedule, FinishLoad, FailLoad, FinishSend)
"""What else the scheduler hears or does as on its own."""
HANDED: tuple[type[Operation], ...] = (DeliverRequest, End, Clear)


def calls(parts: Parts, config: Config, state: State) -> Iterable[Operation]:
    """In a fixed order. Nothing happens to an engine that is dead."""
    if parts.is_dead(state.scheduler) or any(worker.finding == DIED for worker in state.workers):
        return
    yield from (with_handles(parts, config, state) if config.shared_memory else with_mirror(parts, config, state))
    yield from departures(parts, config, state)
    for op in parts.scheduler.alphabet(scheduler_config(config), state.scheduler):
        if isinstance(op, BY_THEMSELVES) or (isinstance(op, OUTPUTS) and is_executed(state)):
            yield op
    for name, worker in enumerate(state.workers):
        if worker.inbox != ():
            yield Execute(name)
    if state.resets_left > 0:
        yield from (Clear() if config.shared_memory else ResetReceiver(), ResetPrefixCache(), ResetEncoderCache())
        if scheduler_config(config).running_resets:
            yield ResetRunning()


def with_mirror(parts: Parts, config: Config, state: State) -> Iterable[Operation]:
    """Requests go out with messages of the mirror."""
    of_mirror = tuple(parts.mirror.alphabet(mirror_config(config), state.mirror))
    may_send = {op.sender for op in of_mirror if isinstance(op, Submit)}
    yield from submissions(config, state, may_send)
    yield from (op for op in of_mirror if isinstance(op, OF_THE_MIRROR))


def with_handles(parts: Parts, config: Config, state: State) -> Iterable[Operation]:
    """Requests go out with handles; P0 hears of their ends."""
    yield from submissions(config, state, {sender_of(config, request) for request in requests(config)})
    for request in requests(config):
        if is_on_its_way(state, request):
            yield DeliverRequest(request)
    yield from (op for op in parts.store.alphabet(store_config(config), state.store) if isinstance(op, End))


def submissions(config: Config, state: State, may_send: set[int]) -> Iterable[Operation]:
    """Each request is sent once, when its frontend has joined and the network has room."""
    for request in requests(config):
        free = contents_of(config, request) == () or sender_of(config, request) in may_send
        if free and not state.submitted.has(request) and is_next(config, state, request):
            yield SubmitRequest(request)


def is_next(config: Config, state: State, request: int) -> bool:
    """It is no turn, or its session goes on and P1 has taken the turn before."""
    if not is_turn(scheduler_config(config), request):
        return True
    taken = state.received.has(request - 1) and not state.rejected.has(request - 1)
    return taken and not state.scheduler.gone.has(request)


def departures(parts: Parts, config: Config, state: State) -> Iterable[Operation]:
    """Clients that go away, and P1 that learns of it."""
    for request in requests(config):
        if state.cancelled.has(request):
            if state.received.has(request) and not parts.ledger.is_deaf(state.mirror):
                yield DeliverAbort(request)
        elif scheduler_config(config).aborts and is_waited_for(parts, config, state, request):
            yield Cancel(request)


def is_waited_for(parts: Parts, config: Config, state: State, request: int) -> bool:
    """It was sent, and no answer has come. A client that is told to send it again has an answer."""
    over = state.rejected.has(request) or state.scheduler.gone.has(request)
    return state.submitted.has(request) and not over and not is_sent_again(parts, config, state, request)


def is_sent_again(parts: Parts, config: Config, state: State, request: int) -> bool:
    """P1 has missed an item of it, and its client has still to send it again."""
    sender = sender_of(config, request)
    repeated = parts.ledger.repeated(state.mirror.links[sender])
    return request in state.unconfirmed[sender][len(state.unconfirmed[sender]) - repeated :]


def rules_out(config: Config) -> Mapping[type[Operation], str]:
    """The operations of the way that items do not take; of resets those that none is left for."""
    off: dict[type[Operation], str] = dict.fromkeys(
        (MIRRORED if config.shared_memory else HANDED), "the items take the other way"
    )
    if not config.resets:
        off[ResetRunning] = "resets = 0"
    if all(contents_of(config, request) == () for request in requests(config)):
        off.update(dict.fromkeys((Deliver, Receive, Transmit, Retry), "no request has an item"))
    return off


def config_of(config: Config, kind: type[Operation]) -> Any:
    """The configuration of the part that declares the operation; the engine's own for its own operations."""
    if kind in scheduler.COMPONENT.operations:
        return scheduler_config(config)
    if kind in mirror.COMPONENT.operations:
        return mirror_config(config)
    return store_config(config) if kind in object_store.COMPONENT.operations else config


def unknown(config: Config, operation: Operation) -> str | None:
    """What an operation names that this engine does not have."""
    if type(operation) in scheduler.COMPONENT.operations:
        return scheduler.COMPONENT.unknown(scheduler_config(config), operation)
    if type(operation) in mirror.COMPONENT.operations:
        return mirror.COMPONENT.unknown(mirror_config(config), operation)
    return None
