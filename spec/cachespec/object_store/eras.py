"""The eras of the object store, and two variants that need one rule of their own."""

from __future__ import annotations

from dataclasses import replace

from cachespec.kernel import ABSENT as NOT_THERE
from cachespec.kernel import DONE, FAILED, STALE, Code, Containers, Outcome
from cachespec.object_store import era_counting as counting
from cachespec.object_store.configuration import NOTHING, Config, Request, content_of, positions, ring_config
from cachespec.object_store.environment import calls_of_overlapping_walks
from cachespec.object_store.era_counting import Result, counted_by_reader, is_meant
from cachespec.object_store.journeys import moved, sent
from cachespec.object_store.memory import NOBODY, found_at, place_of
from cachespec.object_store.normal_form import normal_of_counts
from cachespec.object_store.normative import NORMATIVE_STORE
from cachespec.object_store.operations import (
    Acknowledge,
    Clear,
    Die,
    End,
    Forge,
    FreeUnused,
    GetCached,
    Look,
    Put,
    Read,
    ReaderTouch,
    Reject,
    Release,
    Repeat,
    Restart,
    Resume,
    Schedule,
    Touch,
)
from cachespec.object_store.operations import Store as StorePart
from cachespec.object_store.readers import busy, next_one
from cachespec.object_store.state import (
    ABSENT,
    IDLE,
    PREEMPTED,
    RAW,
    READING,
    RENDERING,
    RUNNING,
    TOUCHING,
    WAITING,
    Delivery,
    Handle,
    Journey,
    Store,
    initial,
    with_request,
    with_worker,
)
from cachespec.object_store.writer import released, touched
from cachespec.ring.configuration import Id
from cachespec.ring.era_chunks import (
    clear_beginning_again,
    clear_keeping_ids,
    free_chunks_staying_behind,
    ring_with_a_chunk_that_is_not,
)

NO_VERSION = "the engine dies with its frontend or a worker"


# store-2026-11 (M3) -------------------------------------------------------------------------------------------------


def clear_keeping(config: Config, store: Store, op: Clear) -> Result:
    """C-SHM-12: frees chunks with outstanding handles; ids go on."""
    return counting.emptied(config, store, clear_keeping_ids(ring_config(config), store.ring)), DONE


def touched_and_sent(config: Config, store: Store, request: Request, again: int, covered: int) -> Store:
    """Workers touch every item of the request before they read one, where P0 touches too."""
    for reader in range(config.readers):
        worker = store.workers[reader]
        for task in (TOUCHING, READING)[1 - config.touches :]:
            for position in positions(config, request)[covered:]:
                handle = store.requests[request].handles[position]
                if handle.content != NOTHING:
                    worker = sent(worker, Delivery(request, position, handle, task, again))
        store = with_worker(store, reader, worker)
    return store


def schedule_touching(config: Config, store: Store, op: Schedule) -> Result:
    """Every handle is sent, covered or not (#54994)."""
    store, outcome = moved(store, op.request, (WAITING,), RUNNING)
    return (touched_and_sent(config, store, op.request, 0, 0), outcome) if outcome == DONE else (store, outcome)


def resume_as_new(config: Config, store: Store, op: Resume) -> Result:
    """C-SHM-6: a resumed request is sent as a new one, and its handles are read and counted again."""
    store, outcome = moved(store, op.request, (PREEMPTED,), RUNNING)
    return (touched_and_sent(config, store, op.request, 1, 0), outcome) if outcome == DONE else (store, outcome)


def repeat_touching(config: Config, store: Store, op: Repeat) -> Result:
    """C-SHM-20: a copy of the message is read and counted as another request's."""
    if store.requests[op.request].phase != RUNNING:
        return store, NOT_THERE
    return touched_and_sent(config, store, op.request, 2, 0), DONE


def look_signed(config: Config, store: Store, op: Look) -> Result:
    """The signature first, then the id."""
    if not busy(store, op.reader, IDLE, READING):
        return store, NOT_THERE
    worker = store.workers[op.reader]
    if worker.inbox[0].handle.genuine == 0:
        return with_worker(store, op.reader, next_one(worker)), STALE
    return counting.look(config, store, op)


def read_signed(config: Config, store: Store, op: Read) -> Result:
    """The signature first."""
    if not busy(store, op.reader, IDLE, READING):
        return store, NOT_THERE
    worker = store.workers[op.reader]
    if worker.inbox[0].handle.genuine == 0:
        return with_worker(store, op.reader, next_one(worker)), STALE
    return counting.read(config, store, op)


def validate(config: Config, store: Store, op: ReaderTouch) -> Result:
    """A worker's touch looks at signature and id, and changes nothing."""
    if not busy(store, op.reader, IDLE, TOUCHING):
        return store, NOT_THERE
    worker = store.workers[op.reader]
    handle = worker.inbox[0].handle
    good = handle.genuine == 1 and is_meant(config, store, handle)
    return with_worker(store, op.reader, next_one(worker)), DONE if good else STALE


M3 = (
    replace(NORMATIVE_STORE, view=counting.view, normal=normal_of_counts, alphabet=calls_of_overlapping_walks)
    .lacking({Die: NO_VERSION, Restart: NO_VERSION})
    .era(
        "M3",
        "store-2026-11",
        {
            Touch: touched,
            Release: released,
            GetCached: counting.get_cached,
            Put: counting.put,
            FreeUnused: counting.free_unused,
            StorePart: counting.store_part,
            Clear: clear_keeping,
            Reject: counting.reject,
            Schedule: schedule_touching,
            Repeat: repeat_touching,
            Resume: resume_as_new,
            End: counting.end,
            ReaderTouch: validate,
            Read: read_signed,
            Look: look_signed,
            Acknowledge: counting.acknowledge,
        },
        {
            Touch: "C-SHM-19: walks overlap, and the end of one releases what another has touched",
            Release: "C-SHM-19: the end of one walk releases what another has touched",
            GetCached: "C-SHM-8: the oldest chunk is handed out again although it blocks the ring",
            Put: "C-SHM-13: may free too little; C-MIR-9: fails if a found item has been evicted",
            FreeUnused: "C-SHM-13: frees at most twice the largest item",
            StorePart: "C-SHM-16: header and data may become visible in either order",
            Clear: "C-SHM-12: frees chunks with outstanding handles",
            Reject: "C-SHM-4: issued handles stay counted",
            Schedule: "workers touch every item first",
            Repeat: "C-SHM-20: the handles of a copy are read and counted again",
            Resume: "C-SHM-6: the handles of a resumed request are read and counted again",
            End: "C-SHM-4: handles issued and never read stay counted",
            ReaderTouch: "checks signature and id",
            Read: "checks the signature, and the id only before copying (C-SHM-14)",
            Look: "C-SHM-6: a handle is read each time it is sent",
            Acknowledge: "C-SHM-14: the id is not checked again; the count is in the chunk",
        },
    )
)


# store-2025-12 (M2) -------------------------------------------------------------------------------------------------


def touch_counting(config: Config, store: Store, op: Touch) -> Result:
    """C-SHM-2: P0's touch counts as if a handle had been issued."""
    journey = store.requests[op.request]
    if journey.phase != RENDERING or journey.touched != op.position:
        return store, NOT_THERE
    content = content_of(config, op.request, op.position)
    after = with_request(store, op.request, journey._replace(touched=journey.touched + 1))
    if not store.listed.has(content):
        return after, NOT_THERE
    return counting.issued_again(after, store.listed.get(content, NOTHING)), DONE


def touch_by_count(config: Config, store: Store, op: ReaderTouch) -> Result:
    """C-SHM-2: a worker's touch counts only what looks as if it had been read before. C-SHM-10: whatever is there."""
    if not busy(store, op.reader, IDLE, TOUCHING):
        return store, NOT_THERE
    worker = store.workers[op.reader]
    handle = worker.inbox[0].handle
    after = with_worker(store, op.reader, next_one(worker))
    block = found_at(config, store, handle)
    count = config.readers * config.lookalikes if block == NOBODY else block.counter
    if count < config.readers:
        return after, DONE
    return counted_by_reader(config, after, place_of(config, handle.address)), DONE


def clear_from_zero(config: Config, store: Store, op: Clear) -> Result:
    """C-SHM-7: ids begin at 0 again."""
    return counting.emptied(config, store, clear_beginning_again(ring_config(config), store.ring)), DONE


def forge(config: Config, store: Store, op: Forge) -> Result:
    """C-SHM-9: a handle says where to read, and its origin is not checked."""
    if store.requests[op.request].phase != ABSENT or not store.listed.has(op.content):
        return store, NOT_THERE
    identity = store.listed.get(op.content, NOTHING)
    claimed = content_of(config, op.request, 0)
    handle = Handle(claimed, store.ring.starts.get(identity, 0), identity, 0, genuine=0, standing=0)
    handles = (handle, *(RAW for _ in positions(config, op.request)[1:]))
    return with_request(store, op.request, Journey(WAITING, handles=handles)), DONE


M2 = M3.era(
    "M2",
    "store-2025-12",
    {
        Touch: touch_counting,
        ReaderTouch: touch_by_count,
        Clear: clear_from_zero,
        Forge: forge,
        Resume: counting.resume_without_items,
        Read: counting.read,
        Look: counting.look,
    },
    {
        Touch: "C-SHM-2: a touch counts as if a handle had been issued",
        ReaderTouch: "C-SHM-2, C-SHM-10: a touch counts as a read, on any chunk at that address",
        Clear: "C-SHM-7, C-SHM-12: ids restart at 0",
        Forge: "C-SHM-9: handles carry no signature",
        Resume: "a resumed request is sent without its items",
        Read: "C-SHM-9: handles carry no signature",
        Look: "C-SHM-9: handles carry no signature",
    },
    exempt={"SHM-8/resent": "a worker keeps a preempted request with the items that it has read"},
).lacking({Release: "no chunk is protected"})


# store-2025-10 (M1) -------------------------------------------------------------------------------------------------


def free_staying_behind(config: Config, store: Store) -> tuple[Store, tuple[Id, ...]]:
    """C-SHM-1: the start of the ring lags behind."""

    def size_at(address: int) -> int:
        return store.memory.get(place_of(config, address), NOBODY).total

    ring, outcome = free_chunks_staying_behind(
        ring_config(config),
        store.ring,
        lambda identity: counting.count_suffices(config, store, identity),
        2 * config.largest,
        size_at,
    )
    return counting.forgotten(store._replace(ring=ring), outcome.values), outcome.values


def put_staying_behind(config: Config, store: Store, op: Put) -> Result:
    """C-SHM-1."""
    return counting.put_freeing(config, store, op, free_staying_behind)


def free_unused_staying_behind(config: Config, store: Store, op: FreeUnused) -> Result:
    """C-SHM-1: the chunk that is not has no count, and asking for it is an error."""
    oldest = store.ring.id_start
    if store.ring.starts.has(oldest) and not store.issued.has(oldest):
        return store, FAILED
    store, gone_ids = free_staying_behind(config, store)
    return store, Outcome(Code.DONE, gone_ids)


def initial_with_a_chunk_that_is_not(config: Config, containers: Containers) -> Store:
    """C-SHM-1."""
    return initial(config, containers)._replace(ring=ring_with_a_chunk_that_is_not(containers))


M1 = M2.era(
    "M1",
    "store-2025-10",
    {
        Put: put_staying_behind,
        FreeUnused: free_unused_staying_behind,
        Schedule: counting.schedule,
        Repeat: counting.repeat,
    },
    {
        Put: "C-SHM-1: the start of the ring lags behind",
        FreeUnused: "C-SHM-1: likewise, and it fails on the phantom chunk",
        Schedule: "workers do not touch items",
        Repeat: "C-SHM-20: the handles of a copy are read and counted again",
    },
    initial=initial_with_a_chunk_that_is_not,
    start_differs="C-SHM-1: the initial state contains a phantom chunk",
).lacking({Touch: "there is no touch", ReaderTouch: "there is no touch"})


# One rule of their own ----------------------------------------------------------------------------------------------


def schedule_stripping(config: Config, store: Store, op: Schedule) -> Result:
    """C-SHM-5: an item in the cached prefix is not sent, and its handle is never acknowledged."""
    store, outcome = moved(store, op.request, (WAITING,), RUNNING)
    if outcome.code is not Code.DONE:
        return store, outcome
    return touched_and_sent(config, store, op.request, 0, op.covered), outcome


def validate_unsigned(config: Config, store: Store, op: ReaderTouch) -> Result:
    """C-SHM-9: the id alone."""
    if not busy(store, op.reader, IDLE, TOUCHING):
        return store, NOT_THERE
    worker = store.workers[op.reader]
    good = is_meant(config, store, worker.inbox[0].handle)
    return with_worker(store, op.reader, next_one(worker)), DONE if good else STALE


STRIPPED = M3.era(
    "stripped",
    "store-covered-items-stripped",
    {Schedule: schedule_stripping},
    {Schedule: "C-SHM-5: items in the cached prefix are not sent (#52041, until #54994)"},
)

UNSIGNED = M3.era(
    "unsigned",
    "store-handles-unsigned",
    {Forge: forge, ReaderTouch: validate_unsigned, Read: counting.read, Look: counting.look},
    {
        Forge: "C-SHM-9: the origin of a handle is not checked",
        ReaderTouch: "C-SHM-9: a reader follows any handle",
        Read: "C-SHM-9: a reader follows any handle",
        Look: "C-SHM-9: a reader follows any handle",
    },
)

TOUCHING_UNCHECKED = M3.era(
    "touch-unchecked",
    "store-touch-unchecked",
    {ReaderTouch: touch_by_count},
    {ReaderTouch: "C-SHM-10: a worker's touch counts on any chunk (as in M2, whose clearing hides it)"},
)
