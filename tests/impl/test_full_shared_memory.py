"""Shared memory that is full: a segment is refused with one clear error, and no process ends with SIGBUS.

The scripts run in a mount namespace of their own, in which `/dev/shm` has a few MiB.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from cacheimpl.ring import SingleWriterShmRingBuffer, segment
from cacheimpl.ring.errors import NoSpaceError

MIB = 1 << 20
SECONDS = 100
USUAL = """
import gc, os, sys
from pathlib import Path
from cacheimpl.object_store import SingleWriterShmObjectStorage
from cacheimpl.ring import SingleWriterShmRingBuffer
from cacheimpl.ring.errors import NoSpaceError
MIB, SHARED = 1 << 20, Path("/dev/shm")

def used():
    free = os.statvfs(SHARED)
    return (free.f_blocks - free.f_bfree) * free.f_frsize

def refused(call):
    try:
        call()
    except NoSpaceError as error:
        return str(error)
    return None

def written(ring):
    ring.segment.data[:] = bytes([7]) * len(ring.segment.data)
    return bytes(ring.segment.data[-1:]) == bytes([7])
"""

TWO_RINGS = """
first = SingleWriterShmRingBuffer(3 * MIB, create=True)
print(refused(lambda: SingleWriterShmRingBuffer(3 * MIB, create=True)))
print(written(first), len(list(SHARED.iterdir())))
first.close()
second = SingleWriterShmRingBuffer(3 * MIB, create=True)
print(written(second))
second.close()
print(used())
"""

ROWS_OF_READERS = """
ring = SingleWriterShmRingBuffer(4 * MIB - 100_000, create=True)
print(refused(lambda: SingleWriterShmObjectStorage(1000, 4, ring)))
ring.close()
print(used())
"""

FILLED_BY_OTHERS = """
ring = SingleWriterShmRingBuffer(2 * MIB, create=True)
writer = SingleWriterShmObjectStorage(MIB, 1, ring)
reader = SingleWriterShmObjectStorage.create_from_handle(writer.handle(), reader=0)
with (SHARED / "other").open("wb", buffering=0) as other:
    try:
        while True:
            other.write(bytes(65536))
    except OSError as error:
        print(error.strerror)
for number in range(40):
    key = str(number)
    place = writer.put(key, bytes([number]) * (MIB // 2))
    assert reader.get(*place, writer.get_signature(key), key) == bytes([number]) * (MIB // 2)
print(refused(lambda: SingleWriterShmRingBuffer(MIB, create=True)))
(SHARED / "other").unlink()
reader.close()
writer.close()
del reader, writer, ring
gc.collect()
print(used())
"""

AGAIN_AND_AGAIN = """
import random
choose, rings, refusals = random.Random(int(sys.argv[1])), [], 0
for _ in range(200):
    made = refused(lambda: rings.append(SingleWriterShmRingBuffer(choose.randrange(1, 2 * MIB) + 100, create=True)))
    refusals += made is not None
    assert all(written(ring) for ring in rings)
    while rings and (made or choose.random() < 0.3):
        rings.pop(choose.randrange(len(rings))).close()
        made = None
for ring in rings:
    ring.close()
print(refusals > 20, used(), list(SHARED.iterdir()))
"""


def call_of(script: str, *arguments: str) -> list[str]:
    """The command that runs a script with 4 MiB of shared memory."""
    inside = f'mount -t tmpfs -o size={4 * MIB} tmpfs /dev/shm && exec "$@"'
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    return [*namespace, "sh", "-c", inside, "sh", sys.executable, "-c", USUAL + script, *arguments]


@cache
def why_not() -> str:
    """Why this machine gives a process no shared memory of its own; empty if it does."""
    if shutil.which("unshare") is None:
        return "there is no unshare"
    tried = subprocess.run(call_of(""), capture_output=True, text=True, check=False, timeout=SECONDS)
    return tried.stderr.strip()[-200:]


def printed(script: str, *arguments: str) -> list[str]:
    """What the script prints, line by line; it must end by itself."""
    if why_not():
        pytest.skip(f"no small shared memory here: {why_not()}")
    ended = subprocess.run(call_of(script, *arguments), capture_output=True, text=True, check=False, timeout=SECONDS)
    assert ended.returncode == 0, (ended.returncode, ended.stdout, ended.stderr)
    return ended.stdout.splitlines()


REFUSED = "[Errno 28] /dev/shm has no room for {} bytes"


def test_of_two_rings_that_do_not_fit_the_second_is_refused() -> None:
    assert printed(TWO_RINGS) == [REFUSED.format(3 * MIB), "True 1", "True", "0"]


def test_readers_whose_rows_do_not_fit_are_refused() -> None:
    refusal, left = printed(ROWS_OF_READERS)
    assert refusal.startswith("[Errno 28] /dev/shm has no room for")
    assert left == "0"


def test_a_store_goes_on_when_others_fill_the_rest() -> None:
    assert printed(FILLED_BY_OTHERS) == ["No space left on device", REFUSED.format(MIB), "0"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rings_are_made_and_refused_again_and_again(seed: int) -> None:
    assert printed(AGAIN_AND_AGAIN, str(seed)) == ["True 0 []"]


def test_a_refusal_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On any machine: the system call finds no memory."""

    def full(descriptor: int, first: int, nbytes: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    names, files = set(segment.FOLDER.iterdir()), len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(NoSpaceError, match="no room for 4096 bytes"):
        SingleWriterShmRingBuffer(4096, create=True)
    assert len(list(Path("/proc/self/fd").iterdir())) == files
    assert not {path for path in set(segment.FOLDER.iterdir()) - names if path.name.startswith(segment.ANONYMOUS)}


def test_another_error_of_the_system_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(descriptor: int, first: int, nbytes: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "posix_fallocate", broken)
    with pytest.raises(OSError, match="Input/output") as caught:
        SingleWriterShmRingBuffer(4096, create=True)
    assert not isinstance(caught.value, NoSpaceError)
