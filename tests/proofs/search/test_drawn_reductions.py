"""In random configurations, too, canonical states may stand for the states themselves.

The scopes in the files have few settings each. A block that an era gives to a request without writing it shows only
where several meet: what was in its memory counts in the state, and not in its canonical form.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.planting import Change, planted
from tests.proofs.search.soundness import disagreements

from cacheproof.model.configurations import GENERATORS, drawn
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named, components
from cacheproof.search.reference import explore
from cachespec.scheduler import Config, era_loads

STATES = 150
"""How many states of each configuration are looked at."""
LOADED_AGAIN = Config(
    block_size=1,
    kv_blocks=11,
    token_budget=6,
    encoder_compute=3,
    encoder_capacity=5,
    max_running=3,
    max_model_len=11,
    prompts=(4, 2, 7),
    outputs=(4, 3, 3),
    items=((), (), ((0, 2, 2),)),
    external=(3, 2, 6),
    drafts=3,
    whole_items=1,
    watermark=2,
    aborts=1,
    loads_later=(0, 0, 1),
    load_failures=1,
    failed_loads_end=1,
)
"""Here S3 loads into blocks that had the KV of another request. It was drawn once."""

SUBJECTS = [
    pytest.param(name, tag, id=f"{name} {tag}")
    for name, one in components().items()
    if name in GENERATORS
    for tag in one.variants
]


def first_disagreement(component: str, tag: str, config: Any, *, symmetry: bool) -> str | None:
    owner = component_named(component)
    plan = Plan(symmetry=symmetry)
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
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("component", "tag"), SUBJECTS)
def test_canonical_states_stand_for_the_states(component: str, tag: str) -> None:
    for number in range(20):
        for symmetry in (True, False):
            config = drawn(component_named(component), 1, number)
            wrong = first_disagreement(component, tag, config, symmetry=symmetry)
            assert wrong is None, f"drawn-1-{number}: {wrong}"


@pytest.mark.parametrize(("component", "tag"), SUBJECTS)
def test_a_variant_can_be_explored_in_random_configurations(component: str, tag: str) -> None:
    """A variant that is about one setting takes the others, too: `explore` draws them."""
    owner = component_named(component)
    for number in range(3):
        explored = explore(owner, owner.variants[tag], drawn(owner, 1, number), Plan(limit_states=10))
        assert explored.states > 0


def test_three_sorts_with_draft_layers_can_be_explored_in_an_era_of_two() -> None:
    """Seldom drawn: full attention, two windows, and draft layers. 0.11.0 has two sorts at most."""
    owner = component_named("layer_groups")
    config = owner.config(
        blocks=8, kinds=(0, 1, 1), spans=(0, 2, 3), drafting=(1, 1, 1), chains=((0, 1),), lengths=(2,), many=1
    )
    assert owner.invalid(config) is None
    assert explore(owner, owner.variants["K1"], config, Plan(limit_states=100)).states > 1
