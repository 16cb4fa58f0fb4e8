"""The object store under load: kills and stops at any point leave no foreign byte, no hang and no segment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.impl.store_load import Load


@pytest.fixture
def name() -> Iterator[str]:
    chosen = f"cacheproof-test-{uuid4().hex[:12]}"
    yield chosen
    (Path("/dev/shm") / chosen).unlink(missing_ok=True)


def test_kills_under_load(tmp_path: Path, name: str) -> None:
    tally = Load(tmp_path, name, seed=1).run(kills=12)
    assert tally.reads > 100
    assert tally.stale > 0


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_many_kills_under_load(tmp_path: Path, name: str, seed: int) -> None:
    tally = Load(tmp_path, name, seed).run(kills=400)
    print(f"seed {seed}: {tally}")  # for who runs it
    assert tally.reads > 10_000
