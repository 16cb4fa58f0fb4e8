"""Random calls in every scope find each planted bug in our functions, and nothing without one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.impl.function_bugs import BUGS, changes
from tests.planting import Change
from tests.proofs.lockstep.finding_power import Bug, found, without_shrinking

from cacheproof.model.store import HOME_VARIABLE

STEPS, SEED = 5_000, 1


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))


def fuzzed(component: str, *bug: Change) -> str:
    with without_shrinking():
        return found(Bug(component, "", component, "torch", bug), "lockstep", SEED, STEPS)


@pytest.mark.parametrize("component", BUGS)
def test_without_a_bug_nothing_is_found(component: str) -> None:
    assert fuzzed(component) == ""


@pytest.mark.parametrize(("component", "bug"), [(component, bug) for component, bugs in BUGS.items() for bug in bugs])
def test_each_bug_is_caught(component: str, bug: str) -> None:
    assert fuzzed(component, changes(component)[bug])
