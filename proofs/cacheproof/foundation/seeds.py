"""Seeds of random choices."""

from __future__ import annotations

import secrets

LARGEST_SEED = 1 << 32


def new_seed() -> int:
    """A seed that nobody chose."""
    return secrets.randbelow(LARGEST_SEED)
