"""A writer and three readers of the object store at full speed, killed and stopped at random times.

Every item that a reader gets is whole, nothing hangs, and nothing is left in shared memory.
"""

from __future__ import annotations

import random
from pathlib import Path

from tests.attacks.attack import Attack, FellShortError
from tests.impl.store_load import Load

KILLS = 40
SHARED = Path("/dev/shm")


def trial(source: random.Random, folder: Path) -> str:
    """One load. Its seed chooses items and kills; where a kill strikes depends on time too."""
    name = f"{folder.name}-{source.randrange(1 << 32)}"
    try:
        Load(folder, name, source.randrange(1 << 32)).run(kills=KILLS)
        if left := sorted(path.name for path in SHARED.glob(f"{name}*")):
            raise FellShortError(f"segments are left: {left}")
    except AssertionError as error:
        raise FellShortError(str(error) or "an assertion of the load failed") from error
    finally:
        for path in SHARED.glob(f"{name}*"):
            path.unlink()
    return f"loads with {KILLS} kills"


ATTACK = Attack("kills", "readers and writers of a store are killed", trial)
