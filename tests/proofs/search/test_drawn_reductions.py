"""In random configurations, too, canonical states may stand for the states themselves.

The scopes in the files have few settings each. A block that an era gives to a request without writing it shows only
where several meet: what was in its memory counts in the state, and not in its canonical form.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.planting import Change, planted
from tests.proofs.search.soundness import disagreements

from cacheproof.model.configurations import drawn
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named, components
from cachespec.scheduler import era_loads

STATES = 150
"""How many states of each configuration are looked at."""
LOADED_AGAIN = 82
"""In this configuration of seed 1, S3 loads into blocks that had the KV of another request."""

SUBJECTS = [pytest.param(name, tag, id=f"{name} {tag}") for name, one in components().items() for tag in one.variants]


def first_disagreement(component: str, tag: str, number: int, *, symmetry: bool) -> str | None:
    owner = component_named(component)
    plan = Plan(symmetry=symmetry)
    config: Any = drawn(owner, 1, number)
    return next(disagreements(owner, owner.variants[tag], config, plan, limit_states=STATES), None)


@pytest.mark.parametrize("symmetry", [True, False])
def test_what_was_in_new_blocks_of_a_load_is_lost(*, symmetry: bool) -> None:
    assert first_disagreement("scheduler", "S3", LOADED_AGAIN, symmetry=symmetry) is None


def test_a_load_that_keeps_what_was_in_its_blocks_is_noticed() -> None:
    """The planted bug: as the era was written before."""
    kept = Change(era_loads.load_begun, "load_lost(config, $waiting, request, $behind)", "$waiting")
    with planted(kept):
        assert first_disagreement("scheduler", "S3", LOADED_AGAIN, symmetry=False) is not None


@pytest.mark.nightly
@pytest.mark.parametrize(("component", "tag"), SUBJECTS)
def test_canonical_states_stand_for_the_states(component: str, tag: str) -> None:
    for number in range(20):
        for symmetry in (True, False):
            wrong = first_disagreement(component, tag, number, symmetry=symmetry)
            assert wrong is None, f"drawn-1-{number}: {wrong}"
