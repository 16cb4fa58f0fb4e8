"""A child process: its output, the processor time of all its threads, and its peak resident memory."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cacheproof.foundation.errors import InconclusiveError, shortened

LOOK_EVERY = 0.005
"""Seconds between two readings of the memory. The kernel keeps the peak, so only the last growth is lost."""


class Finished(NamedTuple):
    """A process that has ended."""

    output: str
    status: int
    seconds: float
    """Processor time, of the user and of the system."""
    peak_bytes: int


def finished(command: Sequence[str], folder: Path) -> Finished:
    """Run a command to its end in this folder."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # noqa: S603
        peak = 0
        try:
            while True:
                peak = max(peak, _peak_of(process.pid))
                ended, status, usage = os.wait4(process.pid, os.WNOHANG)
                if ended:
                    break
                time.sleep(LOOK_EVERY)
        except BaseException:
            process.kill()
            process.wait()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    return Finished(text, process.returncode, usage.ru_utime + usage.ru_stime, peak)


def succeeded(command: Sequence[str], folder: Path, what: str) -> Finished:
    """The same; raises `InconclusiveError` with the end of the output if the command fails."""
    done = finished(command, folder)
    if done.status != 0:
        raise InconclusiveError(f"{what} failed with status {done.status}: {shortened(done.output[-200:])}")
    return done


def _peak_of(pid: int) -> int:
    """The peak resident memory so far, or 0 if the process has just ended or the system does not say."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
