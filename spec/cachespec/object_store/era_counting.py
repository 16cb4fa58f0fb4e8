"""What released stores did: readers count in the chunk itself, and P0 compares that with what it has issued.

- store-2025-10 (M1), released with 0.11.0: no touch;
- store-2025-12 (M2), released with 0.12.0 to 0.20.2: a touch counts, on both sides;
- store-2026-11 (M3), released with 0.33.0: a touch protects; handles are signed.

Nothing is ever revoked. This module has what they share.
"""

from __future__ import annotations

from collections.abc import Callable

from cachespec.kernel import ABSENT as NOT_THERE
from cachespec.kernel import DONE, FAILED, PRESENT, REFUSED, STALE, TOO_LARGE, Code, Outcome
from cachespec.object_store.accounting import forget
from cachespec.object_store.configuration import NOTHING, Config, content_of, ring_config
from cachespec.object_store.journeys import delivered, gone, moved
from cachespec.object_store.memory import NOBODY, found_at, place_of
from cachespec.object_store.operations import (
    Acknowledge,
    Copy,
    End,
    FreeUnused,
    GetCached,
    Look,
    Put,
    Read,
    Reject,
    Repeat,
    Resume,
    Schedule,
)
from cachespec.object_store.operations import Store as StorePart
from cachespec.object_store.readers import busy, copy, next_one, used
from cachespec.object_store.state import (
    ABSENT,
    COPIED,
    ENDED,
    IDLE,
    LOOKED,
    PREEMPTED,
    RAW,
    READING,
    RENDERING,
    RUNNING,
    WAITING,
    Delivery,
    Handle,
    Store,
    Worker,
    with_worker,
)
from cachespec.object_store.view import View, viewed
from cachespec.object_store.writer import handle_to, next_item, stored_part, walked, written
from cachespec.ring import Ring, free_chunks
from cachespec.ring.configuration import Id, Place
from cachespec.ring.era_chunks import reserve_whatever_id

Result = tuple[Store, Outcome]
Free = Callable[[Config, Store], tuple[Store, tuple[Id, ...]]]
"""How a release frees unneeded chunks: the store afterwards, and the freed ids."""


# Counts -------------------------------------------------------------------------------------------------------------


def in_chunk(config: Config, store: Store, identity: Id) -> int:
    """The count that stands where the chunk is, whatever chunk that is; -1 where P0 keeps none."""
    if not store.issued.has(identity):
        return NOBODY.counter
    return store.memory.get(place_of(config, store.ring.starts.get(identity, 0)), NOBODY).counter


def view(config: Config, store: Store) -> View:
    """The state as properties see it."""
    return viewed(config, store, in_chunk)


def count_suffices(config: Config, store: Store, identity: Id) -> bool:
    """Whether readers have counted at least as often as P0 has."""
    enough = in_chunk(config, store, identity) >= store.issued.get(identity, 0) * config.readers
    return enough and not store.protected.has(identity)


def counted_by_reader(config: Config, store: Store, place: Place) -> Store:
    """A reader adds 1 to the count at this place, be it the chunk that it means or another, or no chunk's beginning."""
    block = store.memory.get(place, NOBODY)
    if block != NOBODY:
        return store._replace(memory=store.memory.set(place, block._replace(counter=block.counter + 1)))
    for other in range(place):
        around = store.memory.get(other, NOBODY)
        if place < other + around.total:
            store = store._replace(memory=store.memory.set(other, around._replace(data=NOTHING)))
    return store


# P0 -----------------------------------------------------------------------------------------------------------------


def issued_again(store: Store, identity: Id) -> Store:
    """C-SHM-15: P0's count only grows; nothing is ever taken back."""
    issued = store.issued.set(identity, store.issued.get(identity, 0) + 1)
    return store._replace(issued=issued, protected=store.protected.remove(identity))


def get_cached(config: Config, store: Store, op: GetCached) -> Result:
    """A hit: one more is counted."""
    content = content_of(config, op.request, op.position)
    if not next_item(store, op.request, op.position) or not store.listed.has(content):
        return store, NOT_THERE
    identity = store.listed.get(content, NOTHING)
    handle = handle_to(store, identity)
    after = walked(issued_again(store, identity), op.request, handle)
    return after, Outcome(Code.HIT, (handle.address, identity))


def put_freeing(config: Config, store: Store, op: Put, free: Free) -> Result:
    """If there is no room, free once, and try once more. C-MIR-9: what P0 expected to find it has no data for."""
    content = content_of(config, op.request, op.position)
    if not next_item(store, op.request, op.position):
        return store, NOT_THERE
    if store.listed.has(content):
        return store, PRESENT
    if config.skips == 1 and store.requests[op.request].expected[op.position] == 1:
        return gone(config, store, op.request, revoking=0), FAILED
    if config.payloads[content] > config.largest:
        return walked(store, op.request, RAW), TOO_LARGE
    ring, outcome = reserve_whatever_id(ring_config(config), store.ring, config.payloads[content])
    if outcome.code is Code.REFUSED:
        store, _ = free(config, store)
        ring, outcome = reserve_whatever_id(ring_config(config), store.ring, config.payloads[content])
    if outcome.code is Code.REFUSED:
        return walked(blocked(store), op.request, RAW), REFUSED
    identity = store.ring.id_end
    entered = issued_again(entered_released(store, ring, content, identity), identity)
    handle = handle_to(entered, identity)
    after = written(config, walked(entered, op.request, handle), identity)
    return after, Outcome(Code.DONE, (handle.address, identity))


def entered_released(store: Store, ring: Ring, content: int, identity: Id) -> Store:
    """The chunk is in every index. Metadata that dangles goes when there is twice as much as is needed."""
    listed, metadata = store.listed.set(content, identity), store.metadata
    if metadata.length >= 2 * listed.length:
        for other, _ in store.metadata.items():  # noqa: PERF102  # a Map has no keys()
            metadata = metadata if listed.has(other) else metadata.remove(other)
    return store._replace(
        ring=ring,
        listed=listed,
        owners=store.owners.set(identity, content),
        epochs=store.epochs.set(identity, 0),
        issued=store.issued.set(identity, 0),
        metadata=metadata.set(content, 1),
    )


def blocked(store: Store) -> Store:
    """History: which chunk stood in the way."""
    oldest = store.ring.id_start
    stands = store.ring.starts.has(oldest) and not store.protected.has(oldest)
    return store._replace(blocking=oldest if stands else NOTHING)


def forgotten(store: Store, gone_ids: tuple[Id, ...]) -> Store:
    """The books without these chunks; their metadata stays behind."""
    metadata = store.metadata
    for identity in gone_ids:
        store = forget(store, identity)
    return store._replace(metadata=metadata)


def free_twice_the_largest(config: Config, store: Store) -> tuple[Store, tuple[Id, ...]]:
    """C-SHM-13: no more is freed than twice the largest item, which may be two halves with a header missing in each."""
    ring, outcome = free_chunks(
        ring_config(config), store.ring, lambda identity: count_suffices(config, store, identity), 2 * config.largest
    )
    return forgotten(store._replace(ring=ring), outcome.values), outcome.values


def put(config: Config, store: Store, op: Put) -> Result:
    """C-SHM-13, C-MIR-9."""
    return put_freeing(config, store, op, free_twice_the_largest)


def free_unused(config: Config, store: Store, op: FreeUnused) -> Result:
    """C-SHM-13."""
    store, gone_ids = free_twice_the_largest(config, store)
    return store, Outcome(Code.DONE, gone_ids)


def emptied(config: Config, store: Store, ring: Ring) -> Store:
    """The books without any chunk; the memory stays, and so does every handle."""
    for identity, _ in store.owners.items():  # noqa: PERF102  # a Map has no keys()
        store = forget(store, identity)
    for content in range(len(config.payloads)):
        store = store._replace(metadata=store.metadata.remove(content))
    return store._replace(ring=ring, blocking=NOTHING)


def store_part(config: Config, store: Store, op: StorePart) -> Result:
    """C-SHM-16: where the machine reorders stores, the data may be visible before the header."""
    early = op.part == 1 and config.reordered == 0
    if store.writing == () or (early and store.writing[0].header == 0):
        return store, NOT_THERE
    return stored_part(config, store, op)


# Requests -----------------------------------------------------------------------------------------------------------


def reject(config: Config, store: Store, op: Reject) -> Result:
    """C-SHM-4, C-MIR-4: what was issued stays counted."""
    if store.requests[op.request].phase != RENDERING or store.writing != ():
        return store, NOT_THERE
    return gone(config, store, op.request, revoking=0), DONE


def end(config: Config, store: Store, op: End) -> Result:
    """C-SHM-4: what was issued and never sent to the workers stays counted."""
    if store.requests[op.request].phase != ENDED:
        return store, NOT_THERE
    return gone(config, store, op.request, revoking=0), DONE


def resume_without_items(config: Config, store: Store, op: Resume) -> Result:
    """0.11.0 to 0.20.2: a resumed request is sent without its items, which its workers kept."""
    return moved(store, op.request, (PREEMPTED,), RUNNING)


# Workers ------------------------------------------------------------------------------------------------------------


def is_meant(config: Config, store: Store, handle: Handle) -> bool:
    """C-SHM-7, C-SHM-9: the id alone."""
    return found_at(config, store, handle).identity == handle.identity


def look(config: Config, store: Store, op: Look) -> Result:
    """Another id there is an error. C-SHM-6: a handle is read each time it is sent."""
    if not busy(store, op.reader, IDLE, READING):
        return store, NOT_THERE
    worker = store.workers[op.reader]
    if not is_meant(config, store, worker.inbox[0].handle):
        return with_worker(store, op.reader, next_one(worker)), STALE
    return with_worker(store, op.reader, worker._replace(doing=LOOKED)), DONE


def acknowledge(config: Config, store: Store, op: Acknowledge) -> Result:
    """C-SHM-14: the id is not looked at again. C-SHM-10: the count is the one that stands there now."""
    if not busy(store, op.reader, COPIED, READING):
        return store, NOT_THERE
    worker, delivery = store.workers[op.reader], store.workers[op.reader].inbox[0]
    counted = counted_by_reader(config, store, place_of(config, delivery.handle.address))
    return with_worker(counted, op.reader, next_one(noted(store, worker, delivery))), used(worker.copied)


def noted(store: Store, worker: Worker, delivery: Delivery) -> Worker:
    """History: who has acknowledged what, for requests that are still there."""
    if store.requests[delivery.request].phase == ABSENT:
        return worker
    return worker._replace(acknowledged=worker.acknowledged.set((delivery.request, delivery.position), 1))


def read(config: Config, store: Store, op: Read) -> Result:
    """The three steps, with nothing in between."""
    if not busy(store, op.reader, IDLE, READING):
        return store, NOT_THERE
    store, outcome = look(config, store, Look(op.reader))
    if outcome.code is not Code.DONE:
        return store, outcome
    store, _ = copy(config, store, Copy(op.reader))
    return acknowledge(config, store, Acknowledge(op.reader))


def schedule(config: Config, store: Store, op: Schedule) -> Result:
    """0.11.0: every handle is sent, and nothing is touched."""
    store, outcome = moved(store, op.request, (WAITING,), RUNNING)
    return (delivered(config, store, op.request, 0), outcome) if outcome == DONE else (store, outcome)


def repeat(config: Config, store: Store, op: Repeat) -> Result:
    """C-SHM-20: a copy of the message is read and counted as another request's."""
    if store.requests[op.request].phase != RUNNING:
        return store, NOT_THERE
    return delivered(config, store, op.request, 2), DONE
