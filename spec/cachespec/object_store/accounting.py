"""P0's books: which handles are out, for which chunk, and which chunks may go.

Nothing here takes a configuration: it is the arithmetic of handles, for any number of contents, requests and readers.
A handle counts from the moment it is issued until it is settled: acknowledged by every reader, or revoked.
"""

from __future__ import annotations

from cachespec.object_store.configuration import NOTHING, Content
from cachespec.object_store.state import Slot, Store
from cachespec.ring import Ring
from cachespec.ring.configuration import Id


def enter(store: Store, ring: Ring, content: Content, identity: Id) -> Store:
    """SHM-4: a chunk is in every index from the same step on, and the content has its metadata.

    SHM-5: the epoch goes up where ids begin again, so that no chunk has the identity of an earlier one (C-SHM-7).
    """
    epoch = store.epoch + 1 if identity == 0 else store.epoch
    return store._replace(
        ring=ring,
        listed=store.listed.set(content, identity),
        owners=store.owners.set(identity, content),
        epochs=store.epochs.set(identity, epoch),
        issued=store.issued.set(identity, 0),
        metadata=store.metadata.set(content, 1),
        epoch=epoch,
    )


def forget(store: Store, identity: Id) -> Store:
    """SHM-4: a chunk leaves every index in the same step, and its content's metadata goes with it."""
    content = store.owners.get(identity, NOTHING)
    left = withdraw(store, identity, content)
    return left._replace(
        owners=left.owners.remove(identity),
        epochs=left.epochs.remove(identity),
        issued=left.issued.remove(identity),
        withdrawn=left.withdrawn.remove(identity),
        protected=left.protected.remove(identity),
        blocking=NOTHING if left.blocking == identity else left.blocking,
    )


def withdraw(store: Store, identity: Id, content: Content) -> Store:
    """The chunk is withdrawn from hand-out; holders of its handles may still read it."""
    if not store.listed.has(content) or store.listed.get(content, NOTHING) != identity:
        return store
    return store._replace(
        listed=store.listed.remove(content),
        metadata=store.metadata.remove(content),
        withdrawn=store.withdrawn.set(identity, 1),
    )


def issue(store: Store, slot: Slot, identity: Id) -> Store:
    """SHM-3: one handle more is out for the chunk. What is handed out needs no protection any more."""
    return store._replace(
        tickets=store.tickets.set(slot, identity),
        issued=store.issued.set(identity, store.issued.get(identity, 0) + 1),
        protected=store.protected.remove(identity),
    )


def settle(store: Store, slot: Slot) -> Store:
    """SHM-3, SHM-11: a handle that every reader acknowledged, or that was revoked, is not counted any more.

    So the count is that of the handles that are out, and does not grow with every hit (C-SHM-15). To settle what is
    settled changes nothing.
    """
    if not store.tickets.has(slot):
        return store
    identity = store.tickets.get(slot, NOTHING)
    return store._replace(
        tickets=store.tickets.remove(slot),
        issued=store.issued.set(identity, store.issued.get(identity, 0) - 1),
    )


def may_go(store: Store, identity: Id) -> bool:
    """SHM-2: no handle to the chunk is out, and P0 is not about to issue one."""
    return store.issued.get(identity, 0) == 0 and not store.protected.has(identity)
