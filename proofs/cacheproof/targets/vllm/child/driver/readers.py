"""Readers of a shared memory: in this process, or each in a process of its own.

What they map is the same memory either way. In processes of their own they are as in an engine: each has attached the
segment by its name with the release's own class, and nothing but calls and answers goes to and fro.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from .calls import Calls, DriverError, Reply

SECONDS_TO_ANSWER = 20.0
"""Of the clock. A call that computes for too long is ended in the reader's process, long before."""
DIES_WITH_ITS_PARENT = 1
"""The option of Linux's prctl that sends a signal to a process whose parent has died."""

Codes = Mapping[type[Exception], str]
Attach = Callable[..., Any]
"""Makes the release's reader; takes the lock that readers share, and what the driver gives."""
Call = Callable[..., Reply]
"""Takes the release's reader, and what the driver gives. A function of a module: it is told to others by its name."""


class Readers(Protocol):
    """All readers of one segment."""

    def attach(self, count: int, attach: Attach, *given: Any) -> None:
        """So many readers attach the segment; those that were there have let go of theirs."""
        ...

    def detach(self) -> None:
        """All of them let go of the segment."""
        ...

    def perform(self, reader: int, call: Call, *given: Any, codes: Codes | None = None) -> Reply:
        """One call of one reader; as `Calls.perform`."""
        ...


class ReadersHere:
    """In this process, where nobody has to be kept out by a lock."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._readers: list[Any] = []

    def attach(self, count: int, attach: Attach, *given: Any) -> None:
        """One after the other."""
        self.detach()
        self._readers = [attach(nullcontext(), *given) for _ in range(count)]

    def detach(self) -> None:
        """Nobody has them any more."""
        self._readers.clear()

    def perform(self, reader: int, call: Call, *given: Any, codes: Codes | None = None) -> Reply:
        """At once."""
        return self._calls.perform(lambda: call(self._readers[reader], *given), codes)


@dataclass(frozen=True, slots=True)
class Child:
    """One reader's process, and this end of the pipe to it."""

    process: Any
    pipe: Any


class ReadersApart:
    """Each in a process of its own, forked when it is first needed and kept for the segments that come."""

    def __init__(self, calls: Calls, seconds_to_answer: float = SECONDS_TO_ANSWER) -> None:
        self._calls = calls
        self._seconds = seconds_to_answer
        self._context = multiprocessing.get_context("fork")
        self._lock = self._context.Lock()
        self._children: list[Child] = []

    def attach(self, count: int, attach: Attach, *given: Any) -> None:
        """As many processes as are needed; each attaches by itself."""
        self.detach()
        while len(self._children) < count:
            self._children.append(self._forked())
        for number in range(count):
            self._answer(number, "attach", attach, given)

    def detach(self) -> None:
        """Processes stay."""
        for number in range(len(self._children)):
            self._answer(number, "detach")

    def perform(self, reader: int, call: Call, *given: Any, codes: Codes | None = None) -> Reply:
        """In the reader's process."""
        return Reply(*self._answer(reader, "perform", call, given, dict(codes or {})))

    def _forked(self) -> Child:
        ours, theirs = self._context.Pipe()
        others = [child.pipe for child in self._children]
        work = (theirs, [ours, *others], self._calls, self._lock, os.getpid())
        process = self._context.Process(target=serve, args=work, daemon=True)
        process.start()
        theirs.close()
        return Child(process, ours)

    def _answer(self, number: int, *message: Any) -> Any:
        """Whatever goes wrong here leaves no process, so that the next segment begins with new ones."""
        child = self._children[number]
        try:
            child.pipe.send(message)
            answered, told = child.pipe.recv() if child.pipe.poll(self._seconds) else (None, None)
        except (EOFError, OSError):
            self._end()
            raise DriverError(f"reader {number} has ended (exit status {child.process.exitcode})") from None
        if answered is None:
            self._end()
            raise DriverError(f"reader {number} has not answered within {self._seconds:g} s")
        if not answered:
            raise DriverError(f"reader {number}: {told}")
        return told

    def _end(self) -> None:
        for child in self._children:
            child.process.kill()
            child.process.join()
            child.pipe.close()
        self._children.clear()
        self._lock = self._context.Lock()  # one that was killed may have had it


def readers_of(calls: Calls) -> Readers:
    """As the driver was started."""
    return ReadersApart(calls) if calls.readers_apart else ReadersHere(calls)


def serve(pipe: Any, not_ours: list[Any], calls: Calls, lock: Any, parent: int) -> None:
    """The reader's process: does what it is told, until the other end of the pipe is closed or its parent has died."""
    ctypes.CDLL(None).prctl(DIES_WITH_ITS_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        return
    for other in not_ours:
        other.close()
    os.dup2(sys.stderr.fileno(), 1)  # what the host reads is the driver's own
    reader: Any = None
    while True:
        try:
            do, *rest = pipe.recv()
        except EOFError:
            return
        try:
            match do:
                case "attach":
                    attach, given = rest
                    reader, told = attach(lock, *given), None
                case "detach":
                    reader, told = None, None
                case "perform":
                    call, given, codes = rest
                    told = tuple(_performed(calls, reader, call, given, codes))
            pipe.send((True, told))
        except Exception as error:  # noqa: BLE001  # every failure of a reader is told as one of the driver
            pipe.send((False, f"{type(error).__name__}: {error}"))


def _performed(calls: Calls, reader: Any, call: Call, given: tuple[Any, ...], codes: Codes) -> Reply:
    return calls.perform(lambda: call(reader, *given), codes)


def forget_name(ring: Any) -> None:
    """All have attached the segment: its name goes now, so that nothing is left of it however this process ends."""
    memory = ring.shared_memory
    memory.unlink()
    memory.unlink = _nothing


def _nothing() -> None:
    """The release's own unlinking, at the end: the name is gone."""
