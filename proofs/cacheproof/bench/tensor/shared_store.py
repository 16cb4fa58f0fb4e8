"""Items in our shared memory, with the bytes copied in and out."""

from __future__ import annotations

import time
from typing import Any

import torch

from cacheimpl.msgpack import Buffer
from cacheimpl.object_store import SingleWriterShmObjectStorage
from cacheimpl.ring import SingleWriterShmRingBuffer
from cacheproof.bench.measure import Work

ROOM = 4096
"""Bytes beside an item, more than any header."""


class Bytes:
    """An item is its bytes."""

    def serialize(self, value: Any) -> tuple[Buffer | list[Buffer], int, bytes, int]:
        """Without a description."""
        return value, len(value), b"", 0

    def deserialize(self, data_view: memoryview) -> bytes:
        """A copy."""
        return bytes(data_view)


class SharedItems:
    """One writer, and one reader that has its segment attached."""

    def __init__(self, call: str, kib: int, items: int, times: int) -> None:
        torch.set_num_threads(1)
        size = kib << 10
        ring = SingleWriterShmRingBuffer(items * (size + ROOM), create=True)
        self.writer = SingleWriterShmObjectStorage(size + ROOM, 1, ring, Bytes)
        self.reader = SingleWriterShmObjectStorage.create_from_handle(self.writer.handle(), reader=0)
        self.call, self.data, self.times = call, bytes(size), times

    def warm_up(self) -> None:
        """A turn that is not counted."""
        self.turn(-1)

    def turn(self, number: int) -> Work:
        """So many items in and out."""
        seconds, read = 0.0, 0
        for place in range(self.times):
            key = f"{number} {place}"
            started = time.process_time()
            address, identity = self.writer.put(key, self.data)
            signature = self.writer.get_signature(key)
            between = time.process_time()
            read += len(self.reader.get(address, identity, signature, key))
            ended = time.process_time()
            seconds += between - started if self.call == "put" else ended - between
        return Work(self.times, [read], seconds)
