"""What a worker does with the handles that it was sent, normatively: it looks, copies, looks again and acknowledges.

Workers write nothing but their own cell. So no lock is needed, and nothing that a worker does can hurt a chunk, be its
handle good, late or made up (C-SHM-2, C-SHM-9, C-SHM-10).
"""

from __future__ import annotations

from cachespec.kernel import ABSENT as NOT_THERE
from cachespec.kernel import DONE, STALE, Code, Outcome
from cachespec.object_store.configuration import NOTHING, Config, Reader
from cachespec.object_store.memory import found_at
from cachespec.object_store.operations import Acknowledge, Copy, Look, Read
from cachespec.object_store.state import (
    COPIED,
    IDLE,
    LOOKED,
    READING,
    Block,
    Delivery,
    Handle,
    Store,
    Worker,
    with_worker,
)

Result = tuple[Store, Outcome]


def busy(store: Store, reader: Reader, doing: int, task: int) -> bool:
    """Whether the worker is so far, and this is what it has to do next."""
    worker = store.workers[reader]
    return worker.doing == doing and worker.inbox != () and worker.inbox[0].task == task


def is_meant(block: Block, handle: Handle) -> bool:
    """SHM-5, SHM-10: id, epoch and content have to be what the handle says (C-SHM-7, C-SHM-9)."""
    return (block.identity, block.epoch, block.content) == (handle.identity, handle.epoch, handle.content)


def read(config: Config, store: Store, op: Read) -> Result:
    """The three steps, with nothing in between."""
    if not busy(store, op.reader, IDLE, READING):
        return store, NOT_THERE
    store, outcome = look(config, store, Look(op.reader))
    if outcome.code is not Code.DONE:
        return store, outcome
    store, _ = copy(config, store, Copy(op.reader))
    return acknowledge(config, store, Acknowledge(op.reader))


def look(config: Config, store: Store, op: Look) -> Result:
    """SHM-10: a handle that does not name what is there is given up before a byte is read.

    SHM-3: what the worker has acknowledged is in its own memory, and is neither read nor acknowledged twice, be the
    request resumed (C-SHM-6) or its message delivered twice.
    """
    if not busy(store, op.reader, IDLE, READING):
        return store, NOT_THERE
    worker, delivery = store.workers[op.reader], store.workers[op.reader].inbox[0]
    if worker.acknowledged.has((delivery.request, delivery.position)):
        return with_worker(store, op.reader, next_one(worker)), Outcome(Code.HIT, (delivery.handle.content,))
    if not is_meant(found_at(config, store, delivery.handle), delivery.handle):
        return with_worker(store, op.reader, next_one(worker)), STALE
    return with_worker(store, op.reader, worker._replace(doing=LOOKED)), DONE


def next_one(worker: Worker) -> Worker:
    """The worker is done with what it was sent first."""
    return worker._replace(inbox=worker.inbox[1:], doing=IDLE, copied=NOTHING)


def copy(config: Config, store: Store, op: Copy) -> Result:
    """The bytes stored there, of any item."""
    if not busy(store, op.reader, LOOKED, READING):
        return store, NOT_THERE
    worker = store.workers[op.reader]
    copied = found_at(config, store, worker.inbox[0].handle).data
    return with_worker(store, op.reader, worker._replace(doing=COPIED, copied=copied)), DONE


def acknowledge(config: Config, store: Store, op: Acknowledge) -> Result:
    """SHM-10: what was overwritten in the meantime is thrown away (C-SHM-14). SHM-9: into the worker's own cell."""
    if not busy(store, op.reader, COPIED, READING):
        return store, NOT_THERE
    worker, delivery = store.workers[op.reader], store.workers[op.reader].inbox[0]
    if not is_meant(found_at(config, store, delivery.handle), delivery.handle):
        return with_worker(store, op.reader, next_one(worker)), STALE
    return with_worker(store, op.reader, next_one(noted(worker, delivery))), used(worker.copied)


def noted(worker: Worker, delivery: Delivery) -> Worker:
    """The handle is acknowledged. One that was revoked has no number in the array any more, and nothing is noted."""
    if delivery.handle.standing == 0:
        return worker
    return worker._replace(acknowledged=worker.acknowledged.set((delivery.request, delivery.position), 1))


def used(content: int) -> Outcome:
    """The bytes of one content, or of none in particular."""
    return Outcome(Code.HIT, (content,) if content >= 0 else ())
