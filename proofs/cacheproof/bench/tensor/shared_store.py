"""Items in our shared memory, with the bytes copied in and out."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from cacheimpl.object_store import MsgpackSerde, SingleWriterShmObjectStorage
from cacheimpl.object_store.handles import SEAL, TAG, Handle, Seals
from cacheimpl.object_store.serde import ObjectSerde, Serialized
from cacheimpl.ring import SingleWriterShmRingBuffer
from cacheproof.bench.copies import Copies, content, counted
from cacheproof.bench.measure import Work

ROOM = 4096
"""Bytes of an item beside its payload; no header is larger."""


class Bytes:
    """An item is its bytes."""

    def serialize(self, value: Any) -> Serialized:
        """Data without a description."""
        return value, len(value), b"", 0

    def deserialize(self, data_view: memoryview) -> memoryview:
        """The copy that the store made."""
        return data_view


class SharedItems:
    """One writer, and one reader that has attached the writer's segment."""

    serde: type[ObjectSerde] = Bytes

    def __init__(self, call: str, kib: int, items: int, times: int) -> None:
        torch.set_num_threads(1)
        size = kib << 10
        ring = SingleWriterShmRingBuffer(items * (size + ROOM), create=True)
        self.writer = SingleWriterShmObjectStorage(size + ROOM, 1, ring, self.serde)
        self.reader = SingleWriterShmObjectStorage.create_from_handle(self.writer.handle(), reader=0)
        self.call, self.item, self.times = call, self.item_of(content(kib)), times

    def item_of(self, data: bytes) -> Any:
        """The item that is put."""
        return data

    def size_of(self, item: Any) -> int:
        """Bytes of what was got."""
        return len(item)

    def warm_up(self) -> None:
        """Run a turn that is not counted."""
        self.turn(-1)

    def turn(self, number: int) -> Work:
        """Put and get `times` items."""
        seconds, read = 0.0, 0
        for place in range(self.times):
            key = f"{number} {place}"
            started = time.process_time()
            address, identity = self.writer.put(key, self.item)
            signature = self.writer.get_signature(key)
            between = time.process_time()
            read += self.size_of(self.reader.get(address, identity, signature, key))  # the memory is free again
            ended = time.process_time()
            seconds += counted(self.call, between - started, ended - between)
        return Work(self.times, [read], seconds)


# Items with a description -------------------------------------------------------------------------------------------


def as_item(data: bytes) -> dict[str, Any]:
    """A picture as a processor gives it: rows of halves, and their positions."""
    return {"pixels": torch.frombuffer(bytearray(data), dtype=torch.float16).reshape(-1, 64), "grid": (1, 2, 2)}


class SharedTensors(SharedItems):
    """The same with pictures."""

    serde = MsgpackSerde

    def item_of(self, data: bytes) -> Any:
        """A picture."""
        return as_item(data)

    def size_of(self, item: Any) -> int:
        """Bytes of the picture's rows."""
        return int(item["pixels"].nbytes)


class CopiedTensors(Copies):
    """One tensor for each picture."""

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Put and get `times` pictures."""
        rows = as_item(self.data)["pixels"]
        buffers = [torch.frombuffer(buffer, dtype=rows.dtype).reshape(rows.shape) for buffer in self.buffers]
        seconds, read = 0.0, 0
        for place in range(self.times):
            started = time.process_time()
            buffer = buffers[place % len(buffers)].copy_(rows)
            between = time.process_time()
            read += buffer.clone().nbytes
            ended = time.process_time()
            seconds += counted(self.call, between - started, ended - between)
        return Work(self.times, [read], seconds)


# Without what guarantees need: to measure it, and for nothing else ---------------------------------------------------


class NoSeals(Seals):
    """Handles and chunks without a seal, which any process could make up."""

    TICKET = struct.Struct("<QIQ")

    def signature(self, key: str, address: int, identity: int, epoch: int, cell: int, number: int) -> bytes:  # noqa: ARG002  # as there
        """A handle's epoch, cell and number, without a seal."""
        return self.TICKET.pack(epoch, cell, number) + bytes(SEAL)

    def verify(self, handle: Handle, signature: bytes) -> None:
        """Accept every handle."""

    def tag(self, *_said: object) -> bytes:
        """Return the same seal for every chunk."""
        return bytes(TAG)


def without_barriers(items: SharedItems) -> None:
    """Make no system call to order stores."""
    for store in (items.writer, items.reader):
        store.ring_buffer.segment.barrier = lambda: None  # type: ignore[method-assign]  # of this segment only


def without_seals(items: SharedItems) -> None:
    """Make no keyed hash."""
    for seals in (items.writer.writer.seals, items.reader.reader.attachment.seals):
        seals.__class__ = NoSeals


def without_both(items: SharedItems) -> None:
    """Make neither the system call nor the keyed hash."""
    without_barriers(items)
    without_seals(items)


LEFT_OUT: Mapping[str, Callable[[SharedItems], None]] = {
    "barriers": without_barriers,
    "seals": without_seals,
    "barriers and seals": without_both,
}
