"""Work in a child process: what ends it, such as a crash, does not end this one."""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from cacheproof.mutants.watch import Stopped

BETWEEN_LOOKS = 0.1
PIECE = 1 << 16


class EndedError(Exception):
    """The child process has ended without a result. `late`: its processor time was over."""

    def __init__(self, *, late: bool, signalled: int) -> None:
        super().__init__("its time was over" if late else f"its process was ended by signal {signalled}")
        self.late = late


def apart(work: Callable[[], Any], seconds: float, most_bytes: int, stopped: Stopped) -> Any:
    """What `work` returns in a forked process. It must not raise.

    `seconds` bounds its processor time, `most_bytes` its memory. Raises `EndedError`, and `KeyboardInterrupt` soon
    after `stopped` says so.
    """
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        _perform(work, into, seconds, most_bytes)
    os.close(into)
    try:
        data = _read(out, stopped)
    except BaseException:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    finally:
        os.close(out)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) or not data:
        number = os.WTERMSIG(status)
        raise EndedError(late=number == signal.SIGVTALRM, signalled=number)
    return pickle.loads(data)  # noqa: S301  # our own child wrote it


def _read(out: int, stopped: Stopped) -> bytes:
    """All that the child writes."""
    pieces: list[bytes] = []
    while True:
        if stopped():
            raise KeyboardInterrupt
        ready, _, _ = select.select([out], [], [], BETWEEN_LOOKS)
        if ready:
            piece = os.read(out, PIECE)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)


def _perform(work: Callable[[], Any], into: int, seconds: float, most_bytes: int) -> None:
    """In the child: the parent hears Ctrl-C, and the timer's own action ends even code that never returns."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))
        data = pickle.dumps(work())
        while data:
            data = data[os.write(into, data) :]
    finally:
        os._exit(0)
