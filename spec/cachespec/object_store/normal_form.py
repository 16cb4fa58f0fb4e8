"""Canonical form: drops fields that no later operation reads. The explorer keeps states in this form.

Normatively a header is read for one thing: whether it is the one that a handle names. One that no live chunk and no
handle names is as good as none, unless a worker that has looked is about to copy what is behind it.

In the eras readers count in whatever stands at their place, so all of it is kept there. Whole rounds of what was issued
and acknowledged cancel out, but for the last: a touch asks whether there was one.
"""

from __future__ import annotations

from collections.abc import Iterator

from cachespec.object_store.configuration import FIELD, NOTHING, Config
from cachespec.object_store.memory import place_of
from cachespec.object_store.state import LOOKED, Block, Handle, Store
from cachespec.ring.configuration import Place


def normal(config: Config, store: Store) -> Store:
    """The representative of this state."""
    named = {(place_of(config, handle.address), handle.identity, handle.epoch) for handle in handles(store)}
    for identity, address in store.ring.starts.items():
        named.add((place_of(config, address), identity, store.epochs.get(identity, NOTHING)))
    looked = (worker.inbox[:1] for worker in store.workers if worker.doing == LOOKED)
    copying = {place_of(config, delivery.handle.address) for first in looked for delivery in first}
    for place, block in tuple(store.memory.items()):
        if place not in copying and (place, block.identity, block.epoch) not in named:
            store = store._replace(memory=store.memory.remove(place))
    return store


def handles(store: Store) -> Iterator[Handle]:
    """Every handle held by a request or worker."""
    for journey in store.requests:
        yield from (handle for handle in journey.handles if handle.content >= 0)
    for worker in store.workers:
        yield from (delivery.handle for delivery in worker.inbox)


def normal_of_counts(config: Config, store: Store) -> Store:
    """The representative in the eras.

    Where a header is written in a step of its own, nothing is left out: until then P0 finds the count of whatever chunk
    was there before (C-SHM-16).
    """
    if config.stores == 1:
        return store
    read = {place_of(config, address) for _, address in store.ring.starts.items()}
    read |= {place_of(config, handle.address) for handle in handles(store)}
    for place, block in tuple(store.memory.items()):
        if place not in read:
            store = store._replace(memory=store.memory.remove(place))
        elif config.limit == FIELD:
            store = with_fewer_rounds(config, store, place, block)
    return store


def with_fewer_rounds(config: Config, store: Store, place: Place, block: Block) -> Store:
    """One round is left, where there were more. Where the field of a count is small, every count is kept (C-SHM-15)."""
    live = [identity for identity, address in store.ring.starts.items() if place_of(config, address) == place]
    if live not in ([], [block.identity]):
        return store
    rounds = min([block.counter // config.readers, *(store.issued.get(identity, 0) for identity in live)]) - 1
    if rounds <= 0:
        return store
    fewer = block._replace(counter=block.counter - rounds * config.readers)
    for identity in live:
        store = store._replace(issued=store.issued.set(identity, store.issued.get(identity, 0) - rounds))
    return store._replace(memory=store.memory.set(place, fewer))
