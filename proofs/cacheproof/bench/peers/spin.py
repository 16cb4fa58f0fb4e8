"""Spin: a Promela model becomes a C program, the compiler a verifier of it, and the verifier explores the scope."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import NamedTuple

from cacheproof.bench.peers.models import Counts, PeerScope, model_text
from cacheproof.bench.peers.process import Finished, finished, succeeded
from cacheproof.foundation.errors import InconclusiveError, InputError, shortened

FLAGS = ("-w", "-DSAFETY", "-DNOREDUCE")
"""Of the C compiler: every state and every transition is explored, and no cycle is looked for."""
SMALLEST_TABLE = 10
SHOWS_PEAK = """\
#include <stdio.h>
#include <string.h>
__attribute__((destructor)) static void show_peak(void) {
  char line[256];
  FILE *status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status))
    if (!strncmp(line, "VmHWM:", 6)) fputs(line, stdout);
}
"""
"""Linked into the verifier: a short run ends before its memory can be read from outside."""


class SpinRun(NamedTuple):
    """What the verifier says at its end, and what it took."""

    counts: Counts
    errors: int
    vector_bytes: int
    """Of one state, before the table's own overhead."""
    finished: Finished


def spin_is_missing() -> str | None:
    """What a run of Spin needs and this machine lacks, or None."""
    if shutil.which("spin") is None:
        return "spin is not installed: apt-get install spin"
    return "there is no C compiler: apt-get install gcc" if _compiler() is None else None


def _compiler() -> str | None:
    return shutil.which("gcc") or shutil.which("cc")


class Spin:
    """The verifier of one scope, built once in a folder. `text` replaces the model, to plant a difference in it.

    It is compiled with `-O2` if it is `optimized`, which takes four times as long.
    """

    def __init__(
        self,
        scope: PeerScope,
        folder: Path,
        *,
        invariant: bool = False,
        text: str | None = None,
        optimized: bool = True,
    ) -> None:
        """Raises `InputError` if Spin is missing, and `InconclusiveError` if the model cannot be built."""
        if (missing := spin_is_missing()) is not None:
            raise InputError(missing)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        (folder / "scope.h").write_text(scope.given().header, encoding="utf-8")
        model = model_text(scope.component, ".pml") if text is None else text
        (folder / "model.pml").write_text(model, encoding="utf-8")
        asked = ("-DINVARIANT",) if invariant else ()
        built = succeeded(("spin", *asked, "-a", "model.pml"), folder, "spin -a")
        if not (folder / "pan.c").exists():
            raise InconclusiveError(f"spin -a: {shortened(built.output)}")
        compiler = _compiler()
        assert compiler is not None
        (folder / "peak.c").write_text(SHOWS_PEAK, encoding="utf-8")
        succeeded(
            (compiler, "-O2" if optimized else "-O0", *FLAGS, "-o", "pan", "pan.c", "peak.c"),
            folder,
            "compiling the verifier",
        )

    def run(self, states: int) -> SpinRun:
        """Explore; `states` is how many are expected. The table has at least as many slots, and the stack the room.

        Raises `InconclusiveError` if the search was cut short by its limits.
        """
        slots = max(SMALLEST_TABLE, states.bit_length())
        done = finished((str(self.folder / "pan"), f"-w{slots}", f"-m{states + states // 2 + 1000}"), self.folder)
        if "max search depth too small" in done.output or "out of memory" in done.output:
            raise InconclusiveError(f"Spin found more than the {states:,} states that were expected")
        return SpinRun(
            Counts(_number(done, r"(\S+) states, stored"), _number(done, r"(\S+) transitions \(= stored") - 1),
            _number(done, r"errors: (\d+)"),
            _number(done, r"State-vector (\d+) byte"),
            done._replace(peak_bytes=1024 * _number(done, r"VmHWM:\s+(\d+)")),
        )


def _number(done: Finished, pattern: str) -> int:
    found = re.search(pattern, done.output)
    if found is None:
        raise InconclusiveError(f"Spin did not report its counts: {shortened(done.output[-200:])}")
    return int(float(found[1]))
