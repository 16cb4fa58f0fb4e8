"""States that differ only in what nobody will ever read are one: the form in which the explorer keeps them.

A chunk that is not live matters only where somebody still has a handle to its place. In the eras, whole rounds of what
was issued and acknowledged cancel out, but for the last: a touch asks whether there was one.
"""

from __future__ import annotations

from cachespec.object_store.configuration import FIELD, Config
from cachespec.object_store.memory import NOBODY, place_of
from cachespec.object_store.state import Store


def normal(config: Config, store: Store) -> Store:
    """The representative of this state."""
    live = {place_of(config, address) for _, address in store.ring.starts.items()}
    held = {handle.address for journey in store.requests for handle in journey.handles if handle.content >= 0}
    sent = {delivery.handle.address for worker in store.workers for delivery in worker.inbox}
    read = live | {place_of(config, address) for address in held | sent}
    memory = store.memory
    for place, _ in store.memory.items():  # noqa: PERF102  # a Map has no keys()
        memory = memory if place in read else memory.remove(place)
    return store if memory is store.memory else store._replace(memory=memory)


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
