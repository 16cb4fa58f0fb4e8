"""The mirror behind a network that drops, doubles, reorders and corrupts, with frontends and cores that are killed."""

from __future__ import annotations

import random
from pathlib import Path

from tests.attacks.attack import Attack, FellShortError
from tests.impl.mirror_attack import Attack as MirrorRun
from tests.impl.mirror_attack import Rates

from cacheimpl.mirror.errors import MirrorError

ROUNDS = 1500


def trial(source: random.Random, folder: Path) -> str:
    """A run of random rates."""
    drop, double, corrupt = (source.choice((0.0, 0.02, 0.1, 0.3)) for _ in range(3))
    rates = Rates(drop, double, corrupt, kill=source.choice((0.0, 0.005, 0.05)))
    try:
        MirrorRun(source.randrange(1 << 32), rates).run(ROUNDS)
    except (AssertionError, MirrorError, ValueError, LookupError) as error:
        raise FellShortError(f"{type(error).__name__}: {error}") from error
    return f"runs of {ROUNDS} rounds"


ATTACK = Attack("proxy", "the mirror behind a hostile network", trial)
