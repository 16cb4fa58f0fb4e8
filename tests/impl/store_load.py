"""One writer and several readers of an object store at full speed, each in a process that is killed at random times.

The processes share the store and a folder. The writer appends each handle to a file, and the readers read the recent
handles of that file as fast as they can. A wrong item is appended to another file. Seeds choose items and kills; the
point at which a kill strikes depends on time too.
"""

from __future__ import annotations

import base64
import json
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import torch

from cacheimpl.object_store import SingleWriterShmObjectStorage
from cacheimpl.object_store.errors import AlreadyStoredError, StaleHandleError, StoreFullError
from cacheimpl.ring import SingleWriterShmRingBuffer
from cacheimpl.ring.errors import NoWriterYetError, ReaderTakenError

RING_BYTES, LARGEST, READERS = 1 << 18, 1 << 17, 3
KEYS, HANDLES_OUT = 12, 24
SECONDS = 60.0
"""After which a process that does nothing hangs."""
PROCESSES = get_context("forkserver")


class Tally(NamedTuple):
    """What happened in a run."""

    kills: int
    stops: int
    reads: int
    stale: int


def words_of(key: str, version: int, count: int) -> torch.Tensor:
    """What is stored: every word says whose it is."""
    return torch.full((count,), int(key) << 32 | version, dtype=torch.int64)


def append(path: Path, *values: Any) -> None:
    """One line, with one system call: a process that is killed leaves whole lines."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, json.dumps(values).encode() + b"\n")
    finally:
        os.close(descriptor)


def write(folder: Path, name: str, seed: int) -> None:
    """Put, look up and revoke until killed; versions go on where the last writer was killed."""
    torch.set_num_threads(1)
    choose, out = random.Random(seed), list[tuple[int, int, list[int], str]]()
    ring = SingleWriterShmRingBuffer(RING_BYTES, name, create=True)
    store = SingleWriterShmObjectStorage(LARGEST, READERS, ring)
    version, versions = seed << 16, dict[str, tuple[int, int]]()
    while True:
        key = str(choose.randrange(KEYS))
        try:
            if store.is_cached(key):
                address, identity = store.get_cached(key)
            else:
                version, count = version + 1, choose.randrange(1, 12_000)
                address, identity = store.put(key, {"version": version, "words": words_of(key, version, count)})
                versions[key] = version, count
        except (StoreFullError, AlreadyStoredError):
            store.revoke(*out.pop(choose.randrange(len(out)))) if out else store.free_unused()
            continue
        handle = address, identity, store.get_signature(key), key
        out.append(handle)
        append(folder / "handles", *handle[:2], base64.b64encode(bytes(handle[2])).decode(), key, *versions[key])
        while len(out) > HANDLES_OUT or (out and choose.random() < 0.3):
            store.revoke(*out.pop(choose.randrange(len(out))))


def attached(name: str) -> SingleWriterShmRingBuffer:
    """As soon as there is a segment: a killed writer's is replaced by the next one."""
    last = time.monotonic() + SECONDS
    while True:
        try:
            return SingleWriterShmRingBuffer(RING_BYTES, name)
        except NoWriterYetError:
            assert time.monotonic() < last, "there is no segment"
            time.sleep(0.001)


def read(folder: Path, name: str, seed: int, reader: int) -> None:
    """Read recent handles until killed; what is got must be whole, and what its handle says."""
    torch.set_num_threads(1)
    choose = random.Random(seed)
    store = SingleWriterShmObjectStorage(LARGEST, READERS, attached(name), reader=reader)
    good = stale = 0
    while True:
        with (folder / "handles").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 12_000))
            lines = file.read().splitlines()[1:]
        for line in lines and choose.choices(lines, k=20):
            with suppress(ValueError):
                address, identity, signature, key, version, count = json.loads(line)
                try:
                    found = store.get(address, identity, list(base64.b64decode(signature)), key)
                except (StaleHandleError, ReaderTakenError, NoWriterYetError):
                    stale += 1
                    continue
                good += 1
                if found["version"] != version or not torch.equal(found["words"], words_of(key, version, count)):
                    append(folder / "wrong", key, version, found["version"])
        if good:
            append(folder / "tally", good, stale)
            good = stale = 0
        else:
            time.sleep(0.001)


class Load:
    """The processes of one run."""

    def __init__(self, folder: Path, name: str, seed: int) -> None:
        self.folder, self.name, self.choose = folder, name, random.Random(seed)
        self.lives = self.kills = self.stops = 0
        PROCESSES.set_forkserver_preload([__name__])
        (folder / "handles").touch()
        self.writer = self.started(write)
        self.readers = [self.started(read, number) for number in range(READERS)]

    def started(self, what: Callable[..., None], *arguments: int) -> BaseProcess:
        self.lives += 1
        process = PROCESSES.Process(target=what, args=(self.folder, self.name, self.lives, *arguments), daemon=True)
        process.start()
        return process

    def run(self, kills: int) -> Tally:
        """So many kills, and about a third as many stops, each a moment after the last; then everything is drained."""
        try:
            while self.kills < kills:
                self.wait_for_reads()
                time.sleep(self.choose.random() * 0.02)
                self.strike()
        finally:
            for process in (self.writer, *self.readers):
                process.kill()
                process.join(SECONDS)
        assert not (self.folder / "wrong").exists(), (self.folder / "wrong").read_text()
        self.drain()
        tallies = [json.loads(line) for line in (self.folder / "tally").read_text().splitlines()]
        return Tally(self.kills, self.stops, *(sum(column) for column in zip(*tallies, strict=True)))

    def wait_for_reads(self) -> None:
        """Until some reader has read on; nobody may hang."""
        tally, last = self.folder / "tally", time.monotonic() + SECONDS
        before = tally.stat().st_size if tally.exists() else 0
        while not tally.exists() or tally.stat().st_size == before:
            assert time.monotonic() < last, "nothing is read any more"
            dead = [process for process in (self.writer, *self.readers) if process.exitcode is not None]
            assert not dead, f"ended by itself: {dead}"
            time.sleep(0.001)

    def strike(self) -> None:
        """Kill a reader or the writer, whose place another takes; or stop one for a moment."""
        number = self.choose.randrange(READERS + 1)
        victim = self.writer if number == READERS else self.readers[number]
        assert victim.pid is not None
        if self.choose.random() < 0.25:
            self.stops += 1
            os.kill(victim.pid, signal.SIGSTOP)
            time.sleep(self.choose.random() * 0.02)
            os.kill(victim.pid, signal.SIGCONT)
            return
        self.kills += 1
        os.kill(victim.pid, signal.SIGKILL)
        victim.join(SECONDS)
        if number == READERS:
            self.writer = self.started(write)
        else:
            self.readers[number] = self.started(read, number)

    def drain(self) -> None:
        """The next writer begins with nothing, frees all it stores, and takes the segment along."""
        ring = SingleWriterShmRingBuffer(RING_BYTES, self.name, create=True)
        store = SingleWriterShmObjectStorage(LARGEST, READERS, ring)
        address, identity = store.put("0", words_of("0", 0, 100))
        assert store.readers_alive() == (False,) * READERS
        assert store.revoke(address, identity, store.get_signature("0"), "0")
        assert store.free_unused() == (identity,)
        assert (dict(store.writer_flag), ring.metadata) == ({}, {})
        store.close()
        assert not (Path("/dev/shm") / self.name).exists()
