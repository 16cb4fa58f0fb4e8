"""What a run of the example is given, and what its processes agree on without asking."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, NamedTuple

FORMAT, VERSION = "cacheproof-mirror-recording", "0.1"


class Settings(NamedTuple):
    """One run. The same seed makes the same requests, and the same choices of faults for each message in turn."""

    folder: str
    """Where the processes record what they do."""
    seed: int = 0
    frontends: int = 1
    requests: int = 200
    """Of each frontend; one that starts again has half of them."""
    contents: int = 12
    capacity: int = 160
    """Bytes of each sender's cache, and of its partition."""
    outstanding: int = 6
    """Requests of one frontend that are unconfirmed."""
    drop: float = 0.04
    """Share of messages that are lost, in both directions."""
    delay: float = 0.2
    """Share of messages that come late, and so out of order."""
    latest: float = 0.03
    """Seconds that such a message is late at most."""
    patience: float = 0.1
    """Seconds without an answer before a frontend asks."""
    frontend_kills: int = 1
    """How often a frontend is killed and started again, under a new name."""
    core_kills: int = 1
    core_resets: int = 3
    """How often the core forgets everything on its own, early in the life of each process."""
    frontend_resets: float = 0.005
    """Share of requests before which a frontend forgets what it knows."""
    seconds: float = 60.0
    """After which the run is given up."""
    endpoint: str = ""
    """Where the core is; a run chooses it."""

    @property
    def names(self) -> int:
        """How many frontends there are over the whole run, those that start again included."""
        return self.frontends + self.frontend_kills

    def recording(self, process: str) -> Path:
        """The file that a process writes."""
        return Path(self.folder) / f"{process}.ndjson"

    def sizes(self) -> dict[str, int]:
        """Bytes of every content, by its key; one is larger than the cache."""
        source = random.Random(f"{self.seed}/sizes")  # noqa: S311  # a workload, not a secret
        sizes = {f"image-{number}": source.randint(16, self.capacity // 4) for number in range(self.contents - 1)}
        return {**sizes, "panorama": self.capacity + 1}


def payload_of(key: str, size: int) -> bytes:
    """So many bytes that say whose they are."""
    return key.encode().ljust(size, b".")


def key_of(payload: bytes) -> str:
    """Whose payload it is."""
    return payload.rstrip(b".").decode()


def write_run(settings: Settings) -> None:
    """What whoever validates the recording has to know: sizes, capacity, who takes part."""
    described: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "capacity": settings.capacity,
        "partitions": settings.names,
        "sizes": settings.sizes(),
        "seed": settings.seed,
    }
    (Path(settings.folder) / "run.json").write_text(json.dumps(described, indent=1) + "\n")
