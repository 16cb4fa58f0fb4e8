"""TLC, the explorer of TLA+ models, from a jar that the user names."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import NamedTuple

from cacheproof.bench.peers.models import Counts, PeerScope, model_text
from cacheproof.bench.peers.process import Finished, finished
from cacheproof.foundation.errors import InconclusiveError, InputError, shortened

VIOLATED = 12
"""TLC's exit status where an invariant does not hold."""


class TlcRun(NamedTuple):
    """What TLC says at its end, and what it took."""

    counts: Counts
    violated: bool
    finished: Finished


def tlc_is_missing(jar: Path) -> str | None:
    """What a run of TLC needs and this machine lacks, or None."""
    if shutil.which("java") is None:
        return "java is not installed: apt-get install default-jre-headless"
    return None if jar.is_file() else f"{jar}: there is no such file: name tla2tools.jar with --with tlc=JAR"


class Tlc:
    """One scope for TLC, written into a folder. `text` replaces the model, to plant a difference in it."""

    def __init__(
        self, scope: PeerScope, jar: Path, folder: Path, *, invariant: bool = False, text: str | None = None
    ) -> None:
        """Raises `InputError` if Java or the jar is missing."""
        if (missing := tlc_is_missing(jar)) is not None:
            raise InputError(missing)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.jar = folder, jar.resolve()
        given = scope.given()
        model = model_text(scope.component, ".tla") if text is None else text
        (folder / f"{scope.component}.tla").write_text(model, encoding="utf-8")
        (folder / "Scope.tla").write_text(given.module, encoding="utf-8")
        checked = "INVARIANT Invariant\n" if invariant else ""
        (folder / "Scope.cfg").write_text(given.settings + checked, encoding="utf-8")

    def run(self) -> TlcRun:
        """Explore with one worker; raises `InconclusiveError` if TLC has no result."""
        java = ("java", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={self.folder}", "-cp", str(self.jar))
        asked = ("-workers", "1", "-deadlock", "-nowarning", "-metadir", str(self.folder / "states"))
        done = finished((*java, "tlc2.TLC", *asked, "-config", "Scope.cfg", "Scope"), self.folder)
        shutil.rmtree(self.folder / "states", ignore_errors=True)
        counted = re.findall(r"^(\d+) states generated, (\d+) distinct states found", done.output, re.MULTILINE)
        if done.status not in (0, VIOLATED) or not counted:
            raise InconclusiveError(f"TLC failed with status {done.status}: {shortened(done.output[-300:])}")
        generated, distinct = counted[-1]
        return TlcRun(Counts(int(distinct), int(generated) - 1), done.status == VIOLATED, done)
