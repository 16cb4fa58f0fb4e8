"""Seeds of random choices."""

from __future__ import annotations

import secrets

LARGEST_SEED = 1 << 32


def new_seed() -> int:
    """A random seed, for a run that was given none."""
    return secrets.randbelow(LARGEST_SEED)
