"""Workers of a crew that are processes of this machine.

They are started anew (`spawn`), so it works on every platform. A worker that dies ends the exploration with an error
that says so: on one machine, whatever ended it would most likely end another one too. Workers whose parent dies read
the end of their pipe, and end.
"""

from __future__ import annotations

import gc
import multiprocessing
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Self

from cacheproof.foundation.interruption import deaf, leave_to_parent
from cacheproof.search.linked import Link, Linked, LostError
from cacheproof.search.worker import Reply, Subject, Worker

GRACE_SECONDS = 2.0
"""That anybody can ask for: each is an interpreter of its own."""


class Piped:
    """A process at the other end of a pipe."""

    def __init__(self, subject: Subject, place: int, owners: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_work, args=(theirs, subject, place, owners), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, number: int, question: str, arguments: tuple[Any, ...]) -> None:
        try:
            self.pipe.send((number, question, arguments))
        except OSError:
            raise self._lost() from None

    def reply(self) -> Reply:
        try:
            reply: Reply = self.pipe.recv()
        except (EOFError, OSError):
            raise self._lost() from None
        return reply

    def close(self) -> None:
        self.pipe.close()
        self.process.join(GRACE_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()

    def _lost(self) -> LostError:
        """A worker whose pipe has ended is gone, or is about to be."""
        self.process.join(GRACE_SECONDS)
        code = self.process.exitcode
        how = (
            "does not answer" if code is None else f"was ended by signal {-code}" if code < 0 else f"exited with {code}"
        )
        return LostError(how)


class Processes(Linked):
    """As many processes as there are owners."""

    def __init__(self, subject: Subject, owners: int, *, recovers: bool = False) -> None:
        told = subject.plain()

        def begin(place: int) -> Link:
            return Piped(told, place, owners)

        super().__init__(owners, begin, recovers=recovers)

    def __enter__(self) -> Self:
        with deaf():
            return super().__enter__()


# In a worker process --------------------------------------------------------------------------------------------------


def _work(pipe: Connection, subject: Subject, place: int, owners: int) -> None:
    """Answer until the parent is gone. The parent alone handles Ctrl-C and SIGTERM."""
    leave_to_parent()
    gc.disable()
    worker = Worker(subject, place, owners)
    while True:
        try:
            question = pipe.recv()
        except (EOFError, OSError):
            return
        reply = worker.answer(*question)
        try:
            pipe.send(reply)
        except OSError:
            return
