"""P0's calls on the store, normatively: the only ones that write the books and the memory."""

from __future__ import annotations

from cachespec.kernel import ABSENT as NOT_THERE
from cachespec.kernel import DONE, PRESENT, REFUSED, TOO_LARGE, Code, Outcome
from cachespec.object_store.accounting import enter, forget, issue, may_go, settle, withdraw
from cachespec.object_store.configuration import (
    NOTHING,
    UNLIMITED,
    Config,
    Position,
    Request,
    content_of,
    positions,
    ring_config,
)
from cachespec.object_store.memory import place_of, write, write_data, write_header
from cachespec.object_store.operations import Clear, FreeUnused, GetCached, Put, Release, Render, Touch
from cachespec.object_store.operations import Store as StorePart
from cachespec.object_store.state import (
    ABSENT,
    RAW,
    RENDERING,
    Block,
    Handle,
    Journey,
    Slot,
    Store,
    Writing,
    with_request,
)
from cachespec.ring import free_chunks, reserve
from cachespec.ring.configuration import Address, Id

Result = tuple[Store, Outcome]


# The walk over a request --------------------------------------------------------------------------------------------


def may_begin(config: Config, store: Store) -> bool:
    """Whether P0 may start rendering another request; first it releases what an abandoned walk has left protected."""
    rendering = [journey for journey in store.requests if journey.phase == RENDERING]
    left = store.protected.length > 0 and walker(config, store) == NOTHING
    return len(rendering) < config.concurrent and not left


def walker(config: Config, store: Store) -> Request:
    """The request that P0 walks: it has touched or walked an item, and not walked all; -1 if there is none."""
    for request in range(len(config.requests)):
        journey = store.requests[request]
        begun = journey.phase == RENDERING and journey.touched + journey.walked > 0
        if begun and journey.walked < len(config.requests[request]):
            return request
    return NOTHING


def may_walk(config: Config, store: Store, request: Request) -> bool:
    """SHM-7: P0 renders several requests at a time and walks one: a walk protects its items alone (C-SHM-19)."""
    current = walker(config, store)
    return current == request or (current == NOTHING and store.protected.length == 0)


def unused(store: Store, request: Request) -> bool:
    """Whether nothing is left of a former request of this name."""
    return store.requests[request].phase == ABSENT and not has_to_do(store, request)


def has_to_do(store: Store, request: Request) -> bool:
    """Whether some worker has something left to do for the request."""
    return any(delivery.request == request for worker in store.workers for delivery in worker.inbox)


def next_item(store: Store, request: Request, position: Position) -> bool:
    """Whether this is the item that P0 walks next."""
    journey = store.requests[request]
    return journey.phase == RENDERING and journey.walked == position and store.writing == ()


def walks_next(config: Config, store: Store, op: GetCached | Put) -> bool:
    """Whether this is the next item of the only walk."""
    return next_item(store, op.request, op.position) and may_walk(config, store, op.request)


def render(config: Config, store: Store, op: Render) -> Result:
    """A look-up changes nothing that another process sees."""
    if not may_begin(config, store) or not unused(store, op.request) or store.renders_left == 0:
        return store, NOT_THERE
    found: tuple[int, ...] = ()
    for position in positions(config, op.request):
        found = (*found, 1 if store.listed.has(content_of(config, op.request, position)) else 0)
    left = store.renders_left if store.renders_left == UNLIMITED else store.renders_left - 1
    begun = with_request(store, op.request, Journey(RENDERING, found))._replace(renders_left=left)
    return begun, Outcome(Code.DONE, found)


def touch(config: Config, store: Store, op: Touch) -> Result:
    """SHM-7: in a walk, and in no other at the same time."""
    if not may_walk(config, store, op.request):
        return store, NOT_THERE
    return touched(config, store, op)


def touched(config: Config, store: Store, op: Touch) -> Result:
    """What is touched is protected until it is looked up or released; no count changes (C-SHM-2, C-SHM-10)."""
    journey = store.requests[op.request]
    if journey.phase != RENDERING or journey.touched != op.position:
        return store, NOT_THERE
    content = content_of(config, op.request, op.position)
    after = with_request(store, op.request, journey._replace(touched=journey.touched + 1))
    if not store.listed.has(content):
        return after, NOT_THERE
    return after._replace(protected=after.protected.set(store.listed.get(content, NOTHING), 1)), DONE


def release(config: Config, store: Store, op: Release) -> Result:
    """SHM-7: only between walks, so that no walk loses the protection of what it has touched."""
    return released(config, store, op) if walker(config, store) == NOTHING else (store, NOT_THERE)


def released(config: Config, store: Store, op: Release) -> Result:
    """SHM-8: no protection outlives the walk for which it was asked."""
    for content in range(len(config.payloads)):
        store = store._replace(protected=store.protected.remove(store.listed.get(content, NOTHING)))
    return store, DONE


def walked(store: Store, request: Request, handle: Handle) -> Store:
    """P0 has what it will send for this item."""
    journey = store.requests[request]
    handles = (*journey.handles, handle)
    return with_request(store, request, journey._replace(walked=journey.walked + 1, handles=handles))


def handle_to(store: Store, identity: Id) -> Handle:
    """A handle to a live chunk: content, address, id and epoch together name it (C-SHM-7, C-SHM-9)."""
    content, epoch = store.owners.get(identity, NOTHING), store.epochs.get(identity, NOTHING)
    return Handle(content, store.ring.starts.get(identity, NOTHING), identity, epoch)


def handed_out(store: Store, request: Request, position: Position, identity: Id, code: Code) -> Result:
    """SHM-3: the handle and its ticket come into being in the same step."""
    handle = handle_to(store, identity)
    issued = issue(store, (request, position), identity)
    return walked(issued, request, handle), Outcome(code, (handle.address, identity))


def get_cached(config: Config, store: Store, op: GetCached) -> Result:
    """A hit: one handle more is out."""
    content = content_of(config, op.request, op.position)
    if not walks_next(config, store, op) or not store.listed.has(content):
        return store, NOT_THERE
    return handed_out(store, op.request, op.position, store.listed.get(content, NOTHING), Code.HIT)


def put(config: Config, store: Store, op: Put) -> Result:
    """SHM-7: what is refused leaves every index as it was, but for chunks that nobody needs; the item is sent raw.

    What P0 expected to find and does not find it processes now; it does not fail (C-MIR-9, C-SHM-17).
    """
    content = content_of(config, op.request, op.position)
    if not walks_next(config, store, op):
        return store, NOT_THERE
    if store.listed.has(content):
        return store, PRESENT
    if config.payloads[content] > config.largest:
        return walked(store, op.request, RAW), TOO_LARGE
    roomy = with_room(config, settled(config, store), config.payloads[content])
    ring, outcome = reserve(ring_config(config), roomy.ring, config.payloads[content])
    if outcome.code is Code.REFUSED:
        return walked(drained(roomy), op.request, RAW), REFUSED
    identity = roomy.ring.id_end
    entered = written(config, enter(roomy, ring, content, identity), identity)
    return handed_out(entered, op.request, op.position, identity, Code.DONE)


# Room ---------------------------------------------------------------------------------------------------------------


def settled(config: Config, store: Store) -> Store:
    """SHM-3: every handle that all readers have acknowledged, each in its own cell, is settled."""
    for request in range(len(config.requests)):
        for position in positions(config, request):
            if is_acknowledged(store, (request, position)):
                store = settle(store, (request, position))
    return store


def is_acknowledged(store: Store, slot: Slot) -> bool:
    """Whether every worker's cell has this handle."""
    missing = [worker for worker in store.workers if not worker.acknowledged.has(slot)]
    return missing == []


def with_room(config: Config, store: Store, payload: int) -> Store:
    """SHM-8: chunks go, the oldest first, until there is room or one may not go.

    To stop after a fixed number of units may leave two halves on either side of the end of the data (C-SHM-13).
    """
    while lacks_room(config, store, payload):
        store = without_oldest(config, store)
    return store


def lacks_room(config: Config, store: Store, payload: int) -> bool:
    """The test of the freeing loop."""
    _, outcome = reserve(ring_config(config), store.ring, payload)
    return outcome.code is Code.REFUSED and oldest_may_go(store)


def oldest_may_go(store: Store) -> bool:
    """SHM-2, SHM-6: whether there is an oldest chunk and it is not needed."""
    oldest = store.ring.id_start
    return store.ring.starts.has(oldest) and may_go(store, oldest)


def without_oldest(config: Config, store: Store) -> Store:
    """The body of the freeing loops: the ring has one chunk less. SHM-6: the oldest one."""
    oldest = store.ring.id_start
    ring, _ = free_chunks(ring_config(config), store.ring, lambda identity: identity == oldest, 1)
    return forget(store._replace(ring=ring), oldest)


def drained(store: Store) -> Store:
    """SHM-8: the oldest chunk stands in the way; as nobody gets another handle to it, it will go (C-SHM-8)."""
    oldest = store.ring.id_start
    if not store.ring.starts.has(oldest) or store.protected.has(oldest):
        return store
    content = store.owners.get(oldest, NOTHING)
    return withdraw(store, oldest, content)._replace(blocking=oldest)


def free_unused(config: Config, store: Store, op: FreeUnused) -> Result:
    """SHM-6: frees unneeded chunks from the oldest on. Returns their ids."""
    store = settled(config, store)
    gone: tuple[Id, ...] = ()
    while oldest_may_go(store):
        gone = (*gone, store.ring.id_start)
        store = without_oldest(config, store)
    return store, Outcome(Code.DONE, gone)


def clear(config: Config, store: Store, op: Clear) -> Result:
    """X-4: no item is found any more, and holders of handles still read their items (C-SHM-7, C-SHM-12).

    What nobody needs goes at once, and the rest when its handles are settled.
    """
    for content in range(len(config.payloads)):
        identity = store.listed.get(content, NOTHING)
        store = withdraw(store, identity, content)._replace(protected=store.protected.remove(identity))
    store = settled(config, store)
    while oldest_may_go(store):
        store = without_oldest(config, store)
    return store, DONE


# Memory -------------------------------------------------------------------------------------------------------------


def written(config: Config, store: Store, identity: Id) -> Store:
    """The chunk is in the memory, or P0 begins to write it; its handle is sent when every store is visible."""
    address: Address = store.ring.starts.get(identity, 0)
    content = store.owners.get(identity, NOTHING)
    total = store.ring.sizes.get(identity, 0)
    block = Block(identity, store.epochs.get(identity, NOTHING), content, content, total)
    place = place_of(config, address)
    if config.stores == 0:
        return store._replace(memory=write(config, store.memory, place, block))
    return store._replace(writing=(Writing(place, block),))


def store_part(config: Config, store: Store, op: StorePart) -> Result:
    """SHM-10: the header is visible before the data behind it changes, whatever the machine does: there is a fence.

    So a reader that looks again after it has copied sees that the chunk has changed (C-SHM-14, C-SHM-16).
    """
    if store.writing == () or (op.part == 1 and store.writing[0].header == 0):
        return store, NOT_THERE
    return stored_part(config, store, op)


def stored_part(config: Config, store: Store, op: StorePart) -> Result:
    """The header, or the data, if it is not visible yet."""
    writing = store.writing[0]
    if op.part == 0 and writing.header == 0:
        memory = write_header(config, store.memory, writing)
        return continued(store._replace(memory=memory), writing._replace(header=1)), DONE
    if op.part == 1 and writing.data == 0:
        memory = write_data(config, store.memory, writing)
        return continued(store._replace(memory=memory), writing._replace(data=1)), DONE
    return store, NOT_THERE


def continued(store: Store, writing: Writing) -> Store:
    """P0 goes on when both are visible."""
    return store._replace(writing=() if writing.header == 1 and writing.data == 1 else (writing,))
