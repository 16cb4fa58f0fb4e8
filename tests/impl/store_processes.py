"""Processes for tests of the object store: each does what it is told through a pipe, and stops where it is told."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any

import torch

from cacheimpl.object_store import SingleWriterShmObjectStorage
from cacheimpl.ring import SingleWriterShmRingBuffer
from cacheimpl.ring.errors import NoWriterYetError, RingError
from cacheimpl.ring.segment import Segment

Handle = tuple[int, int, list[int], str]
"""Address, id, signature and key."""

RING_BYTES, ITEM_BYTES, READERS = 1 << 20, 100_000, 2
SECONDS = 60.0
"""Longer than anything takes here; who waits so long hangs."""


def item(key: str, version: int = 0) -> dict[str, Any]:
    """What is stored under a key: every element says so."""
    number = sum(map(ord, key)) * 1000 + version
    return {"key": key, "version": version, "pixels": torch.full((ITEM_BYTES // 8,), number, dtype=torch.int64)}


def is_whole(found: dict[str, Any]) -> bool:
    """Whether this is one item, from the first byte to the last."""
    expected = item(found["key"], found["version"])["pixels"]
    return bool(torch.equal(found["pixels"], expected))


# Inside a child -----------------------------------------------------------------------------------------------------


def stop_here(connection: Connection) -> None:
    """Say that the point is reached, and stay."""
    connection.send("there")
    while True:
        signal.pause()


def stop_at_barrier(connection: Connection, which: int) -> None:
    """From now on the process stops at its barrier of this number."""
    left, barrier = [which], Segment.barrier

    def counted(segment: Segment) -> None:
        if left[0] == 0:
            stop_here(connection)
        left[0] -= 1
        barrier(segment)

    Segment.barrier = counted  # type: ignore[method-assign,assignment]  # in a process that will be killed


class StopsInTheData(SingleWriterShmObjectStorage):
    """Its writer stops, where it is to, when half of an item is written."""

    connection: Connection
    stops = False

    def copy_to_buffer(self, data: Any, data_bytes: int, metadata: bytes, md_bytes: int, data_view: memoryview) -> None:
        if not self.stops:
            super().copy_to_buffer(data, data_bytes, metadata, md_bytes, data_view)
            return
        half = (self.flag_bytes + md_bytes + data_bytes) // 2
        data_view[self.flag_bytes : half] = b"\xff" * (half - self.flag_bytes)
        stop_here(self.connection)


def serve(connection: Connection, calls: dict[str, Callable[..., Any]]) -> None:
    """Answer until there is nobody who asks. What a call raises is the name of its type."""
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = calls[name](*arguments)
        except (RingError, KeyError) as error:
            answer = type(error).__name__
        connection.send(answer)
        if name == "close":
            return


def write(connection: Connection, name: str) -> None:
    """A writer."""
    torch.set_num_threads(1)
    try:
        ring = SingleWriterShmRingBuffer(RING_BYTES, name, create=True)
    except RingError as error:
        connection.send(type(error).__name__)
        return
    store = StopsInTheData(ITEM_BYTES * 2, READERS, ring)
    store.connection = connection

    def put(key: str, version: int = 0, stops: bool = False) -> Handle:
        store.stops = stops
        address, identity = store.put(key, item(key, version))
        return address, identity, store.get_signature(key), key

    def hit(key: str) -> Handle:
        address, identity = store.get_cached(key)
        return address, identity, store.get_signature(key), key

    calls: dict[str, Callable[..., Any]] = {
        "put": put,
        "hit": hit,
        "revoke": store.revoke,
        "free": store.free_unused,
        "live": lambda: dict(store.writer_flag),
        "alive": store.readers_alive,
        "stop_at_barrier": lambda which: stop_at_barrier(connection, which),
        "close": store.close,
    }
    serve(connection, calls)


def attached(name: str) -> SingleWriterShmRingBuffer:
    """As soon as there is a segment: while a writer replaces that of the last one, there is none."""
    last = time.monotonic() + SECONDS
    while True:
        try:
            return SingleWriterShmRingBuffer(RING_BYTES, name)
        except NoWriterYetError:
            if time.monotonic() > last:
                raise
            time.sleep(0.01)


def read(connection: Connection, name: str, reader: int | None) -> None:
    """A reader."""
    torch.set_num_threads(1)
    ring = attached(name)
    lock = Lock() if reader is None else None
    try:
        store = SingleWriterShmObjectStorage(ITEM_BYTES * 2, READERS, ring, reader_lock=lock, reader=reader)
    except RingError as error:
        connection.send(type(error).__name__)
        return

    def get(*handle: Any) -> tuple[str, int, bool]:
        found = store.get(*handle)
        return found["key"], found["version"], is_whole(found)

    def stop_in_view(*handle: Any) -> None:
        with store.view(*handle) as found:
            assert is_whole(found)
            stop_here(connection)

    calls: dict[str, Callable[..., Any]] = {
        "get": get,
        "stop_in_view": stop_in_view,
        "stop_at_barrier": lambda which: stop_at_barrier(connection, which),
        "close": store.close,
    }
    serve(connection, calls)


# Outside ------------------------------------------------------------------------------------------------------------


class Child:
    """One process."""

    def __init__(self, method: str, target: Callable[..., None], *arguments: Any) -> None:
        context: Any = get_context(method)
        if method == "forkserver":
            context.set_forkserver_preload([__name__])
        self._here, there = context.Pipe()
        self.process = context.Process(target=target, args=(there, *arguments), daemon=True)
        self.process.start()
        there.close()

    def ask(self, name: str, *arguments: Any) -> Any:
        """The answer to one call."""
        self._here.send((name, arguments))
        return self.answer()

    def answer(self) -> Any:
        """What the process says next."""
        assert self._here.poll(SECONDS), "it hangs"
        return self._here.recv()

    def stop(self, name: str, *arguments: Any) -> None:
        """Begin with a call in which the process stops, and wait until it is there."""
        assert self.ask(name, *arguments) == "there"

    def kill(self) -> None:
        """`kill -9`; returns when the process is gone."""
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()

    def close(self) -> None:
        """A clean stop."""
        if self.process.is_alive():
            self.ask("close")
            self._here.close()
            self.process.join()


@contextmanager
def children() -> Iterator[Callable[..., Child]]:
    """Makes processes, all of which are gone afterwards."""
    made: list[Child] = []

    def start(target: Callable[..., None], *arguments: Any, method: str = "forkserver") -> Child:
        made.append(Child(method, target, *arguments))
        return made[-1]

    try:
        yield start
    finally:
        for child in made:
            if child.process.is_alive():
                child.kill()
