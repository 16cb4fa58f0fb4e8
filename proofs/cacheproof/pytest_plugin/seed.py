"""Where the seed of a run of pytest is kept."""

from __future__ import annotations

import pytest

SEED = pytest.StashKey[int]()
