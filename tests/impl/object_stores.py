"""One writer and two readers of an object store, in one process."""

from __future__ import annotations

from typing import Any

import torch

from cacheimpl.object_store import SingleWriterShmObjectStorage
from cacheimpl.ring import SingleWriterShmRingBuffer

Handle = tuple[int, int, list[int], str]
"""Address, id, signature and key."""

RING, LARGEST, READERS = 4096, 2048, 2
SMALL = 1000
"""Bytes of data of an item of which three fit."""


class Stores:
    """One writer and two readers."""

    def __init__(self, ring_bytes: int = RING, **settings: Any) -> None:
        self.ring = SingleWriterShmRingBuffer(ring_bytes, create=True, **settings)
        self.writer = SingleWriterShmObjectStorage(LARGEST, READERS, self.ring)
        attach = SingleWriterShmObjectStorage.create_from_handle
        self.readers = [attach(self.writer.handle(), reader=reader) for reader in range(READERS)]

    def put(self, key: str, value: Any = None) -> Handle:
        address, identity = self.writer.put(key, filled(key) if value is None else value)
        return address, identity, self.writer.get_signature(key), key

    def hit(self, key: str) -> Handle:
        return (*self.writer.get_cached(key), self.writer.get_signature(key), key)

    def end(self, *handles: Handle) -> None:
        for handle in handles:
            assert self.writer.revoke(*handle)

    def books(self) -> Any:
        books = self.writer.writer
        parts = (books.key_index, books.id_index, books.issued, books.epochs, books.withdrawn, books.protected)
        placement = self.ring.placement
        numbers = (placement.id_start, placement.id_end, placement.start, placement.end, len(books.tickets))
        return [*map(repr, parts), repr(placement.starts), repr(placement.totals), numbers]

    def close(self) -> None:
        for store in (*self.readers, self.writer):
            store.close()


def filled(key: str, size: int = SMALL) -> torch.Tensor:
    return torch.full((size,), ord(key[0]), dtype=torch.uint8)
