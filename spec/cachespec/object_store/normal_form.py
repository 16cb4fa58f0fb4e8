"""States that differ only in what nobody will ever read are one: the form in which the explorer keeps them.

A chunk that is not live matters only where somebody still has a handle to its place. In the eras, whole rounds of what
was issued and acknowledged cancel out, but for the last: a touch asks whether there was one.
"""

from __future__ import annotations

from collections.abc import Iterator

from cachespec.object_store.configuration import FIELD, Config
from cachespec.object_store.memory import NOBODY, place_of
from cachespec.object_store.state import Store
from cachespec.ring.configuration import Id, Place


def normal(config: Config, store: Store) -> Store:
    """The representative of this state."""
    read = {place for place, identity in readable(config, store) if not is_hidden(store, identity)}
    memory = store.memory
    for place, _ in store.memory.items():  # noqa: PERF102  # a Map has no keys()
        memory = memory if place in read else memory.remove(place)
    return store if memory is store.memory else store._replace(memory=memory)


def readable(config: Config, store: Store) -> Iterator[tuple[Place, Id]]:
    """Where somebody may still look, and for which id: every live chunk, and every handle."""
    for identity, address in store.ring.starts.items():
        yield place_of(config, address), identity
    for handle in (handle for journey in store.requests for handle in journey.handles if handle.content >= 0):
        yield place_of(config, handle.address), handle.identity
    for worker in store.workers:
        yield from ((place_of(config, delivery.handle.address), delivery.handle.identity) for delivery in worker.inbox)


def is_hidden(store: Store, identity: Id) -> bool:
    """Whether P0 is writing this chunk and its header is not visible yet: nobody looks for it there."""
    return any(writing.block.identity == identity and writing.header == 0 for writing in store.writing)


def normal_of_counts(config: Config, store: Store) -> Store:
    """The representative in the eras. Where the field of a count is small, every count is kept (C-SHM-15)."""
    store = normal(config, store)
    for identity, address in store.ring.starts.items():
        place = place_of(config, address)
        block, issued = store.memory.get(place, NOBODY), store.issued.get(identity, 0)
        rounds = min(block.counter // config.readers, issued) - 1
        if config.limit == FIELD and rounds > 0 and block.identity == identity:
            fewer = block._replace(counter=block.counter - rounds * config.readers)
            store = store._replace(
                memory=store.memory.set(place, fewer), issued=store.issued.set(identity, issued - rounds)
            )
    return store
