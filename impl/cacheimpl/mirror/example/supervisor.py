"""Starts the processes of the example, kills some of them, and starts those again."""

from __future__ import annotations

import random
import time
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cacheimpl.mirror.example.core import run_core
from cacheimpl.mirror.example.frontend import run_frontend
from cacheimpl.mirror.example.settings import Settings, write_run

TICK_SECONDS = 0.005
PROCESSES = get_context("fork")  # what is imported once is there at once; this process opens no socket


class Summary(NamedTuple):
    """What became of a run."""

    settled: bool
    """Whether every frontend that was not killed has ended with every request confirmed."""
    frontend_kills: int
    core_kills: int
    trouble: str


class Supervisor:
    """The processes of one run."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        source = random.Random(f"{settings.seed}/kills")  # noqa: S311  # faults, not a secret
        most = 2 * settings.requests * settings.frontends  # about two lines for a request
        self.kills = sorted(
            [(source.randrange(most // 8, most), "frontend") for _ in range(settings.frontend_kills)]
            + [(source.randrange(most // 8, most), "core") for _ in range(settings.core_kills)]
        )
        """After how many recorded lines of all frontends, and who."""
        self.lives = self.frontend_kills = self.core_kills = 0
        self.core = self.started_core()
        self.frontends = {f"front-{number}": self.started(f"front-{number}") for number in range(settings.frontends)}

    def run(self) -> Summary:
        """Until every frontend has ended, or the time is over, or something fails that nobody killed."""
        until, trouble = time.monotonic() + self.settings.seconds, ""
        while self.frontends and not trouble:
            time.sleep(TICK_SECONDS)
            if self.kills and self.recorded() > self.kills[0][0]:
                self.kill(self.kills.pop(0)[1])
            self.frontends = {name: one for name, one in self.frontends.items() if one.exitcode != 0}
            failed = [name for name, one in self.frontends.items() if one.exitcode is not None]
            if failed or self.core.exitcode is not None:
                trouble = f"{' and '.join(failed) or 'the core'} failed"
            elif time.monotonic() > until:
                trouble = f"{', '.join(self.frontends)} had not ended after {self.settings.seconds} seconds"
        for process in (*self.frontends.values(), self.core):
            process.terminate()
            process.join()
        return Summary(not trouble, self.frontend_kills, self.core_kills, trouble)

    def kill(self, who: str) -> None:
        """Kill -9, and another one in its place: a core that knows nothing, or a frontend of another name."""
        if who == "core":
            self.core.kill()
            self.core.join()
            self.core_kills += 1
            self.lives += 1
            self.core = self.started_core()
            return
        name, victim = next(iter(self.frontends.items()))
        if victim.exitcode is None:
            del self.frontends[name]
            victim.kill()
            victim.join()
            self.frontend_kills += 1
            again = f"{name}-again-{self.frontend_kills}"
            self.frontends[again] = self.started(again, self.settings.requests // 2)

    def started(self, name: str, requests: int | None = None) -> BaseProcess:
        """A frontend."""
        wanted = self.settings.requests if requests is None else requests
        process = PROCESSES.Process(target=run_frontend, args=(self.settings, name, wanted), name=name)
        process.start()
        return process

    def started_core(self) -> BaseProcess:
        """A core."""
        process = PROCESSES.Process(target=run_core, args=(self.settings, self.lives), name="core")
        process.start()
        return process

    def recorded(self) -> int:
        """Lines that all frontends have recorded."""
        return sum(path.read_bytes().count(b"\n") for path in Path(self.settings.folder).glob("P0.*.ndjson"))


def run(settings: Settings) -> Summary:
    """One run of the example, recorded in its folder."""
    write_run(settings)
    with TemporaryDirectory(prefix="mirror-") as place:  # the name of a socket has to be short
        return Supervisor(settings._replace(endpoint=f"ipc://{place}/core")).run()
