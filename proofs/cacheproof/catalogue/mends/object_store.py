"""The eras of the object store, each without one of their faults."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cacheproof.catalogue.mends import AnyTransition, Mend, around, never, together, transitions
from cacheproof.model.finding import Subject
from cachespec.kernel import ABSENT as NOT_THERE
from cachespec.kernel import DONE, REFUSED, STALE, Code, Outcome
from cachespec.object_store import era_counting as counting
from cachespec.object_store.accounting import withdraw
from cachespec.object_store.configuration import NOTHING, Config, Request, positions, ring_config
from cachespec.object_store.eras import M3, clear_keeping, validate
from cachespec.object_store.journeys import forge
from cachespec.object_store.memory import place_of
from cachespec.object_store.normative import NORMATIVE_STORE
from cachespec.object_store.operations import (
    Acknowledge,
    Clear,
    End,
    Forge,
    FreeUnused,
    Put,
    ReaderTouch,
    Reject,
    Repeat,
    Resume,
    Touch,
)
from cachespec.object_store.operations import Store as StorePart
from cachespec.object_store.readers import busy, next_one
from cachespec.object_store.state import (
    COPIED,
    IDLE,
    RAW,
    READING,
    TOUCHING,
    Journey,
    Store,
    with_request,
    with_worker,
)
from cachespec.object_store.writer import walked
from cachespec.ring import free_chunks
from cachespec.ring.configuration import Id

Result = tuple[Store, Outcome]
RELEASED = ("M1", "M2", "M3")


# Handles that are never acknowledged ----------------------------------------------------------------------------------


def settled(config: Config, store: Store, request: Request) -> Store:
    """The handles of the request count as acknowledged by each worker that has not done so, and are not read later."""
    handles = store.requests[request].handles
    for reader in range(config.readers):
        worker = store.workers[reader]
        for position, handle in zip(positions(config, request), handles, strict=False):
            is_out = handle.content >= 0 and not worker.acknowledged.has((request, position))
            if is_out and counting.is_meant(config, store, handle):
                store = counting.counted_by_reader(config, store, place_of(config, handle.address))
        worker = store.workers[reader]
        inbox = tuple(delivery for delivery in worker.inbox if delivery.request != request)
        store = with_worker(store, reader, worker._replace(inbox=inbox))
    return store


def settling(own: AnyTransition, config: Config, store: Store, op: Reject | End) -> Result:
    """C-SHM-4, C-MIR-4: what was issued and not acknowledged is taken back."""
    outcome: Outcome = own(config, store, op)[1]
    if outcome != DONE:
        return store, outcome
    return own(config, settled(config, store, op.request), op)


# Freeing ------------------------------------------------------------------------------------------------------------


def free_until_there_is_room(config: Config, store: Store) -> tuple[Store, tuple[Id, ...]]:
    """C-SHM-13: every chunk that is not needed is freed, from the oldest on."""
    ring, outcome = free_chunks(
        ring_config(config),
        store.ring,
        lambda identity: counting.count_suffices(config, store, identity),
        config.capacity + 1,
    )
    return counting.forgotten(store._replace(ring=ring), outcome.values), outcome.values


def put_freeing_enough(config: Config, store: Store, op: Put) -> Result:
    """C-SHM-13."""
    return counting.put_freeing(config, store, op, free_until_there_is_room)


def free_unused_enough(config: Config, store: Store, op: FreeUnused) -> Result:
    """C-SHM-13."""
    store, gone = free_until_there_is_room(config, store)
    return store, Outcome(Code.DONE, gone)


def without_the_chunk_that_is_not(subject: Subject) -> Subject:
    """C-SHM-1: the ring begins empty."""
    return replace(subject, variant=replace(subject.variant, initial=NORMATIVE_STORE.initial))


def live_or_presented(config: Config, store: Store) -> bool:
    """The next id belongs to a chunk, or to a handle that may be presented."""
    identity = store.ring.id_end
    sent = (delivery.handle for worker in store.workers for delivery in worker.inbox)
    held = (handle for journey in store.requests for handle in journey.handles)
    return store.owners.has(identity) or any(handle.identity == identity for handle in (*sent, *held))


def with_a_free_id(own: AnyTransition, config: Config, store: Store, op: Put) -> Result:
    """C-SHM-11: an id is given again only if no chunk and no handle has it; until then the item is sent raw."""
    changed: Result = own(config, store, op)
    if changed[1].code is Code.DONE and live_or_presented(config, store):
        return walked(store, op.request, RAW), REFUSED
    return changed


def forget_the_keys(own: AnyTransition, config: Config, store: Store, op: Clear) -> Result:
    """C-SHM-12: a clear forgets the keys; chunks with handles out stay."""
    if all(counting.count_suffices(config, store, identity) for identity, _ in store.owners.items()):
        return own(config, store, op)
    for content in range(len(config.payloads)):
        store = store._replace(listed=store.listed.remove(content), metadata=store.metadata.remove(content))
    return store, DONE


def withdrawing(own: AnyTransition, config: Config, store: Store, op: Put) -> Result:
    """C-SHM-8: the chunk that is in the way of an item is not handed out again."""
    after: Store
    after, outcome = own(config, store, op)
    if outcome.code is Code.REFUSED and after.blocking != NOTHING:
        after = withdraw(after, after.blocking, after.owners.get(after.blocking, NOTHING))
    return after, outcome


def was_cleared(store: Store, journey: Journey) -> bool:
    """The store was cleared since the request was looked up: its own walk has evicted nothing, or lost its chunks."""
    return journey.walked == 0 or any(
        handle.content != NOTHING and not store.owners.has(handle.identity) for handle in journey.handles
    )


def as_if_not_expected(own: AnyTransition, config: Config, store: Store, op: Put, *, cleared: bool) -> Result:
    """C-MIR-9, or C-SHM-17 if the store was cleared: an item that was to be found is processed now."""
    journey = store.requests[op.request]
    if was_cleared(store, journey) == cleared:
        expected = tuple(each * (place != op.position) for place, each in enumerate(journey.expected))
        store = with_request(store, op.request, journey._replace(expected=expected))
    return own(config, store, op)


# Workers ------------------------------------------------------------------------------------------------------------


def if_meant(
    own: AnyTransition, config: Config, store: Store, op: ReaderTouch | Acknowledge, *, stage: int, task: int
) -> Result:
    """A worker at this stage of this task looks first whether the chunk is the one that the handle names."""
    if not busy(store, op.reader, stage, task):
        return store, NOT_THERE
    worker = store.workers[op.reader]
    if not counting.is_meant(config, store, worker.inbox[0].handle):
        return with_worker(store, op.reader, next_one(worker)), STALE
    return own(config, store, op)


touch_what_is_meant = partial(if_meant, stage=IDLE, task=TOUCHING)
"""C-SHM-10: before a touch."""
looking_again = partial(if_meant, stage=COPIED, task=READING)
"""C-SHM-14: after the copy, again."""


def in_order(own: AnyTransition, config: Config, store: Store, op: StorePart) -> Result:
    """C-SHM-16: the data is not visible before the header."""
    return own(config._replace(reordered=0), store, op)


def one_render_at_a_time(subject: Subject) -> Subject:
    """C-SHM-19: P0 renders one request, and then the next."""
    return replace(subject, config=subject.config._replace(concurrent=1))


MENDS = (
    Mend("C-MIR-4", RELEASED, around(settling, Reject)),
    Mend("C-MIR-9", RELEASED, around(partial(as_if_not_expected, cleared=False), Put)),
    Mend(
        "C-SHM-1",
        ("M1",),
        together(transitions({Put: counting.put, FreeUnused: counting.free_unused}), without_the_chunk_that_is_not),
    ),
    Mend("C-SHM-2", ("M2",), transitions({Touch: M3.transitions[Touch], ReaderTouch: validate})),
    Mend("C-SHM-4", RELEASED, around(settling, Reject, End)),
    Mend("C-SHM-6", ("M3",), transitions({Resume: counting.resume_without_items})),
    Mend("C-SHM-7", ("M1", "M2"), transitions({Clear: clear_keeping})),
    Mend("C-SHM-8", RELEASED, around(withdrawing, Put)),
    Mend("C-SHM-9", ("M1", "M2"), transitions({Forge: forge})),
    Mend("C-SHM-10", ("M2",), around(touch_what_is_meant, ReaderTouch)),
    Mend("C-SHM-11", RELEASED, around(with_a_free_id, Put)),
    Mend("C-SHM-12", RELEASED, around(forget_the_keys, Clear)),
    Mend("C-SHM-13", ("M2", "M3"), transitions({Put: put_freeing_enough, FreeUnused: free_unused_enough})),
    Mend("C-SHM-14", RELEASED, around(looking_again, Acknowledge)),
    Mend("C-SHM-16", RELEASED, around(in_order, StorePart)),
    Mend("C-SHM-17", RELEASED, around(partial(as_if_not_expected, cleared=True), Put)),
    Mend("C-SHM-18", ("M2",), transitions({ReaderTouch: validate})),
    Mend("C-SHM-19", RELEASED, one_render_at_a_time),
    Mend("C-SHM-20", RELEASED, never(Repeat)),
)
