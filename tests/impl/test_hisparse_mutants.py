"""Planted bugs in HiSparse: random runs notice each of them."""

from __future__ import annotations

import pytest
from tests.impl.hisparse_bugs import BUGS
from tests.impl.hisparse_engine import Engine
from tests.impl.hisparse_loads import LOADS
from tests.planting import planted

SEEDS, STEPS = 12, 60


def noticed() -> str:
    """The first problem of some runs; nothing if there is none."""
    for seed in range(SEEDS):
        for load in LOADS.values():
            try:
                problems = Engine(load, seed).run(STEPS)
            except Exception as error:  # noqa: BLE001  # a bug may end in any of them
                return f"{type(error).__name__}: {error}"
            if problems:
                return problems[0]
    return ""


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_noticed(bug: str) -> None:
    with planted(BUGS[bug]):
        assert noticed()
