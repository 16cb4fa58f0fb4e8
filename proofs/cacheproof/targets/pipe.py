"""A child process that answers lines: one line out, one line back, within a time limit, and never a hang of ours."""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import shlex
import signal
import subprocess
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from cacheproof.foundation.errors import InputError, shortened
from cacheproof.foundation.limits import LONGEST
from cacheproof.model.protocol import LONGEST_LINE_BYTES
from cacheproof.model.target import Failure, TargetError
from cacheproof.targets.crash import cause_in, crash_report

SECONDS_TO_LEAVE = 1.0
"""How long a child may take to end by itself once its input is closed, before it is killed."""
TAIL_BYTES = 1 << 16
"""How much of its standard error is kept, to be quoted when it fails: a panic is followed by many stacks."""
CHUNK_BYTES = 1 << 16
MARK_VARIABLE = "CACHEPROOF_CHILD"
"""In the environment of a child and of all that it starts: by it they are found when it has to end."""


class ChildProcess:
    """A running child in a process group of its own. POSIX only: it needs `select` on pipes.

    Raises InputError when the command cannot be started, TargetError for whatever goes wrong later; after a
    TargetError the child is gone.
    """

    def __init__(self, command: str) -> None:
        mark = secrets.token_hex(16)
        self._process = _started(command, mark)
        self._reap = weakref.finalize(self, _kill, self._process, mark)
        self._pending = b""
        self._tail = b""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._input, self._output, self._errors = self._process.stdin, self._process.stdout, self._process.stderr
        for pipe in (self._input, self._output, self._errors):
            os.set_blocking(pipe.fileno(), False)

    def ask(self, line: bytes, seconds: float) -> bytes:
        """Send a line and return the line that answers it."""
        try:
            return self._exchange(line, time.monotonic() + seconds, seconds)
        except TargetError:
            self.kill()
            raise

    def leave(self, line: bytes) -> None:
        """Send a last line, close the child's input, and see to it that the child ends."""
        with contextlib.suppress(OSError):
            os.write(self._input.fileno(), line)
        with contextlib.suppress(OSError):
            self._input.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(SECONDS_TO_LEAVE)
        self.kill()

    def kill(self) -> None:
        """End the child and its descendants, and take its exit status; nothing if it was done."""
        self._reap()
        for pipe in (self._input, self._output, self._errors):
            with contextlib.suppress(OSError):
                pipe.close()

    @property
    def process_id(self) -> int:
        """The child's own process id."""
        return self._process.pid

    def _exchange(self, line: bytes, deadline: float, seconds: float) -> bytes:
        if self._pending or self._receive(self._output.fileno()):
            said = f"the child spoke without being asked: {_quoted(self._pending)}"
            raise TargetError(said, Failure.SPOKE_UNASKED)
        unsent = line
        while b"\n" not in self._pending or unsent:
            if len(self._pending) >= LONGEST_LINE_BYTES:
                raise TargetError(f"the child's answer is longer than {LONGEST_LINE_BYTES} bytes", Failure.TOO_LONG)
            unsent = self._turn(unsent, deadline, seconds)
        answer, _, self._pending = self._pending.partition(b"\n")
        if self._pending:
            said = f"the child answered more than was asked: {_quoted(self._pending)}"
            raise TargetError(said, Failure.SPOKE_UNASKED)
        return answer

    def _turn(self, unsent: bytes, deadline: float, seconds: float) -> bytes:
        """Wait until something can be written or read, and do it; returns what is still to be sent."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            if not self._errors.closed:
                selector.register(self._errors, selectors.EVENT_READ)
            if unsent:
                selector.register(self._input, selectors.EVENT_WRITE)
            left = min(deadline - time.monotonic(), LONGEST)
            ready = selector.select(left) if left > 0 else []
            if not ready:
                silent = f"the child did not answer within {seconds:g} seconds{self._last_words()}"
                raise TargetError(silent, Failure.TIMED_OUT)
            for key, _ in ready:
                if key.fileobj is self._errors:
                    self._listen()
                elif key.fileobj is self._output:
                    self._hear()
                else:
                    unsent = self._send(unsent)
        return unsent

    def _send(self, unsent: bytes) -> bytes:
        try:
            return unsent[os.write(self._input.fileno(), unsent) :]
        except BlockingIOError:
            return unsent
        except OSError:
            raise self._crashed() from None

    def _hear(self) -> None:
        if not self._receive(self._output.fileno()):
            raise self._crashed()

    def _receive(self, descriptor: int) -> bool:
        """Whether the child had said something; it is added to what is pending."""
        try:
            heard = os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            heard = b""
        self._pending += heard
        return bool(heard)

    def _listen(self) -> bool:
        """Keep the end of what it says on standard error, so that it never blocks there; whether it said something."""
        try:
            said = os.read(self._errors.fileno(), CHUNK_BYTES)
        except BlockingIOError:
            return False
        self._tail = (self._tail + said)[-TAIL_BYTES:]
        if not said:
            self._errors.close()
        return bool(said)

    def _crashed(self) -> TargetError:
        """How it ended: its exit status or signal, and what its standard error says of that."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(SECONDS_TO_LEAVE)
        while not self._errors.closed and self._listen():
            pass
        status = self._process.poll()
        if status is None:
            how = "closed its standard output"
        elif status < 0:
            how = f"was ended by {_signal_name(-status)}"
        else:
            how = f"ended with exit status {status}"
        return TargetError(f"the child {how}{self._last_words()}", Failure.CRASHED, crash_report(self._tail))

    def _last_words(self) -> str:
        lines = self._tail.decode("utf-8", "replace").strip().splitlines()
        if not lines:
            return ""
        cause = cause_in(lines)
        what = "its standard error" if cause is not None else "the last line of its standard error"
        return f"; {what}: {shortened(lines[-1] if cause is None else cause)}"


def _started(command: str, mark: str) -> subprocess.Popen[bytes]:
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise InputError(f"'{command}' is not a command: {error}") from None
    if not arguments:
        raise InputError("exec: needs a command, as in exec:'python child.py'")
    try:
        return subprocess.Popen(  # noqa: S603  # running the user's command is what this target is
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            env={**os.environ, MARK_VARIABLE: mark},
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot run '{arguments[0]}': {reason}") from None


def _kill(process: subprocess.Popen[bytes], mark: str) -> None:
    """End the group, even if the child has gone, and the descendants that left it by `setsid`."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for descendant in _marked(mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(descendant, signal.SIGKILL)


def _marked(mark: str) -> Iterator[int]:
    """The processes whose environment has the mark; none on a system without /proc."""
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # another user's, or gone meanwhile
            if wanted in environment.read_bytes().split(b"\0"):
                yield int(environment.parent.name)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _quoted(said: bytes) -> str:
    return shortened(repr(said[:60])[1:])
