"""Readers of a shared memory in processes of their own: which processes there are, and what is left of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named
from cacheproof.targets.factory import open_target
from cacheproof.targets.vllm.release import START

BEGINNING = """
    import json, os, sys, time
    from multiprocessing import shared_memory
    from pathlib import Path
    from types import SimpleNamespace

    sys.path.insert(0, sys.argv[1])
    from driver.calls import Calls, DriverError, Reply
    from driver.readers import ReadersApart, ReadersHere, forget_name

    def attach(lock, name):
        with lock:
            return shared_memory.SharedMemory(name)

    def look(memory, place):
        return Reply("hit", (memory.buf[place], os.getpid()))

    def hang(memory, seconds):
        time.sleep(seconds)
        return Reply("done")

    def compute(memory):
        while True:
            pass

    def end(memory, status):
        os._exit(status)

    def fail(memory):
        raise AttributeError("no such thing")

    def failure(call, seconds=20.0):
        readers._seconds = seconds
        try:
            return list(call())
        except DriverError as error:
            return str(error)
        finally:
            readers._seconds = 20.0

    calls = Calls(Path("/"), (0, 0))
    memory = shared_memory.SharedMemory(create=True, size=4)
    memory.buf[2] = 7
    readers = ReadersApart(calls)
    readers.attach(2, attach, memory.name)
    there = Path("/dev/shm", memory.name.lstrip("/"))
    told = lambda **named: print(json.dumps(named), flush=True)
"""


def script(body: str) -> str:
    return textwrap.dedent(BEGINNING) + textwrap.dedent(body)


def ran(body: str) -> dict[str, Any]:
    """What the script tells."""
    command = [sys.executable, "-c", script(body), str(START.parent)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


def is_there(pid: int) -> bool:
    """A process that is there and not just waiting to be reaped."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return False


def gone(pids: list[int]) -> bool:
    """Whether all of them end within a while."""
    until = time.monotonic() + 10.0
    while any(map(is_there, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(map(is_there, pids))


def test_each_is_a_process_and_reads_what_was_written() -> None:
    told = ran("""
        first, second = readers.perform(0, look, 2), readers.perform(1, look, 2)
        memory.buf[2] = 8
        later = readers.perform(0, look, 2)
        here = ReadersHere(calls)
        here.attach(1, attach, memory.name)
        ours = here.perform(0, look, 2)
        forget_name(SimpleNamespace(shared_memory=memory))
        told(values=[first.values[0], later.values[0], ours.values[0]], pids=[first.values[1], second.values[1]],
             again=later.values[1], ours=ours.values[1], own=os.getpid(), left=there.exists())
    """)
    assert told["values"] == [7, 8, 8]
    assert len({*told["pids"], told["own"]}) == 3
    assert (told["again"], told["ours"]) == (told["pids"][0], told["own"])
    assert not told["left"]
    assert gone(told["pids"])


def test_processes_are_kept_for_the_next_segment() -> None:
    told = ran("""
        before = readers.perform(0, look, 2).values
        other = shared_memory.SharedMemory(create=True, size=4)
        readers.attach(3, attach, other.name)
        after = [readers.perform(number, look, 2).values for number in range(3)]
        for one in (memory, other):
            forget_name(SimpleNamespace(shared_memory=one))
        told(before=before, after=after)
    """)
    assert [value for value, _ in told["after"]] == [0, 0, 0]
    assert told["before"] == [7, told["after"][0][1]]


@pytest.mark.parametrize(
    ("call", "seconds", "said"),
    [
        ("hang, 60", 0.5, "reader 1 has not answered within 0.5 s"),
        ("end, 3", 20.0, "reader 1 has ended (exit status 3)"),
    ],
)
def test_a_reader_that_hangs_or_ends_is_a_failure_and_leaves_no_process(call: str, seconds: float, said: str) -> None:
    told = ran(f"""
        pids = [readers.perform(number, look, 2).values[1] for number in range(2)]
        said = failure(lambda: readers.perform(1, {call}), {seconds})
        left = [pid for pid in pids if Path("/proc", str(pid)).exists()]
        readers.attach(2, attach, memory.name)
        again = readers.perform(1, look, 2).values[0]
        forget_name(SimpleNamespace(shared_memory=memory))
        told(said=said, left=left, again=again)
    """)
    assert told == {"said": said, "left": [], "again": 7}


def test_outcomes_and_failures_are_told_apart_in_a_reader_too() -> None:
    told = ran("""
        diverged, failed = readers.perform(0, compute), failure(lambda: readers.perform(0, fail))
        after = readers.perform(0, look, 2).values[0]
        forget_name(SimpleNamespace(shared_memory=memory))
        told(diverged=diverged.code, failed=failed, after=after)
    """)
    assert (told["diverged"], told["after"]) == ("diverged", 7)
    assert told["failed"].startswith("reader 0: DriverError: the driver does not fit: no such thing at ")


@pytest.mark.parametrize("whole_group", [False, True])
def test_nothing_is_left_of_a_driver_that_is_killed(*, whole_group: bool) -> None:
    body = """
        pids = [readers.perform(number, look, 2).values[1] for number in range(2)]
        forget_name(SimpleNamespace(shared_memory=memory))
        told(pids=pids, left=there.exists())
        time.sleep(60)
    """
    command = [sys.executable, "-c", script(body), str(START.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as driver:
        assert driver.stdout is not None
        told = json.loads(driver.stdout.readline())
        assert all(map(is_there, told["pids"]))
        (os.killpg if whole_group else os.kill)(driver.pid, signal.SIGKILL)
    assert not told["left"]
    assert gone(told["pids"])


def test_only_what_is_shared_has_readers() -> None:
    lru = component_named("lru")
    with pytest.raises(InputError, match="readers-apart is for ring and object_store"):
        open_target("vllm==0.33.0:readers-apart", lru, lru.normative)
