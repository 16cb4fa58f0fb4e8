"""The release's `SingleWriterShmRingBuffer`: one writer, and readers that have its memory attached.

The class keeps the widths of a chunk's fields and the number of ids in attributes of the object; those are set to what
the configuration says, so that ids come round within a run. Everything else is as released.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

from .calls import ABSENT, Calls, DriverError, Reply, integer, operations_of
from .readers import Readers, forget_name, readers_of

MODULE = "vllm.distributed.device_communicators.shm_object_storage"

Handle = tuple[int, ...]
"""Reader, content, id, place and segment, as a message has them."""


class RingDriver:
    """One ring and its readers."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._class = importlib.import_module(MODULE).SingleWriterShmRingBuffer
        self._writer: Any = None
        self._readers: Readers = readers_of(calls)
        self._count = 0
        self._sizes: list[int] = []
        self._handles: Counter[Handle] = Counter()
        self._unanswered: Counter[int] = Counter()
        self.operations = operations_of(self, calls)

    def reset(self, config: Mapping[str, Any]) -> None:
        """A new ring, attached by so many readers."""
        capacity, width = integer(config, "capacity"), integer(config, "header") // 2
        self._readers.detach()
        self._writer = None
        self._writer = with_fields(self._class(capacity, None, create=True), width, integer(config, "modulus"))
        self._count = integer(config, "readers")
        name = self._writer.shared_memory.name
        self._readers.attach(self._count, attached, capacity, name, width, integer(config, "modulus"))
        forget_name(self._writer)
        self._sizes = list(config["sizes"])
        self._handles.clear()
        self._unanswered.clear()

    def observe(self) -> dict[str, Any]:
        """The writer's table and numbers, and the data."""
        ring = self._writer
        first = getattr(ring, "DATA_OFFSET", 0)
        return {
            "ids": sorted(ring.metadata),
            "addresses": [ring.metadata[identity] for identity in sorted(ring.metadata)],
            "id_start": ring.monotonic_id_start,
            "id_end": ring.monotonic_id_end,
            "start": ring.data_buffer_start,
            "end": ring.data_buffer_end,
            "memory": list(bytes(ring.shared_memory.buf[first : first + ring.data_buffer_size])),
        }

    def do_allocate(self, content: int) -> Reply:
        size = self._sizes[content]
        try:
            address, identity = self._writer.allocate_buf(size)
        except MemoryError:
            return Reply("refused")
        with self._writer.access_buf(address) as (payload, _):
            payload[:] = bytes([content + 1]) * len(payload)  # 0.11.0 may have given out more than the ring has
        place = address % self._writer.data_buffer_size
        self._handles.update((reader, content, identity, place, 0) for reader in range(self._count))
        self._unanswered[identity] = self._count
        return Reply("done", (address, identity))

    def do_read(self, reader: int, content: int, identity: int, place: int, segment: int) -> Reply:
        handle = (reader, content, identity, place, segment)
        if not self._handles[handle]:
            return ABSENT
        self._handles[handle] -= 1
        reply = self._readers.perform(reader, found, identity, place)
        if reply.code == "hit":
            self._unanswered[identity] -= 1
        return reply

    def do_free(self, want: int) -> Reply:
        freed = tuple(self._writer.free_buf(lambda identity, payload: self._unanswered[identity] <= 0, want))
        for identity in freed:
            del self._unanswered[identity]
        return Reply("done", freed)

    def do_clear(self) -> None:
        self._unanswered.clear()
        self._writer.clear()

    def do_revoke(self) -> Reply:
        raise DriverError("no release has this call")

    do_restart = do_revoke


def with_fields(ring: Any, width: int, modulus: int) -> Any:
    """The release's object with fields of this width, and so many ids."""
    ring.ID_NBYTES = ring.SIZE_NBYTES = width
    ring.MD_SIZE = 2 * width
    ring.ID_MAX = modulus
    return ring


def attached(lock: Any, capacity: int, name: str, width: int, modulus: int) -> Any:
    """A reader. Those of a ring need no lock: they write nothing."""
    released = importlib.import_module(MODULE).SingleWriterShmRingBuffer
    return with_fields(released(capacity, name, create=False), width, modulus)


def found(ring: Any, identity: int, place: int) -> Reply:
    """The comparison of ids is made by the caller of the ring, in every release."""
    with ring.access_buf(place) as (payload, (there, _)):
        return Reply("hit", tuple(bytes(payload))) if there == identity else Reply("stale")
