"""The object store with real processes: what a process leaves that is killed, and that the others go on."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from uuid import uuid4

import pytest
from tests.impl.store_processes import READERS, RING_BYTES, SECONDS, Child, Handle, children, read, write

from cacheimpl.ring import SingleWriterShmRingBuffer, remove_stale, stale_segments
from cacheimpl.ring.errors import ForeignSegmentError, NoSpaceError, WriterAliveError

SHARED = Path("/dev/shm")
Start = Callable[..., Child]


@pytest.fixture
def name() -> Iterator[str]:
    """A name for a segment, of which nothing is left afterwards."""
    chosen = f"cacheproof-test-{uuid4().hex[:12]}"
    yield chosen
    (SHARED / chosen).unlink(missing_ok=True)


@pytest.fixture
def start() -> Iterator[Start]:
    with children() as make:
        yield make


def begun(start: Start, name: str, method: str = "forkserver") -> tuple[Child, list[Child]]:
    """A writer that has begun, and readers that have its segment attached; the method is that of one of them."""
    writer = start(write, name)
    assert writer.ask("live") == {}
    readers = [start(read, name, 0, method=method), start(read, name, 1)]
    last = time.monotonic() + SECONDS
    while writer.ask("alive") != (True,) * READERS:
        assert time.monotonic() < last, "a reader does not attach the segment"
        time.sleep(0.01)
    return writer, readers


def got(key: str, version: int = 0) -> tuple[str, int, bool]:
    """What a reader says that has the whole item."""
    return (key, version, True)


def test_what_one_process_puts_others_read(start: Start, name: str) -> None:
    writer, readers = begun(start, name, method="spawn")
    handle = writer.ask("put", "a")
    assert [reader.ask("get", *handle) for reader in readers] == [got("a")] * READERS
    assert writer.ask("free") == (0,)
    for child in (*readers, writer):
        child.close()
    assert not (SHARED / name).exists()


READ_POINTS = [("stop_in_view", None), ("get", 0), ("get", 1)]
"""In the middle of reading; before the second look; before the acknowledgement."""


@pytest.mark.parametrize(("call", "barrier"), READ_POINTS)
def test_a_reader_that_is_killed_leaves_its_handle_out(start: Start, name: str, call: str, barrier: int | None) -> None:
    writer, (one, two) = begun(start, name)
    handle = writer.ask("put", "a")
    if barrier is not None:
        one.ask("stop_at_barrier", barrier)
    one.stop(call, *handle)
    assert two.ask("get", *handle) == got("a")
    assert writer.ask("alive") == (True, True)
    one.kill()
    assert writer.ask("alive") == (False, True)
    assert writer.ask("free") == ()
    assert writer.ask("live") == {0: 1}
    again = start(read, name, None)
    assert again.ask("get", *handle) == got("a")
    assert writer.ask("alive") == (True, True)
    assert writer.ask("free") == (0,)


def test_what_a_killed_reader_had_acknowledged_is_acknowledged(start: Start, name: str) -> None:
    writer, (one, two) = begun(start, name)
    first, second = writer.ask("put", "a"), writer.ask("put", "b")
    assert one.ask("get", *first) == got("a")
    one.kill()
    assert two.ask("get", *first) == got("a")
    assert writer.ask("free") == (0,)
    assert start(read, name, 0).ask("get", *second) == got("b")
    assert two.ask("get", *second) == got("b")
    assert writer.ask("free") == (1,)


def test_a_handle_that_died_with_its_reader_is_revoked(start: Start, name: str) -> None:
    writer, (one, two) = begun(start, name)
    handle = writer.ask("put", "a")
    one.stop("stop_in_view", *handle)
    one.kill()
    assert writer.ask("revoke", *handle) is True
    assert writer.ask("revoke", *handle) is False
    assert writer.ask("free") == (0,)
    assert two.ask("get", *handle) == got("a")  # nothing is in its place yet
    fresh = writer.ask("put", "b")
    assert two.ask("get", *handle) == "StaleHandleError"
    assert two.ask("get", *fresh) == got("b")
    assert writer.ask("live") == {1: 1}


@pytest.mark.parametrize("barrier", [None, 0, 1])
def test_a_writer_that_is_killed_in_a_put_leaves_what_was_handed_out(
    start: Start, name: str, barrier: int | None
) -> None:
    """Killed with half of the item written; before the header; before the handle is returned."""
    writer, readers = begun(start, name)
    handle = writer.ask("put", "a")
    if barrier is not None:
        writer.ask("stop_at_barrier", barrier)
    writer.stop("put", "b", 0, barrier is None)
    writer.kill()
    assert name in stale_segments()
    assert readers[0].ask("get", *handle) == got("a")

    successor = start(write, name)
    fresh = successor.ask("put", "a", 1)
    assert name not in stale_segments()
    assert [reader.ask("get", *fresh) for reader in readers] == [got("a", 1)] * READERS
    assert readers[1].ask("get", *handle) == got("a")
    assert successor.ask("alive") == (True,) * READERS
    assert successor.ask("free") == (0,)
    assert start(read, name, None).answer() == "ReaderTakenError"
    for child in (*readers, successor):
        child.close()
    assert not (SHARED / name).exists()


def test_a_stale_segment_is_recognised_and_removed(start: Start, name: str) -> None:
    writer = start(write, name)
    writer.ask("put", "a")
    with pytest.raises(WriterAliveError):
        remove_stale(name)
    assert name not in stale_segments()
    writer.kill()
    assert name in stale_segments()
    remove_stale(name)
    assert not (SHARED / name).exists()
    remove_stale(name)


def test_a_name_has_one_living_writer(start: Start, name: str) -> None:
    writer = start(write, name)
    handle = writer.ask("put", "a")
    assert start(write, name).answer() == "WriterAliveError"
    assert start(read, name, 0).ask("get", *handle) == got("a")


INDEPENDENT = """
import sys
from multiprocessing.shared_memory import SharedMemory
how, size, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if how == "ring":
    from cacheimpl.ring import SingleWriterShmRingBuffer
    reader = SingleWriterShmRingBuffer(size, name)
else:
    reader = SharedMemory(name=name)
"""
"""A process that nobody started who knows the writer: its resource tracker is its own."""


@pytest.mark.parametrize("how", ["ring", "plain"])
def test_the_segment_survives_a_reader_that_exits(name: str, how: str) -> None:
    """And what opens it as Python does by default takes it along."""
    ring = SingleWriterShmRingBuffer(RING_BYTES, name, create=True)
    subprocess.run([sys.executable, "-c", INDEPENDENT, how, str(RING_BYTES), name], check=True, capture_output=True)
    survives = how == "ring"
    assert (SHARED / name).exists() is survives
    ring.close()
    assert not (SHARED / name).exists()


def test_a_forked_child_neither_removes_the_segment_nor_keeps_it_locked(name: str) -> None:
    """The writer forks and is killed, the child lives on: the next writer begins at once."""
    script = (
        "import os, sys, time\n"
        "from cacheimpl.ring import SingleWriterShmRingBuffer\n"
        f"ring = SingleWriterShmRingBuffer({RING_BYTES}, {name!r}, create=True)\n"
        "if os.fork() == 0:\n"
        "    ring.close()\n"
        "    print('forked', flush=True)\n"
        "    sys.stdin.read()\n"
        "    os._exit(0)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"forked\n"
        assert (SHARED / name).exists()
        assert name not in stale_segments()
        parent.kill()
        parent.wait()
        assert name in stale_segments()
        SingleWriterShmRingBuffer(RING_BYTES, name, create=True).close()
        assert not (SHARED / name).exists()


ANONYMOUS = """
import os, signal
from cacheimpl.ring import SingleWriterShmRingBuffer
ring = SingleWriterShmRingBuffer(4096, create=True)
print(ring.segment.name, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

UNFINISHED = """
import os, signal, sys
from cacheimpl.ring import SingleWriterShmRingBuffer
from cacheimpl.ring.locks import FileLocks
FileLocks.give_name = lambda locks: os.kill(os.getpid(), signal.SIGKILL)
SingleWriterShmRingBuffer(4096, sys.argv[1], create=True)
"""


def test_a_segment_without_a_name_of_its_own_goes_with_its_writer() -> None:
    """By Python's resource tracker, which does it when it finds that everybody who had it is gone."""
    killed = subprocess.run([sys.executable, "-c", ANONYMOUS], check=False, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL
    path = SHARED / killed.stdout.strip()
    assert path.name
    until = time.monotonic() + SECONDS
    while path.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not path.exists()


def test_who_dies_while_it_makes_a_segment_leaves_nothing(name: str) -> None:
    before = set(SHARED.iterdir())
    killed = subprocess.run([sys.executable, "-c", UNFINISHED, name], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert not {path for path in set(SHARED.iterdir()) - before if path.name.startswith((name, "cacheimpl"))}
    SingleWriterShmRingBuffer(RING_BYTES, name, create=True).close()


def test_of_several_that_begin_at_once_one_writes(name: str) -> None:
    def begin(_: int) -> SingleWriterShmRingBuffer | None:
        try:
            return SingleWriterShmRingBuffer(RING_BYTES, name, create=True)
        except WriterAliveError:
            return None

    for _ in range(10):
        with ThreadPoolExecutor(6) as pool:
            made = [ring for ring in pool.map(begin, range(6)) if ring is not None]
        assert len(made) == 1
        reader = SingleWriterShmRingBuffer(*made[0].handle())
        reader.close()
        made[0].close()


def test_what_is_not_ours_is_left_alone(name: str) -> None:
    foreign = SharedMemory(name=name, create=True, size=100_000)
    for call in (
        lambda: SingleWriterShmRingBuffer(RING_BYTES, name, create=True),
        lambda: SingleWriterShmRingBuffer(RING_BYTES, name),
        lambda: remove_stale(name),
    ):
        with pytest.raises(ForeignSegmentError):
            call()
    assert (SHARED / name).exists()
    assert name not in stale_segments()
    foreign.close()
    foreign.unlink()


def test_a_segment_that_has_no_room_is_not_begun(name: str) -> None:
    with pytest.raises(NoSpaceError):
        SingleWriterShmRingBuffer(2**50, name, create=True)
    assert not (SHARED / name).exists()


def test_processes_are_killed_at_random_and_nobody_gets_anything_else(start: Start, name: str) -> None:
    """Any number of kills, and every item that is read is whole and what its handle says; nobody hangs."""
    choose, version = random.Random(4), 0
    writer, readers = begun(start, name)
    handles: list[tuple[Handle, str, int]] = []
    outcomes: set[object] = set()
    for _ in range(300):
        turn = choose.random()
        if turn < 0.35:
            key, version = choose.choice("abcdefgh"), version + 1
            handle = writer.ask("put", key, version)
            if handle == "AlreadyStoredError":
                handle, version = writer.ask("hit", key), version - 1
                stored = [number for held, name_, number in handles if (held[0], held[1]) == (handle[0], handle[1])]
                handles.append((handle, key, stored[-1])) if stored else writer.ask("revoke", *handle)
            elif isinstance(handle, tuple):
                handles.append((handle, key, version))
            outcomes.add(handle if isinstance(handle, str) else "stored")
        elif turn < 0.85 and handles:
            handle, key, number = choose.choice(handles[-6:])
            found = readers[choose.randrange(READERS)].ask("get", *handle)
            assert found in (got(key, number), "StaleHandleError")
            outcomes.add(found if isinstance(found, str) else "read")
        elif turn < 0.93 and handles:
            outcomes.add(writer.ask("revoke", *choose.choice(handles)[0]))
        elif turn < 0.97:
            which = choose.randrange(READERS)
            readers[which].kill()
            readers[which] = start(read, name, which)
        else:
            writer.kill()
            writer = start(write, name)
            writer.ask("live")
    assert {"stored", "read", "StaleHandleError", True} <= outcomes
