"""One process at a time. The system lets go of a lock when its holder ends, in whatever way."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cacheproof.foundation.console import announce


@contextmanager
def locked_file(lock: Path, waiting: str | None = None) -> Iterator[None]:
    """No other process holds this file meanwhile. It is made if it is missing; its folder must be there.

    If another process holds it, this waits. A signal ends the wait. `waiting` is announced first; processes of one run
    that wait for one another announce nothing.
    """
    with lock.open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                announce(waiting)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
