"""The release's `SingleWriterShmObjectStorage`: one writer, and readers that have its memory attached.

What is around the store is played here: which handles a request has, and what each worker was sent. The number of ids
is set to what the configuration says, so that ids come round within a run. Items are bytes that repeat one value, which
is no id and no count: a payload where a header or a count was looked for is seen as such.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .adapters import has_trait
from .calls import ABSENT, DONE, Calls, DriverError, Reply, integer, operations_of
from .readers import Readers, forget_name, readers_of

MODULE = "vllm.distributed.device_communicators.shm_object_storage"
COUNT_BYTES = 4
MARK = 0xA0
"""The bytes of content 0; of content 1 they are one more. As the highest byte of a field they make it negative."""
STALE: Mapping[type[Exception], str] = {ValueError: "stale"}
"""What a reader is told whose handle leads to something else."""


class Bytes:
    """Serialises a content as so many bytes, all alike, without metadata."""

    sizes: Sequence[int] = ()

    def serialize(self, content: int) -> tuple[bytes, int, bytes, int]:
        """The payload but for the count, its length, and no metadata."""
        size = self.sizes[content] - COUNT_BYTES
        return bytes([MARK + content]) * size, size, b"", 0

    def deserialize(self, data: memoryview) -> int:
        """The content whose bytes these are; -1: of no single content."""
        found = set(bytes(data))
        return found.pop() - MARK if len(found) == 1 else -1


class Handle(NamedTuple):
    """What P0 sends in the place of an item."""

    key: str
    address: int
    identity: int
    signature: Any = None


class Delivery(NamedTuple):
    """One thing that a worker has to do."""

    request: int
    handle: Handle
    touching: bool


class ObjectStoreDriver:
    """One store and its readers."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._module = importlib.import_module(MODULE)
        self._touches = has_trait("touches", calls.version)
        self._signed = hasattr(self._module.SingleWriterShmObjectStorage, "get_signature")
        self._writer: Any = None
        self._readers: Readers = readers_of(calls)
        self._requests: list[list[int]] = []
        self._touching = self._skipping = False
        self._expected: dict[int, tuple[int, ...]] = {}
        self._handles: dict[int, list[Handle | None]] = {}
        self._inboxes: list[list[Delivery]] = []
        self.operations = operations_of(self, calls)

    def reset(self, config: Mapping[str, Any]) -> None:
        """A new store, attached by so many readers."""
        Bytes.sizes = list(config["payloads"])
        if integer(config, "header") != 2 * COUNT_BYTES:
            raise DriverError("the header of a released chunk has 8 bytes")
        capacity, largest, readers = (integer(config, name) for name in ("capacity", "largest", "readers"))
        self._readers.detach()
        self._writer = None
        ring = self._module.SingleWriterShmRingBuffer(capacity, None, create=True)
        ring.ID_MAX = integer(config, "modulus")
        self._writer = self._module.SingleWriterShmObjectStorage(largest, readers, ring, Bytes)
        self._readers.attach(readers, attached, capacity, ring.shared_memory.name, largest, readers)
        forget_name(ring)
        self._requests = list(config["requests"])
        self._touching = self._touches and integer(config, "touches") == 1
        self._skipping = bool(config.get("skips"))
        self._handles, self._expected = {}, {}
        self._inboxes = [[] for _ in range(readers)]

    def observe(self) -> dict[str, Any]:
        """The writer's indices and numbers, and the counts in memory."""
        return shown(self._writer)

    # P0

    def do_send(self) -> None:
        """Played: P0 and P1 have nothing to do in the store."""

    do_abort = do_end = do_reject = do_send

    def do_render(self, request: int) -> Reply:
        self._handles[request] = []
        keys = [str(content) for content in self._requests[request]]
        self._expected[request] = tuple(int(self._writer.is_cached(key)) for key in keys)
        return Reply("done", self._expected[request])

    def do_touch(self, request: int, position: int) -> Reply:
        key = self._key(request, position)
        there = self._writer.is_cached(key)
        touched = self._calls.done(lambda: self._writer.touch(key))
        return touched if there else ABSENT

    def do_get_cached(self, request: int, position: int) -> Reply:
        key = self._key(request, position)
        return self._issued("hit", request, key, *self._writer.get_cached(key))

    def do_put(self, request: int, position: int) -> Reply:
        """The sender cache fails if an item was found before and is not in the store now: P0 has no data for it."""
        key = self._key(request, position)
        if self._skipping and self._expected[request][position] and not self._writer.is_cached(key):
            return Reply("failed")
        try:
            address, identity = self._writer.put(key, int(key))
        except (MemoryError, ValueError) as error:
            self._handles[request].append(None)  # the item is sent as it is
            return Reply("refused" if isinstance(error, MemoryError) else "too_large")
        return self._issued("done", request, key, address, identity)

    def do_release(self) -> None:
        self._writer.release_touches()

    def do_free_unused(self) -> Reply:
        ring = self._writer.ring_buffer
        start, before = ring.monotonic_id_start, set(self._writer.id_index)
        self._writer.free_unused()
        gone = before - set(self._writer.id_index)
        return Reply("done", tuple(sorted(gone, key=lambda identity: (identity - start) % ring.ID_MAX)))

    def do_clear(self) -> None:
        self._writer.clear()

    def do_forge(self, request: int, content: int) -> Reply:
        """The chunk of another content, under the name of the request's own."""
        key, there = str(self._requests[request][0]), self._writer.key_index.get(str(content))
        if self._signed:
            address, identity = there or (0, 0)
            made_up = [0] * 32
            verify = self._writer.verify_signature
            return self._calls.done(lambda: verify(key, address, identity, made_up), {ValueError: "refused"})
        if there is None:
            return ABSENT
        self._handles[request] = [Handle(key, *there)] + [None] * (len(self._requests[request]) - 1)
        return DONE

    def _key(self, request: int, position: int) -> str:
        return str(self._requests[request][position])

    def _issued(self, code: str, request: int, key: str, address: int, identity: int) -> Reply:
        signature = self._writer.get_signature(key) if self._signed else None
        self._handles[request].append(Handle(key, address, identity, signature))
        return Reply(code, (address, identity))

    # P1

    def do_schedule(self, request: int) -> None:
        handles = [handle for handle in self._handles[request] if handle is not None]
        for inbox in self._inboxes:
            if self._touching:
                inbox.extend(Delivery(request, handle, touching=True) for handle in handles)
            inbox.extend(Delivery(request, handle, touching=False) for handle in handles)

    do_repeat = do_schedule

    def do_resume(self, request: int) -> None:
        """Where handles are signed, a runner sends a resumed request as a new one."""
        if self._signed:
            self.do_schedule(request)

    def do_preempt(self, request: int) -> Reply:
        waiting = any(delivery.request == request for inbox in self._inboxes for delivery in inbox)
        return ABSENT if waiting else DONE

    do_finish = do_preempt

    # Workers

    def do_reader_touch(self, reader: int) -> Reply:
        key, address, identity, signature = self._inboxes[reader].pop(0).handle
        signed = {"signature": signature} if self._signed else {}
        return self._readers.perform(reader, touched, key, address, identity, signed, codes=STALE)

    def do_read(self, reader: int) -> Reply:
        key, address, identity, signature = self._inboxes[reader].pop(0).handle
        signed = (signature, key) if self._signed else ()
        return self._readers.perform(reader, read, address, identity, signed, codes=STALE)


def shown(store: Any) -> dict[str, Any]:
    """The indices and numbers of a writer, and the counts in memory."""
    ring = store.ring_buffer
    start, ids = ring.monotonic_id_start, ring.ID_MAX
    live = sorted(ring.metadata, key=lambda identity: (identity - start) % ids)
    places = [ring.metadata[identity] % ring.data_buffer_size for identity in live]
    listed = sorted((int(key), identity) for key, (_, identity) in store.key_index.items())
    touched = getattr(store, "_touched", ())
    return {
        "contents": [content for content, _ in listed],
        "ids": [identity for _, identity in listed],
        "live": live,
        "places": places,
        "issued": [store.writer_flag.get(identity, 0) for identity in live],
        "acknowledged": [count_of(store, identity, place) for identity, place in zip(live, places, strict=True)],
        "protected": [identity for identity in live if identity in touched],
        "id_start": start,
        "id_end": ring.monotonic_id_end,
        "start": ring.data_buffer_start,
        "end": ring.data_buffer_end,
    }


def count_of(store: Any, identity: int, place: int) -> int:
    """The count at a chunk's place; -1 where P0 keeps no count for it, or another item's bytes are there."""
    if identity not in store.writer_flag:
        return -1
    ring = store.ring_buffer
    first = getattr(ring, "DATA_OFFSET", 0) + place + ring.MD_SIZE
    count: int = ring.byte2int(bytes(ring.shared_memory.buf[first : first + COUNT_BYTES]))
    return max(-1, count)


def attached(lock: Any, capacity: int, name: str, largest: int, readers: int) -> Any:
    """A reader, with the lock that all of them share."""
    module = importlib.import_module(MODULE)
    ring = module.SingleWriterShmRingBuffer(capacity, name, create=False)
    return module.SingleWriterShmObjectStorage(largest, readers, ring, Bytes, lock)


def touched(store: Any, key: str, address: int, identity: int, signed: Mapping[str, Any]) -> Reply:
    """A worker touches what it will read."""
    store.touch(key, address=address, monotonic_id=identity, **signed)
    return DONE


def read(store: Any, address: int, identity: int, signed: tuple[Any, ...]) -> Reply:
    """What is there; no values where its bytes are of no single content."""
    content = store.get(address, identity, *signed)
    return Reply("hit", (content,) if content >= 0 else ())
